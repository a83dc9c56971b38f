//go:build plugin

package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/e2e/cluster"
)

// Argo Rollouts shifts requests with the weights of an HTTPRoute, through its plugin. The module of the plugin is not in this
// repository: E2E_ROLLOUTS_GATEWAY_PLUGIN is the program of a release of it, and without it e2e/run.sh leaves this test out.
func TestEcosystemArgoRolloutsShiftsAnHTTPRoute(t *testing.T) {
	program := os.Getenv("E2E_ROLLOUTS_GATEWAY_PLUGIN")
	begun := time.Now()
	s := newStage(t, "rollouts-gateway")
	s.serveGateways()
	s.must(kube.Gateway(s.Context(), s.namespace, gatewayName, "HTTP", 80))
	found, err := kube.GatewayAddress(s.Context(), s.namespace, gatewayName)
	s.must(err)
	s.objects("route", strings.NewReplacer("@HOST@", s.host, "@GATEWAY@", gatewayName).Replace(rolloutRoute))
	r := newRollout(s, cluster.Join(found, 80), rolloutWords{
		routing: "{managedRoutes: [{name: testers}], plugins: {argoproj-labs/gatewayAPI: " +
			"{namespace: " + s.namespace + ", httpRoutes: [{name: web, useHeaderRoutes: true}]}}}",
		header:        "- setHeaderRoute: {name: testers, match: [{headerName: X-Canary, headerValue: {exact: always}}]}",
		plugins:       filepath.Dir(program),
		configuration: `trafficRouterPlugins: '[{"name": "argoproj-labs/gatewayAPI", "location": "file:///plugins/` + filepath.Base(program) + `"}]'`,
	})
	r.shifts(map[string]string{"always": "canary", "other": ""})
	r.aborts(map[string]string{"always": "stable", "other": "stable"})
	r.publish(begun)
}

const rolloutRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{name: @GATEWAY@}]
  hostnames: [@HOST@]
  rules: [{backendRefs: [{name: stable, port: 80}, {name: canary, port: 80, weight: 0}]}]
`
