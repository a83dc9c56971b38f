package chart

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		`bodyBuffer.enabled=false`,
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
	"telemetry": {
		`telemetry={"endpoint":"https://collector.observe:4318","protocol":"http","serviceName":"edge","headersSecret":"keys","caSecret":"authority","metricsInterval":15,"logs":true,"traces":{"sampleRatio":0.1,"parentBased":false,"trustIncoming":false,"propagation":"w3c-b3"}}`,
	},
	"a firewall": {
		`waf={"enabled":true,"image":{"tag":"1"},"auditLog":false,"extraArgs":["--log-format=json"]}`, `networkPolicy.enabled=true`,
	},
	"a dashboard and alerts": {
		`metrics={"service":{"enabled":true},"serviceMonitor":{"enabled":true,"honorLabels":false},"dashboard":{"enabled":true,"annotations":{"a":"b"}},"rules":{"enabled":true,"labels":{"release":"prometheus"},"annotations":{"c":"d"},"disabled":["FairwaySlow"],"additionalGroups":[{"name":"own","rules":[{"alert":"Own","expr":"vector(1)"}]}]}}`,
	},
	"TCP and UDP services": {
		`tcp={"53":"kube-system/kube-dns:53","5432":"db/pg:postgres:PROXY:PROXY"}`, `udp={"53":"kube-system/kube-dns:53"}`,
		`service.nodePorts={"tcp":{"5432":30432},"udp":{"53":30053}}`, `hostPorts.services=true`, `networkPolicy.enabled=true`,
		`watch.namespaces=["db"]`, `proxyProtocol.trusted=["10.0.0.0/8"]`, `gatewayApi.enabled=true`,
	},
	"HTTP/3": {
		`http3.enabled=true`, `hostPorts.https=443`, `networkPolicy.enabled=true`, `udp={"53":"kube-system/kube-dns:53"}`,
		`service={"ports":{"https":8443},"nodePorts":{"https":30443,"http3":30443}}`,
		`internalService={"enabled":true,"targetPorts":{"https":"http"}}`,
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
