package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestTheCRDsOfGatewayAPIComeOnRequestAndAreOfOneVersion(t *testing.T) {
	include := func(install string) []Object {
		manifests, err := Helm("template", "fairway", Path("charts", "fairway"), "--include-crds", "--set-json", "gatewayApi.crds.install="+install)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := Decode(manifests)
		if err != nil {
			t.Fatal(err)
		}
		return objects
	}
	version := "v" + first(t, "appVersion: ", "charts", "fairway", "charts", "gateway-api-crds", "Chart.yaml")
	if pinned := first(t, "\tsigs.k8s.io/gateway-api ", "conformance", "gateway", "go.mod"); pinned != version {
		t.Errorf("the suite is of %s, the CRDs of the chart of %s: run `make gateway-crds`", pinned, version)
	}
	kinds := sets.New[string]()
	for _, object := range include("true") {
		if object.Kind != "CustomResourceDefinition" {
			continue
		}
		definition := object.Typed.(*unstructured.Unstructured)
		names, _, err := unstructured.NestedMap(definition.Object, "spec", "names")
		if err != nil {
			t.Fatal(err)
		}
		kinds.Insert(names["plural"].(string))
		about := definition.GetAnnotations()
		if about["gateway.networking.k8s.io/bundle-version"] != version || about["gateway.networking.k8s.io/channel"] != "standard" {
			t.Errorf("%s is not of the standard channel of %s: %v", object.Name, version, about)
		}
	}
	for rule := range permissions(render(t, `gatewayApi.enabled=true`)) {
		if _, resource, found := strings.Cut(rule, " gateway.networking.k8s.io/"); found {
			if kind, _, _ := strings.Cut(strings.Fields(resource)[0], "/"); !kinds.Has(kind) {
				t.Errorf("a permission for %s, which no CRD of the chart has", kind)
			}
		}
	}
	if kinds.Len() < 8 {
		t.Errorf("only %v", sets.List(kinds))
	}
	for _, object := range include("false") {
		if object.Kind == "CustomResourceDefinition" || strings.Contains(object.Name, "gateway") {
			t.Errorf("by default there is %s %s", object.Kind, object.Name)
		}
	}
}

func TestASecondInstallationServesClassesOfItsOwnController(t *testing.T) {
	const flag = "--gateway-controller="
	of := func(values ...string) (flags []string, class string) {
		objects := render(t, append(slices.Clone(variants["Gateway API"]), values...)...)
		for _, argument := range one[appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0].Args {
			if name, found := strings.CutPrefix(argument, flag); found {
				flags = append(flags, name)
			}
		}
		return flags, fmt.Sprint(tree(t, objects, "GatewayClass")["spec"])
	}
	if flags, _ := of(); len(flags) != 0 {
		t.Errorf("by default there is %s%v", flag, flags)
	}
	flags, class := of(`gatewayApi.controllerName="example.com/second"`)
	if fmt.Sprint(flags) != "[example.com/second]" || class != "map[controllerName:example.com/second]" {
		t.Errorf("%v, %s", flags, class)
	}
}

func TestGatewaysLeadToThePodsThroughAServiceThatKubernetesKeeps(t *testing.T) {
	values := variants["Gateway API"]
	objects := render(t, values...)
	if class := tree(t, objects, "GatewayClass"); fmt.Sprint(class["spec"]) != "map[controllerName:fairway.dev/gateway-controller]" {
		t.Errorf("%v", class["spec"])
	}
	kept := services(t, values...)["fairway-gateways"]
	pods := one[appsv1.Deployment](t, objects).Spec.Selector.MatchLabels
	if kept == nil || kept.Spec.ClusterIP != corev1.ClusterIPNone || !maps.Equal(kept.Spec.Selector, pods) || kept.Spec.PublishNotReadyAddresses {
		t.Errorf("%v", kept)
	}
	if services(t)["fairway-gateways"] != nil {
		t.Error("the Service is there without gatewayApi.enabled")
	}
}
