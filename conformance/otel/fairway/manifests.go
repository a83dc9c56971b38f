package fairway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"fairway.dev/conformance/otel/backend"
)

// The hosts of the manifests. Those of hedged connects are HedgeHost(0) and so on.
const (
	// PlainHost has endpoints that speak HTTP/1.
	PlainHost = "plain.test"
	// H2CHost has endpoints that speak HTTP/2.
	H2CHost = "h2c.test"
	// GRPCHost has a gRPC server.
	GRPCHost = "grpc.test"
	// GuardedHost asks an authentication service first.
	GuardedHost = "guarded.test"
	// RefusedHost has an endpoint that listens and one that does not.
	RefusedHost = "refused.test"
	// DeadHost has no endpoint that listens.
	DeadHost = "dead.test"
	// RedirectHost responds with a redirect.
	RedirectHost = "redirect.test"
	// RetryHost is retried after resets and 503; it is a host of the Gateway.
	RetryHost = "retry.test"
	// UnknownHost is in no manifest.
	UnknownHost = "unknown.test"
)

// HedgeHost has an endpoint behind a black hole and a working one; it is a host of the Gateway.
func HedgeHost(number int) string { return fmt.Sprintf("hedge-%d.test", number) }

// Ports are where the endpoints listen.
type Ports struct {
	// HTTP are endpoints that all take both versions of HTTP.
	HTTP []int
	// GRPC is the gRPC server.
	GRPC int
	// Guard is the authentication service.
	Guard int
	// Dead has no listener.
	Dead int
	// Holes are black holes, one for each host of hedged connects.
	Holes []*backend.BlackHole
	// Gateway is where Fairway listens for the Gateway.
	Gateway int
}

const manifests = `
{{- define "service"}}
---
apiVersion: v1
kind: Service
metadata: {namespace: otel, name: {{.Name}}}
spec: {ports: [{name: main, port: 80{{with .Protocol}}, appProtocol: {{.}}{{end}}}]}
{{- range $index, $endpoint := .Endpoints}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: otel, name: {{$.Name}}-{{$index}}, labels: {kubernetes.io/service-name: {{$.Name}}}}
addressType: IPv4
ports: [{name: main, port: {{$endpoint.Port}}}]
endpoints: [{addresses: [{{$endpoint.Address}}]}]
{{- end}}
{{- end}}
{{- define "ingress"}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: otel
  name: {{.Name}}
  annotations:
    nginx.ingress.kubernetes.io/ssl-redirect: "false"
    {{- range $key, $value := .Annotations}}
    nginx.ingress.kubernetes.io/{{$key}}: {{printf "%q" $value}}
    {{- end}}
spec:
  ingressClassName: fairway
  tls: [{hosts: [{{.Host}}]}]
  rules:
  - host: {{.Host}}
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: {{.Service}}, port: {number: 80}}}}]}
{{- end}}
{{- define "route"}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: otel, name: {{.Name}}}
spec:
  parentRefs: [{name: edge}]
  hostnames: [{{.Host}}]
  rules:
  - backendRefs: [{name: {{.Service}}, port: 80}]
    retry: {attempts: 2, codes: [503]}
---
apiVersion: fairway.dev/v1alpha1
kind: BackendTrafficPolicy
metadata: {namespace: otel, name: {{.Name}}}
spec:
  targetRefs: [{group: "", kind: Service, name: {{.Service}}}]
  loadBalancing: {algorithm: RoundRobin}
  retry: {attempts: 2, budget: None}
  outlierEjection: {mode: "Off"}
  hedging: {connectDelay: 60ms}
{{- end -}}
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: fairway}
spec: {controller: fairway.dev/ingress-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: fairway}
spec: {controllerName: fairway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: otel, name: edge}
spec:
  gatewayClassName: fairway
  listeners: [{name: http, port: {{.Gateway}}, protocol: HTTP}]
{{- range .Services}}{{template "service" .}}{{end}}
{{- range .Ingresses}}{{template "ingress" .}}{{end}}
{{- range .Routes}}{{template "route" .}}{{end}}
`

type endpoint struct {
	Address string
	Port    int
}

type service struct {
	Name, Protocol string
	Endpoints      []endpoint
}

type rule struct {
	Name, Host, Service string
	Annotations         map[string]string
}

// WriteManifests writes what Fairway serves into a directory.
func WriteManifests(directory string, ports Ports) error {
	local := func(ports ...int) []endpoint {
		var endpoints []endpoint
		for _, port := range ports {
			endpoints = append(endpoints, endpoint{"127.0.0.1", port})
		}
		return endpoints
	}
	services := []service{
		{Name: "plain", Endpoints: local(ports.HTTP...)},
		{Name: "h2c", Protocol: "kubernetes.io/h2c", Endpoints: local(ports.HTTP...)},
		{Name: "grpc", Endpoints: local(ports.GRPC)},
		{Name: "auth", Endpoints: local(ports.Guard)},
		{Name: "refused", Endpoints: local(ports.HTTP[0], ports.Dead)},
		{Name: "dead", Endpoints: local(ports.Dead)},
		{Name: "retry", Endpoints: local(ports.HTTP...)},
	}
	ingresses := []rule{
		{Name: "plain", Host: PlainHost, Service: "plain"},
		{Name: "h2c", Host: H2CHost, Service: "h2c"},
		{Name: "grpc", Host: GRPCHost, Service: "grpc", Annotations: map[string]string{"backend-protocol": "GRPC"}},
		{Name: "guarded", Host: GuardedHost, Service: "plain", Annotations: map[string]string{
			"auth-url": "http://auth.otel.svc.cluster.local/verify"}},
		{Name: "refused", Host: RefusedHost, Service: "refused"},
		{Name: "dead", Host: DeadHost, Service: "dead"},
		{Name: "redirect", Host: RedirectHost, Service: "plain", Annotations: map[string]string{
			"permanent-redirect": "http://plain.test/"}},
	}
	routes := []rule{{Name: "retry", Host: RetryHost, Service: "retry"}}
	for number, hole := range ports.Holes {
		name := strings.TrimSuffix(HedgeHost(number), ".test")
		services = append(services, service{Name: name, Endpoints: append(local(ports.HTTP[0]), endpoint{hole.Address, hole.Port})})
		routes = append(routes, rule{Name: name, Host: HedgeHost(number), Service: name})
	}
	file, err := os.Create(filepath.Join(directory, "all.yaml"))
	if err != nil {
		return err
	}
	defer file.Close()
	return template.Must(template.New("manifests").Parse(manifests)).Execute(file, map[string]any{
		"Gateway": ports.Gateway, "Services": services, "Ingresses": ingresses, "Routes": routes,
	})
}
