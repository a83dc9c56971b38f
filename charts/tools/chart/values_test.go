package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

func TestLintFindsNothing(t *testing.T) {
	for name, values := range variants {
		t.Run(name, func(t *testing.T) {
			arguments := []string{"lint", "--strict", "--quiet", Path("charts", "fairway")}
			for _, value := range values {
				arguments = append(arguments, "--set-json", value)
			}
			if out, err := Helm(arguments...); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestWrongValuesAreRefusedWithTheirName(t *testing.T) {
	for _, wrong := range []struct {
		told   string
		values []string
	}{
		{"replica", []string{`replica=3`}},
		{"kind", []string{`kind="StatefulSet"`}},
		{"drain", []string{`drain.timeout="4m"`}},
		{"drain/margin", []string{`drain.margin=0`}},
		{"sessionTickets/rotation", []string{`sessionTickets.rotation=59`}},
		{"sessionTickets/rotation", []string{`sessionTickets.rotation=43201`}},
		{"ports/http", []string{`ports.http=0`}},
		{"externalTrafficPolicy", []string{`service.externalTrafficPolicy="local"`}},
		{"hsts", []string{`settings.hsts=false`}},
		{"trustedForwarders", []string{`trustedForwarders=["everybody"]`}},
		{"extraArgs", []string{`extraArgs=["body-rate"]`}},
		{"defaultCertificate", []string{`defaultCertificate="a/b/c"`}},
		{"terminationGracePeriodSeconds", []string{`terminationGracePeriodSeconds=30`}},
		{"webhook.existingSecret needs webhook.caBundle", []string{`webhook.existingSecret="a"`}},
		{"webhook.caBundle without webhook.existingSecret", []string{`webhook.caBundle="QQ=="`}},
		{"watch.namespaceSelector contradict", []string{`watch={"namespaces":["a"],"namespaceSelector":"b=c"}`}},
		{"hostPorts contradict", []string{`hostNetwork=true`, `hostPorts.http=80`}},
		{"needs metrics.service.enabled", []string{`metrics.serviceMonitor.enabled=true`}},
		{"there is no alert FairwayNothing", []string{`metrics.rules={"enabled":true,"disabled":["FairwayNothing"]}`}},
		{"metrics/rules/disabled", []string{`metrics.rules.disabled=["Other"]`}},
		{"needs kind Deployment", []string{`kind="DaemonSet"`, `autoscaling.enabled=true`}},
		{"minReplicas is larger", []string{`autoscaling={"enabled":true,"minReplicas":5,"maxReplicas":4}`}},
		{"podDisruptionBudget takes", []string{`podDisruptionBudget.minAvailable=1`}},
		{"service.healthCheckNodePort needs", []string{`service.healthCheckNodePort=30000`}},
		{"internalService.healthCheckNodePort needs", []string{`internalService.healthCheckNodePort=30000`}},
		{"service.ports has no port", []string{`service.ports={"http":null,"https":null}`}},
		{"targetPorts/https", []string{`service.targetPorts.https="tohttps"`}},
		{"extraVolumeMounts", []string{`extraVolumeMounts=[{"name":"v"}]`}},
		{"ports.admin and ports.probe are both 10255", []string{`ports.admin=10255`}},
		{"tcp.8443 is ports.https", []string{`tcp={"8443":"db/pg:5432"}`}},
		{"tcp.80 is", []string{`tcp={"80":"db/pg:5432"}`}},
		{"http3.enabled and proxyProtocol.listeners", []string{`http3.enabled=true`, `proxyProtocol.listeners="both"`}},
		{"http3.enabled and proxyProtocol.listeners", []string{`http3.enabled=true`, `proxyProtocol.listeners="https"`}},
		{"udp.443 is the UDP port of http3", []string{`http3.enabled=true`, `udp={"443":"db/pg:5432"}`}},
		{"udp.8443 is the UDP port of http3", []string{`http3.enabled=true`, `udp={"8443":"db/pg:5432"}`}},
		{"one of those that Gateways get", []string{`udp={"20001":"db/pg:5432"}`, `gatewayApi.enabled=true`}},
		{"waf/auditLog", []string{`waf.auditLog="-"`}},
		{"ports.http and ports.waf are both 9002", []string{`ports.http=9002`}},
		{"telemetry/endpoint", []string{`telemetry.endpoint="collector:4317"`}},
		{"telemetry/endpoint", []string{`telemetry.endpoint="http://u:p@collector:4317"`}},
		{"telemetry/protocol", []string{`telemetry.protocol="grpcs"`}},
		{"telemetry/metricsInterval", []string{`telemetry.metricsInterval=0.5`}},
		{"telemetry/traces/sampleRatio", []string{`telemetry.traces.sampleRatio=1.5`}},
		{"telemetry/traces/propagation", []string{`telemetry.traces.propagation="b3"`}},
		{"telemetry.headersSecret needs telemetry.endpoint", []string{`telemetry.headersSecret="keys"`}},
		{"telemetry.caSecret needs an endpoint with https", []string{`telemetry={"endpoint":"http://a:4317","caSecret":"authority"}`}},
		{"telemetry.logs and logs.access off", []string{`telemetry.logs=true`, `logs.access="off"`}},
		{"tcp/9000", []string{`tcp={"9000":"pg:5432"}`}},
		{"udp/9000", []string{`udp={"9000":"db/pg:5432:PROXY"}`}},
		{"dns", []string{`tcp={"dns":"db/pg:5432"}`}},
	} {
		t.Run(strings.Join(wrong.values, " "), func(t *testing.T) {
			_, err := Render(wrong.values...)
			if err == nil {
				t.Fatal("was accepted")
			}
			if !strings.Contains(err.Error(), wrong.told) {
				t.Errorf("does not say %q: %v", wrong.told, err)
			}
		})
	}
}

func TestEveryValueIsInTheReadmeAndEveryNameThereIsAValue(t *testing.T) {
	text, err := os.ReadFile(Path("charts", "fairway", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(Path("charts", "fairway", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	described := sets.New[string]()
	for _, line := range strings.Split(string(readme), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for index, word := range strings.Split(cells[1], "`") {
				if index%2 == 1 {
					described.Insert(word)
				}
			}
		}
	}
	for name := range described {
		path := strings.Split(name, ".")
		if _, found, err := unstructured.NestedFieldNoCopy(values, path...); !found || err != nil {
			t.Errorf("README.md describes %s, which is no value", name)
		}
	}
	for _, leaf := range leaves("", values) {
		parts := strings.Split(leaf, ".")
		covered := false
		for length := range parts {
			covered = covered || described.Has(strings.Join(parts[:length+1], "."))
		}
		if !covered {
			t.Errorf("README.md does not describe %s", leaf)
		}
	}
}

func leaves(path string, value any) []string {
	branches, ok := value.(map[string]any)
	if !ok || len(branches) == 0 {
		return []string{path}
	}
	var found []string
	for name, branch := range branches {
		found = append(found, leaves(strings.TrimPrefix(path+"."+name, "."), branch)...)
	}
	return found
}

// What `fairway migrate values` makes of values of the chart of ingress-nginx, as its own tests keep it.
func TestMigratedValuesAreValuesOfTheChart(t *testing.T) {
	files, err := filepath.Glob(Path("crates", "fairway", "tests", "fixtures", "values", "*", "out.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			manifests, err := Helm("template", "fairway", Path("charts", "fairway"), "--namespace", Namespace, "--values", file)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(manifests); err != nil {
				t.Error(err)
			}
		})
	}
}
