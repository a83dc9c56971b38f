package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

func TestEveryObjectHasTheCommonLabels(t *testing.T) {
	manifests, err := Render(variants["labels of everything"]...)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(manifests, "\n---\n") {
		if !strings.Contains(document, "    team: edge") {
			t.Errorf("no label in\n%s", document)
		}
	}
	pod := one[appsv1.Deployment](t, render(t, variants["labels of everything"]...)).Spec.Template
	if pod.Labels["team"] != "edge" {
		t.Errorf("%v", pod.Labels)
	}
	closer := render(t, `commonLabels={"team":"edge"}`, `labels.team="a"`, `service.labels.team="b"`, `podLabels.team="c"`)
	deployment, service := one[appsv1.Deployment](t, closer), one[corev1.Service](t, closer)
	got := []string{deployment.Labels["team"], service.Labels["team"], deployment.Spec.Template.Labels["team"]}
	if !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("common labels go before those of an object: %v", got)
	}
}

// Decoding is strict: a label that comes twice fails the test.
func TestALabelThatIsGivenTwiceComesOnce(t *testing.T) {
	own := `{"team":"a","app.kubernetes.io/name":"mine","app.kubernetes.io/component":"mine","helm.sh/chart":"mine"}`
	values := []string{
		`commonLabels={"team":"edge","app.kubernetes.io/name":"mine","app.kubernetes.io/component":"mine","app.kubernetes.io/instance":"mine"}`,
		`labels=` + own, `podLabels=` + own, `service.labels=` + own, `internalService={"enabled":true,"labels":` + own + `}`,
		`metrics={"service":{"enabled":true,"labels":` + own + `},"serviceMonitor":{"enabled":true,"labels":` + own +
			`},"dashboard":{"enabled":true,"labels":` + own + `},"rules":{"enabled":true,"labels":` + own + `}}`,
		`webhook.enabled=true`, `networkPolicy.enabled=true`, `gatewayApi.enabled=true`,
	}
	objects := render(t, values...)
	labelled := 0
	for _, object := range objects {
		accessor, err := meta.Accessor(object.Typed)
		if err != nil {
			t.Fatal(err)
		}
		labels := accessor.GetLabels()
		if labels["app.kubernetes.io/name"] != "fairway" || labels["app.kubernetes.io/instance"] != "fairway" {
			t.Errorf("%s %s: the labels that selectors look for were replaced: %v", object.Kind, object.Name, labels)
		}
		if labels["team"] == "a" {
			labelled++
		}
	}
	// The workload, both Services of clients, that of metrics, the ServiceMonitor, the dashboard, the alerts.
	if labelled != 7 {
		t.Errorf("%d objects have labels of their own", labelled)
	}
	for _, service := range services(t, values...) {
		component, is := service.Labels["app.kubernetes.io/component"], strings.TrimPrefix(service.Name, "fairway-")
		if (is == "metrics" || is == "webhook") && component != is {
			t.Errorf("%s: component %s", service.Name, component)
		}
	}
	if pod := one[appsv1.Deployment](t, objects).Spec.Template; pod.Labels["app.kubernetes.io/name"] != "fairway" {
		t.Errorf("%v", pod.Labels)
	}
}
