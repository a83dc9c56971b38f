package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// variants are values that reach every branch of the templates.
var variants = map[string][]string{
	"defaults": nil,
	"labels of everything": {
		`commonLabels={"team":"edge"}`, `labels={"c":"d"}`, `annotations={"a":"b"}`, `webhook.enabled=true`,
		`autoscaling.enabled=true`, `metrics.service.enabled=true`, `networkPolicy.enabled=true`,
		`gatewayApi={"enabled":true,"gatewayClass":{"enabled":true}}`,
	},
	"Gateway API": {
		`gatewayApi={"enabled":true,"crds":{"install":true},"gatewayClass":{"enabled":true,"name":"edge","annotations":{"a":"b"}}}`,
		`networkPolicy.enabled=true`, `policies.crds.install=true`,
	},
	"Gateway API in listed namespaces": {`gatewayApi.enabled=true`, `watch.namespaces=["a"]`},
	"Gateway API in shadow mode":       {`gatewayApi.enabled=true`, `status.enabled=false`},
	"an internal Service only": {
		`service.enabled=false`,
		`internalService={"enabled":true,"annotations":{"a":"b"},"ports":{"http":null,"https":8443},"nodePorts":{"https":30443}}`,
	},
	"two Services": {`internalService={"enabled":true,"type":"ClusterIP","labels":{"a":"b"}}`, `service.targetPorts.https="http"`},
	"a daemon set in the network of the node": {
		`kind="DaemonSet"`, `hostNetwork=true`, `ports={"http":80,"https":443}`, `service.enabled=false`,
		`status.publishAddresses=["192.0.2.1","2001:db8::1"]`, `stateDir.enabled=false`,
	},
	"ports of the node":      {`kind="DaemonSet"`, `hostPorts={"http":80,"https":443}`, `service.type="ClusterIP"`},
	"listed namespaces":      {`watch.namespaces=["a","b"]`, `defaultCertificate="certificates/main"`},
	"no Secrets but these":   {`rbac.secretNamespaces=["a"]`, `defaultCertificate="main"`},
	"namespaces by label":    {`watch.namespaceSelector="team in (a, b)"`},
	"shadow mode":            {`status.enabled=false`, `ingressClass={"compat":true,"enabled":false,"withoutClass":true}`},
	"a webhook":              {`webhook.enabled=true`, `watch.namespaces=["a"]`},
	"a webhook of one's own": {`webhook={"enabled":true,"existingSecret":"mine","caBundle":"QQ==","failurePolicy":"Fail","namespaceSelector":{"matchLabels":{"a":"b"}},"objectSelector":{"matchLabels":{"c":"d"}},"annotations":{"a":"b"}}`},
	"scaling and metrics": {
		`autoscaling={"enabled":true,"targetMemoryUtilizationPercentage":70,"behavior":{"scaleDown":{"stabilizationWindowSeconds":60}},"metrics":[{"type":"Pods","pods":{"metric":{"name":"m"},"target":{"type":"AverageValue","averageValue":"10"}}}]}`,
		`metrics={"service":{"enabled":true,"annotations":{"a":"b"},"labels":{"c":"d"}},"serviceMonitor":{"enabled":true,"labels":{"e":"f"},"scrapeTimeout":"5s","relabelings":[{"action":"labelmap"}],"metricRelabelings":[{"action":"drop"}]}}`,
		`networkPolicy={"enabled":true,"metricsFrom":[{"namespaceSelector":{}}]}`,
		`podDisruptionBudget={"maxUnavailable":null,"minAvailable":"50%"}`,
	},
	"a dashboard and alerts": {
		`metrics={"service":{"enabled":true},"serviceMonitor":{"enabled":true,"honorLabels":false},"dashboard":{"enabled":true,"annotations":{"a":"b"}},"rules":{"enabled":true,"labels":{"release":"prometheus"},"annotations":{"c":"d"},"disabled":["FairwaySlow"],"additionalGroups":[{"name":"own","rules":[{"alert":"Own","expr":"vector(1)"}]}]}}`,
	},
	"TCP and UDP services": {
		`tcp={"53":"kube-system/kube-dns:53","5432":"db/pg:postgres:PROXY:PROXY"}`, `udp={"53":"kube-system/kube-dns:53"}`,
		`service.nodePorts={"tcp":{"5432":30432},"udp":{"53":30053}}`, `hostPorts.services=true`, `networkPolicy.enabled=true`,
		`watch.namespaces=["db"]`, `proxyProtocol.trusted=["10.0.0.0/8"]`, `gatewayApi.enabled=true`,
	},
	"a Service with everything": {
		`service={"annotations":{"a":"b"},"labels":{"c":"d"},"ports":{"http":81,"https":444},"nodePorts":{"http":30080,"https":30443},"externalTrafficPolicy":"Local","healthCheckNodePort":30000,"ipFamilies":["IPv4","IPv6"],"clusterIP":"10.0.0.1","externalIPs":["192.0.2.7"],"loadBalancerIP":"192.0.2.8","loadBalancerClass":"example.com/class","loadBalancerSourceRanges":["192.0.2.0/24"],"allocateLoadBalancerNodePorts":false,"sessionAffinity":"ClientIP","trafficDistribution":"PreferClose"}`,
		`proxyProtocol={"listeners":"both","trusted":["10.0.0.0/8"]}`, `trustedForwarders=["10.0.0.0/8","fd00::/8"]`,
	},
	"pods with everything": {
		`image={"digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}`,
		`imagePullSecrets=[{"name":"pull"}]`, `workers=2`, `maxMemory="400MiB"`, `extraArgs=["--body-rate=0"]`,
		`extraEnv=[{"name":"A","value":"b"}]`, `serviceAccount={"create":false,"name":"given","annotations":{"a":"b"}}`,
		`nodeSelector={"a":"b"}`, `tolerations=[{"operator":"Exists"}]`, `affinity={"podAntiAffinity":{}}`,
		`priorityClassName="system-cluster-critical"`, `podAnnotations={"a":"b"}`, `podLabels={"c":"d"}`,
		`updateStrategy={"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%"}}`, `fullnameOverride="edge"`,
		`settings={"hsts":"false"}`, `status={"publishService":"other/balancer","electionId":"leader"}`,
		`extraVolumes=[{"name":"v","emptyDir":{}}]`, `extraVolumeMounts=[{"name":"v","mountPath":"/v"}]`,
		`extraInitContainers=[{"name":"i","image":"i"}]`, `extraContainers=[{"name":"c","image":"c"}]`,
		`runtimeClassName="gvisor"`, `dnsConfig={"options":[{"name":"ndots","value":"2"}]}`,
		`hostAliases=[{"ip":"192.0.2.9","hostnames":["a.test"]}]`,
		`bindAddress="0.0.0.0"`, `existingSettings="shared/settings"`, `rbac.create=false`,
	},
}

func render(t *testing.T, values ...string) []Object {
	t.Helper()
	manifests, err := Render(values...)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Decode(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// one returns the single object of this type.
func one[T any](t *testing.T, objects []Object) *T {
	t.Helper()
	var found []*T
	for _, object := range objects {
		if typed, ok := object.Typed.(any).(*T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T", len(found), *new(T))
	}
	return found[0]
}

func TestEveryVariantIsMadeOfFieldsThatKubernetesHas(t *testing.T) {
	for name, values := range variants {
		t.Run(name, func(t *testing.T) {
			seen := sets.New[Object]()
			for _, object := range render(t, values...) {
				object.Typed = nil
				if seen.Has(object) {
					t.Errorf("twice: %v", object)
				}
				seen.Insert(object)
			}
			if seen.Len() < 4 {
				t.Errorf("only %d objects", seen.Len())
			}
		})
	}
}

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
		{"one of those that Gateways get", []string{`udp={"20001":"db/pg:5432"}`, `gatewayApi.enabled=true`}},
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

// tree returns the single object of this kind that Kubernetes has no type for.
func tree(t *testing.T, objects []Object, kind string) map[string]any {
	t.Helper()
	for _, object := range objects {
		if object.Kind == kind {
			return object.Typed.(*unstructured.Unstructured).Object
		}
	}
	t.Fatalf("no %s", kind)
	return nil
}

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

func TestThePlainManifestIsWhatTheChartRenders(t *testing.T) {
	rendered, err := output(exec.Command(Path("charts", "tools", "render")))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(Path("deploy", "fairway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if rendered != string(kept) {
		t.Error("deploy/fairway.yaml is not what the chart renders: run `make deploy`")
	}
	if _, err := Decode(rendered); err != nil {
		t.Error(err)
	}
	if strings.Contains(rendered, "Helm") {
		t.Error("deploy/fairway.yaml says that Helm manages it")
	}
}

func TestTCPAndUDPServicesAreReachedThroughThePortsOfPodsAndServices(t *testing.T) {
	objects := render(t, variants["TCP and UDP services"]...)
	maps := map[string]map[string]string{}
	var service *corev1.Service
	for _, object := range objects {
		switch typed := object.Typed.(type) {
		case *corev1.ConfigMap:
			maps[typed.Name] = typed.Data
		case *corev1.Service:
			if typed.Name == "fairway" {
				service = typed
			}
		}
	}
	if got := maps["fairway-tcp"]["5432"]; got != "db/pg:postgres:PROXY:PROXY" {
		t.Errorf("%q of %v", got, maps)
	}
	if got := maps["fairway-udp"]; len(got) != 1 || got["53"] != "kube-system/kube-dns:53" {
		t.Errorf("%v", got)
	}
	pod := one[appsv1.Deployment](t, objects).Spec.Template.Spec
	container := pod.Containers[0]
	for _, flag := range []string{
		"--tcp-services-configmap=edge/fairway-tcp", "--udp-services-configmap=edge/fairway-udp",
		"--proxy-protocol-trusted=10.0.0.0/8",
	} {
		if !slices.Contains(container.Args, flag) {
			t.Errorf("no %s in %v", flag, container.Args)
		}
	}
	inPod := map[string]corev1.ContainerPort{}
	for _, port := range container.Ports {
		inPod[port.Name] = port
	}
	type end struct {
		port     int32
		protocol corev1.Protocol
		node     int32
	}
	got := map[end]bool{}
	for _, port := range service.Spec.Ports {
		target, found := inPod[port.TargetPort.StrVal]
		if !found || target.Protocol != port.Protocol && target.Protocol != "" {
			t.Errorf("%v leads nowhere", port)
		}
		if target.HostPort != 0 && target.HostPort != target.ContainerPort {
			t.Errorf("%v", target)
		}
		got[end{target.ContainerPort, port.Protocol, port.NodePort}] = true
	}
	for _, want := range []end{
		{53, corev1.ProtocolTCP, 0}, {53, corev1.ProtocolUDP, 30053}, {5432, corev1.ProtocolTCP, 30432},
	} {
		if !got[want] {
			t.Errorf("no %v in %v", want, got)
		}
	}
	if sysctls := pod.SecurityContext.Sysctls; len(sysctls) != 1 || sysctls[0].Value != "53" {
		t.Errorf("a user without capabilities cannot bind port 53: %v", sysctls)
	}
	if sysctls := one[appsv1.Deployment](t, render(t)).Spec.Template.Spec.SecurityContext.Sysctls; len(sysctls) != 0 {
		t.Errorf("nothing needs %v", sysctls)
	}
}

func TestPodsAskForNothingThatARestrictedNamespaceRefuses(t *testing.T) {
	pod := one[appsv1.Deployment](t, render(t)).Spec.Template.Spec
	container := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%v", pod.SecurityContext)
	}
	allowed := container.SecurityContext
	if *allowed.AllowPrivilegeEscalation || !*allowed.ReadOnlyRootFilesystem || len(allowed.Capabilities.Add) != 0 ||
		!slices.Equal(allowed.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%v", allowed)
	}
	for _, port := range container.Ports {
		if port.ContainerPort < 1024 || port.HostPort != 0 {
			t.Errorf("%v", port)
		}
	}
	for _, volume := range pod.Volumes {
		if volume.EmptyDir == nil || volume.EmptyDir.Medium != corev1.StorageMediumMemory {
			t.Errorf("private keys would reach a disk: %v", volume)
		}
	}
	if len(container.Resources.Limits) != 1 || container.Resources.Limits.Memory().IsZero() {
		t.Errorf("%v", container.Resources)
	}
}

func TestOnlyTheProbePageLeavesLoopback(t *testing.T) {
	for name, values := range variants {
		manifests, err := Render(values...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(manifests, "--admin=127.0.0.1:10254\n") || strings.Contains(manifests, "containerPort: 10254") {
			t.Errorf("%s: the admin server is not on loopback", name)
		}
	}
}

func TestThePodIsKilledOnlyAfterItsDrain(t *testing.T) {
	for _, values := range [][]string{nil, {`drain={"delay":30,"timeout":3600,"margin":5}`}} {
		pod := one[appsv1.Deployment](t, render(t, values...)).Spec.Template.Spec
		var drain int64
		for _, argument := range pod.Containers[0].Args {
			if flag, value, _ := strings.Cut(argument, "="); strings.HasPrefix(flag, "--drain-") {
				var seconds int64
				if err := json.Unmarshal([]byte(value), &seconds); err != nil {
					t.Fatal(err)
				}
				drain += seconds
			}
		}
		if drain == 0 || *pod.TerminationGracePeriodSeconds < drain+5 {
			t.Errorf("killed after %d s, but drains for %d", *pod.TerminationGracePeriodSeconds, drain)
		}
	}
}

func TestARollNeverTakesAPodBeforeItsSuccessorIsReadyUnlessTheyShareAPort(t *testing.T) {
	rolling := one[appsv1.Deployment](t, render(t)).Spec.Strategy.RollingUpdate
	if rolling.MaxUnavailable.IntValue() != 0 || rolling.MaxSurge.IntValue() != 1 {
		t.Errorf("%v", rolling)
	}
	for _, values := range [][]string{{`hostNetwork=true`}, {`hostPorts.http=80`}} {
		rolling := one[appsv1.DaemonSet](t, render(t, append(values, `kind="DaemonSet"`)...)).Spec.UpdateStrategy.RollingUpdate
		if rolling.MaxUnavailable.IntValue() != 1 || rolling.MaxSurge.IntValue() != 0 {
			t.Errorf("%v: %v", values, rolling)
		}
	}
}

// permissions lists what a rendered release may do: "NAMESPACE group/resource[names] verbs", "*" for the cluster.
func permissions(objects []Object) sets.Set[string] {
	all := sets.New[string]()
	for _, object := range objects {
		namespace, rules := "*", []rbacv1.PolicyRule(nil)
		switch role := object.Typed.(type) {
		case *rbacv1.ClusterRole:
			rules = role.Rules
		case *rbacv1.Role:
			namespace, rules = role.Namespace, role.Rules
		}
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				line := namespace + " " + strings.TrimPrefix(rule.APIGroups[0]+"/"+resource, "/")
				if len(rule.ResourceNames) > 0 {
					line += "[" + strings.Join(rule.ResourceNames, " ") + "]"
				}
				all.Insert(line + " " + strings.Join(rule.Verbs, " "))
			}
		}
	}
	return all
}

// watched are the permissions where Ingresses are served.
func watched(namespace string) []string {
	return []string{
		namespace + " networking.k8s.io/ingresses get list watch",
		namespace + " networking.k8s.io/ingresses/status patch",
		namespace + " services get list watch",
		namespace + " configmaps get list watch",
		namespace + " discovery.k8s.io/endpointslices get list watch",
		namespace + " events.k8s.io/events create patch",
	}
}

// gateways are the permissions where Gateways are served, those of Ingresses left out.
func gateways(namespace string) []string {
	group := namespace + " gateway.networking.k8s.io/"
	found := []string{
		group + "referencegrants get list watch",
		namespace + " services create patch delete",
		namespace + " discovery.k8s.io/endpointslices create update delete",
	}
	for _, kind := range []string{
		"gateways", "listenersets", "httproutes", "grpcroutes", "tlsroutes", "tcproutes", "udproutes", "backendtlspolicies",
	} {
		found = append(found, group+kind+" get list watch", group+kind+"/status update patch")
	}
	for _, kind := range []string{"clienttrafficpolicies", "backendtrafficpolicies", "securitypolicies"} {
		kind = namespace + " fairway.dev/" + kind
		found = append(found, kind+" get list watch", kind+"/status update patch")
	}
	return found
}

// classes are the permissions for Gateway API that no Role can give, and those in the namespace of the release.
var classes = []string{
	"* namespaces get list watch",
	"* gateway.networking.k8s.io/gatewayclasses get list watch",
	"* gateway.networking.k8s.io/gatewayclasses/status update patch",
	"* apiextensions.k8s.io/customresourcedefinitions[backendtlspolicies.gateway.networking.k8s.io " +
		"gatewayclasses.gateway.networking.k8s.io gateways.gateway.networking.k8s.io grpcroutes.gateway.networking.k8s.io " +
		"httproutes.gateway.networking.k8s.io listenersets.gateway.networking.k8s.io referencegrants.gateway.networking.k8s.io " +
		"tcproutes.gateway.networking.k8s.io tlsroutes.gateway.networking.k8s.io udproutes.gateway.networking.k8s.io] get",
	"edge configmaps create",
	"edge configmaps[fairway-gateway-ports] update patch",
}

var own = []string{
	"* networking.k8s.io/ingressclasses get list watch",
	"edge pods get list",
	"edge coordination.k8s.io/leases create",
	"edge coordination.k8s.io/leases[fairway] get update patch",
}

func TestPermissionsAreExactlyThese(t *testing.T) {
	const secrets = " secrets get list watch"
	for name, granted := range map[string]struct {
		values []string
		rules  [][]string
	}{
		"the whole cluster": {nil, [][]string{own, watched("*"), {"*" + secrets}}},
		"listed namespaces": {
			[]string{`watch.namespaces=["a","b"]`, `defaultCertificate="certificates/main"`},
			[][]string{own, watched("a"), watched("b"), {
				"a" + secrets, "b" + secrets, "certificates secrets[main] get list watch",
				"edge configmaps[fairway] get list watch", "edge services[fairway] get list watch",
			}},
		},
		"its own namespace": {[]string{`watch.namespaces=["edge"]`}, [][]string{own, watched("edge"), {"edge" + secrets}}},
		"Secrets of one namespace": {
			[]string{`rbac.secretNamespaces=["a"]`, `defaultCertificate="main"`},
			[][]string{own, watched("*"), {"a" + secrets, "edge secrets[main] get list watch"}},
		},
		"what flags name, elsewhere": {
			[]string{`watch.namespaces=["a"]`, `status.publishService="lb/out"`, `existingSettings="conf/set"`},
			[][]string{own, watched("a"), {
				"a" + secrets, "conf configmaps[set] get list watch", "lb services[out] get list watch",
			}},
		},
		"no Secrets": {[]string{`rbac.secretNamespaces=[]`}, [][]string{own, watched("*")}},
		"namespaces by label": {
			[]string{`watch.namespaceSelector="a=b"`},
			[][]string{own, watched("*"), {"*" + secrets, "* namespaces get list watch"}},
		},
		"Gateway API": {
			[]string{`gatewayApi.enabled=true`},
			[][]string{own, watched("*"), {"*" + secrets}, gateways("*"), classes},
		},
		"Gateway API in listed namespaces": {
			[]string{`gatewayApi.enabled=true`, `watch.namespaces=["a"]`},
			[][]string{own, watched("a"), gateways("a"), classes, {
				"a" + secrets, "edge configmaps[fairway] get list watch", "edge services[fairway] get list watch",
				"edge configmaps[fairway-gateway-ports] get list watch", "edge discovery.k8s.io/endpointslices get list watch",
			}},
		},
		"Gateway API in shadow mode": {
			[]string{`gatewayApi.enabled=true`, `status.enabled=false`},
			[][]string{own[:2], classes[:2], slices.DeleteFunc(slices.Concat(watched("*"), gateways("*")), func(rule string) bool {
				return strings.Contains(rule, "status") || strings.Contains(rule, "events") ||
					strings.Contains(rule, "create")
			}), {"*" + secrets}},
		},
		"no address to publish": {
			[]string{`service.enabled=false`},
			[][]string{own, slices.DeleteFunc(watched("*"), func(rule string) bool {
				return strings.Contains(rule, "status")
			}), {"*" + secrets}},
		},
		"shadow mode": {
			[]string{`status.enabled=false`},
			[][]string{own[:2], slices.DeleteFunc(watched("*"), func(rule string) bool {
				return strings.Contains(rule, "status") || strings.Contains(rule, "events")
			}), {"*" + secrets}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := permissions(render(t, granted.values...)), sets.New(slices.Concat(granted.rules...)...)
			if more := got.Difference(want); more.Len() > 0 {
				t.Errorf("granted beyond: %v", sets.List(more))
			}
			if less := want.Difference(got); less.Len() > 0 {
				t.Errorf("missing: %v", sets.List(less))
			}
		})
	}
}

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

// first returns the word that follows prefix at the beginning of a line, without quotes.
func first(t *testing.T, prefix string, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(Path(path...))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, prefix); found {
			return strings.Trim(strings.Fields(rest)[0], `"`)
		}
	}
	t.Fatalf("no line of %s begins with %q", path, prefix)
	return ""
}

// services returns the rendered Services by name.
func services(t *testing.T, values ...string) map[string]*corev1.Service {
	t.Helper()
	found := map[string]*corev1.Service{}
	for _, object := range render(t, values...) {
		if service, ok := object.Typed.(*corev1.Service); ok {
			found[object.Name] = service
		}
	}
	return found
}

func TestAPortOfAServiceCanBeLeftOutAndLeadElsewhere(t *testing.T) {
	ports := services(t, `service.ports.http=null`, `service.targetPorts.https="http"`)["fairway"].Spec.Ports
	if len(ports) != 1 || ports[0].Name != "https" || ports[0].Port != 443 || ports[0].TargetPort.StrVal != "http" {
		t.Errorf("%v", ports)
	}
	for _, argument := range one[appsv1.Deployment](t, render(t, `service.ports.http=null`)).Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(argument, "--public-") {
			t.Errorf("%s for a port that the Service does not have", argument)
		}
	}
}

func TestTheAddressOfTheInternalServiceIsPublishedWhereThereIsNoOther(t *testing.T) {
	for _, published := range []struct {
		service string
		values  []string
	}{
		{"edge/fairway", []string{`internalService.enabled=true`}},
		{"edge/fairway-internal", []string{`internalService.enabled=true`, `service.enabled=false`}},
	} {
		arguments := one[appsv1.Deployment](t, render(t, published.values...)).Spec.Template.Spec.Containers[0].Args
		if !slices.Contains(arguments, "--publish-service="+published.service) {
			t.Errorf("%v: %v", published.values, arguments)
		}
	}
	both := services(t, `internalService={"enabled":true,"annotations":{"a":"b"}}`)
	if len(both) != 2 || both["fairway-internal"].Annotations["a"] != "b" || len(both["fairway"].Annotations) != 0 {
		t.Errorf("%v", both)
	}
}

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
		`webhook.enabled=true`, `networkPolicy.enabled=true`,
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

func TestVersionsAgree(t *testing.T) {
	if program, chart := first(t, "version = ", "Cargo.toml"), first(t, "appVersion: ", "charts", "fairway", "Chart.yaml"); program != chart {
		t.Errorf("the program is %s, the chart installs %s", program, chart)
	}
	pinned, image := first(t, "channel = ", "rust-toolchain.toml"), first(t, "FROM rust:", "Dockerfile")
	if !strings.HasPrefix(image, pinned+"-") {
		t.Errorf("rust-toolchain.toml pins %s, the Dockerfile builds with %s", pinned, image)
	}
}

func TestBothImagesStartTheSameProgramAsTheUserOfTheChart(t *testing.T) {
	makefile, err := os.ReadFile(Path("Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	user, program := first(t, "USER ", "Dockerfile"), strings.Trim(first(t, "ENTRYPOINT ", "Dockerfile"), `["]`)
	if !strings.Contains(string(makefile), "--entrypoint "+program+" ") || !strings.Contains(string(makefile), "--user "+user+" ") {
		t.Errorf("the Dockerfile starts %s as %s, `make image` does not", program, user)
	}
	pod := one[appsv1.Deployment](t, render(t)).Spec.Template.Spec.SecurityContext
	if asked := fmt.Sprintf("%d:%d", *pod.RunAsUser, *pod.RunAsGroup); asked != user {
		t.Errorf("the image is for %s, the chart runs it as %s", user, asked)
	}
}
