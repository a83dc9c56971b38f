package chart

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// alerts returns the names and the expressions of all alerts of the PrometheusRule.
func alerts(t *testing.T, objects []Object) map[string]string {
	t.Helper()
	found := map[string]string{}
	groups, _, err := unstructured.NestedSlice(tree(t, objects, "PrometheusRule"), "spec", "groups")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		rules, _, err := unstructured.NestedSlice(group.(map[string]any), "rules")
		if err != nil || len(rules) == 0 {
			t.Fatalf("%v %v", group, err)
		}
		for _, rule := range rules {
			rule := rule.(map[string]any)
			found[rule["alert"].(string)] = rule["expr"].(string)
		}
	}
	return found
}

func TestAlertsAndDashboardNameTheLabelsAsTheMonitorKeepsThem(t *testing.T) {
	for honor, renamed := range map[string]bool{"true": false, "false": true} {
		objects := render(t, `metrics={"dashboard":{"enabled":true},"rules":{"enabled":true},"service":{"enabled":true},"serviceMonitor":{"enabled":true,"honorLabels":`+honor+`}}`)
		var dashboard *corev1.ConfigMap
		for _, object := range objects {
			if found, ok := object.Typed.(*corev1.ConfigMap); ok && found.Labels["grafana_dashboard"] == "1" {
				dashboard = found
			}
		}
		if dashboard == nil {
			t.Fatal("no ConfigMap that the sidecar of Grafana finds")
		}
		text := dashboard.Data["fairway.json"]
		if !json.Valid([]byte(text)) || !strings.Contains(text, "{{ingress}}") {
			t.Errorf("not a dashboard: %.80s", text)
		}
		rules := alerts(t, objects)
		if len(rules) < 15 {
			t.Errorf("only %d alerts", len(rules))
		}
		for where, text := range map[string]string{"the dashboard": text, "FairwayErrorRate": rules["FairwayErrorRate"]} {
			if strings.Contains(text, "exported_namespace") != renamed {
				t.Errorf("honorLabels %s: %s does not name the namespace as Prometheus does", honor, where)
			}
		}
		endpoints, _, err := unstructured.NestedSlice(tree(t, objects, "ServiceMonitor"), "spec", "endpoints")
		if err != nil || fmt.Sprint(endpoints[0].(map[string]any)["honorLabels"]) != honor {
			t.Errorf("honorLabels %s: %v %v", honor, endpoints, err)
		}
	}
}

// Dashboards and alerts of ingress-nginx find the labels that they know.
func TestLabelsAreHonoredOnlyWhenAskedFor(t *testing.T) {
	objects := render(t, `metrics={"rules":{"enabled":true},"service":{"enabled":true},"serviceMonitor":{"enabled":true}}`)
	endpoints, _, err := unstructured.NestedSlice(tree(t, objects, "ServiceMonitor"), "spec", "endpoints")
	if err != nil || endpoints[0].(map[string]any)["honorLabels"] != false {
		t.Errorf("%v %v", endpoints, err)
	}
	if !strings.Contains(alerts(t, objects)["FairwayErrorRate"], "exported_namespace") {
		t.Error("the alerts name the labels otherwise than Prometheus does")
	}
}

func TestAlertsCanBeLeftOutAndAdded(t *testing.T) {
	all := alerts(t, render(t, `metrics.rules.enabled=true`))
	some := alerts(t, render(t, variants["a dashboard and alerts"]...))
	if _, found := some["FairwaySlow"]; found || len(some) != len(all) || some["Own"] == "" {
		t.Errorf("%v", some)
	}
	for _, object := range render(t) {
		if object.Kind == "PrometheusRule" || strings.HasSuffix(object.Name, "-dashboard") {
			t.Errorf("by default there is %s %s", object.Kind, object.Name)
		}
	}
}
