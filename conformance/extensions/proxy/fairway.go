package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"fairway.dev/conformance/extensions/wait"
)

// object is a Kubernetes object. JSON is YAML, so no manifest can be indented wrongly.
type object = map[string]any

type fairway struct {
	*process
	binary, address string
}

// StartFairway starts Fairway, and waits until it serves.
func StartFairway(binary, directory string, plan Plan) (Proxy, error) {
	served := filepath.Join(directory, "manifests")
	if err := os.MkdirAll(served, 0o755); err != nil {
		return nil, err
	}
	port := wait.FreePort()
	var text bytes.Buffer
	for _, one := range objects(plan, port) {
		document, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "---\n%s\n", document)
	}
	if err := os.WriteFile(filepath.Join(served, "all.yaml"), text.Bytes(), 0o644); err != nil {
		return nil, err
	}
	local := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(wait.FreePort())) }
	admin := local()
	log := filepath.Join(directory, "fairway.log")
	process, err := start(log, binary, "run", "--manifests", served, "--http", local(), "--https", local(), "--admin", admin,
		"--gateway-address", "127.0.0.1", "--workers", "2", "--access-log", "json", "--drain-delay", "0")
	if err != nil {
		return nil, err
	}
	started := &fairway{process: process, binary: binary, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	isReady := wait.Until(readyTimeout, func() bool {
		response, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return process.HasEnded()
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	if !isReady || process.HasEnded() {
		process.kill()
		return nil, fmt.Errorf("fairway does not become ready; see %s", log)
	}
	return started, nil
}

func (fairway *fairway) Name() string         { return "fairway" }
func (fairway *fairway) Version() string      { return firstLine(fairway.binary, "version") }
func (fairway *fairway) Address(Route) string { return fairway.address }

const namespace = "extensions"

func meta(name string) object { return object{"namespace": namespace, "name": name} }

func objects(plan Plan, port int) []object {
	all := []object{
		{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": object{"name": "fairway"},
			"spec": object{"controllerName": "fairway.dev/gateway-controller"}},
		{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": meta("edge"), "spec": object{
			"gatewayClassName": "fairway", "listeners": []object{{"name": "http", "port": port, "protocol": "HTTP"}}}},
	}
	all = append(all, service("backend-h1", plan.Backend, "")...)
	all = append(all, service("backend-h2", plan.Backend, "kubernetes.io/h2c")...)
	for _, name := range slices.Sorted(maps.Keys(plan.Services)) {
		all = append(all, service(name, plan.Services[name], "kubernetes.io/h2c")...)
	}
	for _, route := range plan.Routes {
		all = append(all, routeObjects(route)...)
	}
	return all
}

func service(name string, port int, protocol string) []object {
	servicePort := object{"name": "main", "port": 80}
	if protocol != "" {
		servicePort["appProtocol"] = protocol
	}
	slice := meta(name + "-1")
	slice["labels"] = object{"kubernetes.io/service-name": name}
	return []object{
		{"apiVersion": "v1", "kind": "Service", "metadata": meta(name), "spec": object{"ports": []object{servicePort}}},
		{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice, "addressType": "IPv4",
			"ports": []object{{"name": "main", "port": port}}, "endpoints": []object{{"addresses": []string{"127.0.0.1"}}}},
	}
}

func routeObjects(route Route) []object {
	backend := "backend-h1"
	if route.HTTP2 {
		backend = "backend-h2"
	}
	all := []object{{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": meta(route.Name),
		"spec": object{"parentRefs": []object{{"name": "edge"}}, "hostnames": []string{route.Host()},
			"rules": []object{{"backendRefs": []object{{"name": backend, "port": 80}}}}},
	}}
	targets := []object{{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": route.Name}}
	if extension := route.Extension; extension != nil {
		all = append(all, object{"apiVersion": "fairway.dev/v1alpha1", "kind": "ExtensionPolicy", "metadata": meta(route.Name),
			"spec": object{"targetRefs": targets, "extProc": []object{extProc(extension)}}})
	}
	if auth := route.Auth; auth != nil {
		grpc := object{"failureMode": failureMode(auth.IsOpen)}
		if auth.MaxBody > 0 {
			grpc["maxRequestBytes"], grpc["allowPartialBody"] = auth.MaxBody, auth.AllowPartial
		}
		if len(auth.Context) > 0 {
			grpc["contextExtensions"] = auth.Context
		}
		all = append(all, object{"apiVersion": "fairway.dev/v1alpha1", "kind": "SecurityPolicy", "metadata": meta(route.Name),
			"spec": object{"targetRefs": targets, "externalAuth": object{
				"backendRef": object{"name": auth.Service, "port": 80}, "timeout": auth.Timeout.String(), "grpc": grpc}}})
	}
	return all
}

func failureMode(isOpen bool) string {
	if isOpen {
		return "Open"
	}
	return "Closed"
}

func extProc(extension *Extension) object {
	phases := func(message Message) object {
		named := func(isSent bool) string {
			if isSent {
				return "Send"
			}
			return "Skip"
		}
		body := message.Body
		if body == "" {
			body = None
		}
		return object{"headers": named(!message.SkipHeaders), "body": body, "trailers": named(message.Trailers)}
	}
	rules := object{"allowPathAndMethod": extension.AllowPath, "errorOnDenied": extension.ErrorOnDenied}
	if len(extension.Denied) > 0 {
		rules["denied"] = extension.Denied
	}
	asked := object{
		"backendRef":        object{"name": extension.Service, "port": 80},
		"messageTimeout":    fmt.Sprintf("%dms", extension.Timeout.Milliseconds()),
		"failureMode":       failureMode(extension.IsOpen),
		"processingMode":    object{"request": phases(extension.Request), "response": phases(extension.Response)},
		"allowModeOverride": extension.AllowOverride,
		"mutationRules":     rules,
	}
	if extension.MaxBuffered > 0 {
		asked["maxBufferedBytes"] = extension.MaxBuffered
	}
	if len(extension.Attributes) > 0 {
		asked["attributes"] = extension.Attributes
	}
	if len(extension.Metadata) > 0 {
		asked["metadata"] = extension.Metadata
	}
	return asked
}
