package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fairway.dev/conformance/extensions/wait"
)

type envoy struct {
	*process
	binary string
	ports  map[string]int
}

const types = "type.googleapis.com/"

// StartEnvoy starts Envoy with the same routes, and waits until it serves. Each route has a listener of its own, since most settings of
// its filters are those of a listener.
func StartEnvoy(binary, directory string, plan Plan) (Proxy, error) {
	started := &envoy{binary: binary, ports: map[string]int{}}
	admin := wait.FreePort()
	text, err := json.MarshalIndent(started.bootstrap(plan, admin), "", " ")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(directory, "envoy.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, err
	}
	log := filepath.Join(directory, "envoy.log")
	if started.process, err = start(log, binary, "--concurrency", "2", "--disable-hot-restart", "--log-level", "warning", "-c", file); err != nil {
		return nil, err
	}
	isReady := wait.Until(readyTimeout, func() bool {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ready", admin))
		if err != nil {
			return started.HasEnded()
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	if !isReady || started.HasEnded() {
		started.kill()
		return nil, fmt.Errorf("envoy does not become ready; see %s", log)
	}
	return started, nil
}

func (envoy *envoy) Name() string { return "envoy" }

func (envoy *envoy) Version() string {
	if found := regexp.MustCompile(`/(\d+\.\d+\.\d+)/`).FindStringSubmatch(firstLine(envoy.binary, "--version")); found != nil {
		return found[1]
	}
	return "unknown"
}

func (envoy *envoy) Address(route Route) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(envoy.ports[route.Name]))
}

// Stop ends it. Envoy ends by SIGTERM with status 0 once it has no connections left, and with the signal otherwise.
func (envoy *envoy) Stop() error {
	if envoy.HasEnded() {
		return errors.New("it had ended before: " + envoy.command.ProcessState.String())
	}
	envoy.kill()
	return nil
}

func (envoy *envoy) bootstrap(plan Plan, admin int) object {
	var listeners, clusters []object
	for _, route := range plan.Routes {
		port := wait.FreePort()
		for slices.Contains(slices.Collect(maps.Values(envoy.ports)), port) {
			port = wait.FreePort()
		}
		envoy.ports[route.Name] = port
		listeners = append(listeners, listener(route, port))
		clusters = append(clusters, cluster("backend-"+route.Name, plan.Backend, route.HTTP2, bufferOf(route)))
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Services)) {
		clusters = append(clusters, cluster(name, plan.Services[name], true, 0))
	}
	return object{
		"admin":            object{"address": address(admin)},
		"static_resources": object{"listeners": listeners, "clusters": clusters},
		// Otherwise Envoy warns of each connection that is above no limit.
		"overload_manager": object{"resource_monitors": []object{{
			"name": "envoy.resource_monitors.global_downstream_max_connections",
			"typed_config": object{"@type": types + "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
				"max_active_downstream_connections": 10_000}}}},
	}
}

// bufferOf is the limit of buffered bodies; 0 leaves Envoy's.
func bufferOf(route Route) int {
	if route.Extension != nil {
		return route.Extension.MaxBuffered
	}
	if route.Auth != nil {
		return route.Auth.MaxBody
	}
	return 0
}

// windows are the HTTP/2 options: the window bounds the buffer of a stream.
func windows(buffer int) object {
	const least, most = 65_535, 16 << 20
	if buffer == 0 {
		return object{}
	}
	return object{"initial_stream_window_size": min(max(buffer, least), most), "initial_connection_window_size": min(max(buffer, least), most)}
}

func address(port int) object {
	return object{"socket_address": object{"address": "127.0.0.1", "port_value": port}}
}

func cluster(name string, port int, isHTTP2 bool, buffer int) object {
	protocol := object{"http_protocol_options": object{"enable_trailers": true}}
	if isHTTP2 {
		protocol = object{"http2_protocol_options": windows(buffer)}
	}
	found := object{
		"name": name, "type": "STATIC", "connect_timeout": "2s",
		"load_assignment": object{"cluster_name": name, "endpoints": []object{{"lb_endpoints": []object{{"endpoint": object{"address": address(port)}}}}}},
		"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
			"@type":                types + "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": protocol}},
	}
	if buffer > 0 {
		found["per_connection_buffer_limit_bytes"] = buffer
	}
	return found
}

func listener(route Route, port int) object {
	var filters []object
	if route.Auth != nil {
		filters = append(filters, object{"name": "envoy.filters.http.ext_authz", "typed_config": envoyAuth(route.Auth)})
	}
	if route.Extension != nil {
		filters = append(filters, object{"name": "envoy.filters.http.ext_proc", "typed_config": envoyExtension(route.Extension)})
	}
	filters = append(filters, object{"name": "envoy.filters.http.router",
		"typed_config": object{"@type": types + "envoy.extensions.filters.http.router.v3.Router"}})
	connections := object{
		"@type":                  types + "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix":            route.Name,
		"use_remote_address":     true,
		"http_protocol_options":  object{"enable_trailers": true},
		"http2_protocol_options": windows(bufferOf(route)),
		"http_filters":           filters,
		"route_config":           object{"virtual_hosts": []object{{"name": "all", "domains": []string{"*"}, "routes": []object{envoyRoute(route)}}}},
	}
	found := object{
		"name": route.Name, "address": address(port),
		"filter_chains": []object{{"filters": []object{{"name": "envoy.filters.network.http_connection_manager", "typed_config": connections}}}},
	}
	if buffer := bufferOf(route); buffer > 0 {
		found["per_connection_buffer_limit_bytes"] = buffer
	}
	return found
}

func envoyRoute(route Route) object {
	found := object{"match": object{"prefix": "/"}, "route": object{"cluster": "backend-" + route.Name}}
	if route.Auth != nil && len(route.Auth.Context) > 0 {
		found["typed_per_filter_config"] = object{"envoy.filters.http.ext_authz": object{
			"@type":          types + "envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute",
			"check_settings": object{"context_extensions": route.Auth.Context}}}
	}
	return found
}

func grpcService(name string) object {
	return object{"envoy_grpc": object{"cluster_name": name}, "timeout": "10s"}
}

func envoyAuth(auth *Auth) object {
	asked := object{
		"@type":                 types + "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
		"transport_api_version": "V3",
		"grpc_service":          object{"envoy_grpc": object{"cluster_name": auth.Service}, "timeout": fmt.Sprintf("%.3fs", auth.Timeout.Seconds())},
		"failure_mode_allow":    auth.IsOpen,
		"status_on_error":       object{"code": 503},
		"validate_mutations":    true,
		// Without rules a service may change everything.
		"decoder_header_mutation_rules": object{"disallow_system": true},
	}
	if auth.MaxBody > 0 {
		asked["with_request_body"] = object{"max_request_bytes": auth.MaxBody, "allow_partial_message": auth.AllowPartial, "pack_as_bytes": true}
	}
	return asked
}

func envoyExtension(extension *Extension) object {
	header := func(isSent bool) string {
		if isSent {
			return "SEND"
		}
		return "SKIP"
	}
	body := map[string]string{"": "NONE", None: "NONE", Streamed: "STREAMED", Buffered: "BUFFERED", Partial: "BUFFERED_PARTIAL",
		FullDuplex: "FULL_DUPLEX_STREAMED"}
	rules := object{"disallow_system": !extension.AllowPath, "disallow_is_error": extension.ErrorOnDenied, "allow_all_routing": false}
	if len(extension.Denied) > 0 {
		rules["disallow_expression"] = object{"regex": "^(" + strings.Join(extension.Denied, "|") + ")$"}
	}
	asked := object{
		"@type":              types + "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
		"grpc_service":       grpcService(extension.Service),
		"failure_mode_allow": extension.IsOpen,
		"message_timeout":    fmt.Sprintf("%.3fs", extension.Timeout.Seconds()),
		"processing_mode": object{
			"request_header_mode": header(!extension.Request.SkipHeaders), "request_body_mode": body[extension.Request.Body],
			"request_trailer_mode":  header(extension.Request.Trailers),
			"response_header_mode":  header(!extension.Response.SkipHeaders),
			"response_body_mode":    body[extension.Response.Body],
			"response_trailer_mode": header(extension.Response.Trailers),
		},
		"allow_mode_override": extension.AllowOverride,
		"mutation_rules":      rules,
	}
	if len(extension.Attributes) > 0 {
		asked["request_attributes"] = extension.Attributes
	}
	return asked
}
