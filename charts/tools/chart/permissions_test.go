package chart

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

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
		"no zones": {
			[]string{`zones.enabled=false`},
			[][]string{own[:1], own[2:], watched("*"), {"*" + secrets}},
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
		"inference pools": {
			[]string{`gatewayApi.enabled=true`, `gatewayApi.inferencePools.enabled=true`},
			[][]string{own, watched("*"), {"*" + secrets}, gateways("*"), classes, {
				"* inference.networking.k8s.io/inferencepools get list watch",
				"* inference.networking.k8s.io/inferencepools/status update patch",
				"* pods get list watch",
			}},
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
			[][]string{own[:3], classes[:2], slices.DeleteFunc(slices.Concat(watched("*"), gateways("*")), func(rule string) bool {
				return strings.Contains(rule, "status") || strings.Contains(rule, "events") ||
					strings.Contains(rule, "create")
			}), {"*" + secrets}},
		},
		"ticket keys of its own": {
			[]string{`sessionTickets.shared=false`},
			[][]string{own[:len(own)-1], watched("*"), {"*" + secrets}},
		},
		"no address to publish": {
			[]string{`service.enabled=false`},
			[][]string{own, slices.DeleteFunc(watched("*"), func(rule string) bool {
				return strings.Contains(rule, "status")
			}), {"*" + secrets}},
		},
		"shadow mode": {
			[]string{`status.enabled=false`},
			[][]string{own[:3], slices.DeleteFunc(watched("*"), func(rule string) bool {
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
	for _, kind := range []string{"clienttrafficpolicies", "backendtrafficpolicies", "securitypolicies", "extensionpolicies"} {
		kind = namespace + " fairway.dev/" + kind
		found = append(found, kind+" get list watch", kind+"/status update patch")
	}
	found = append(found, namespace+" fairway.dev/httproutefilters get list watch")
	found = append(found, namespace+" multicluster.x-k8s.io/serviceimports get list watch")
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
	"* nodes get",
	"edge pods get list watch",
	"edge coordination.k8s.io/leases create",
	"edge coordination.k8s.io/leases[fairway] get update patch",
	"edge secrets[fairway-session-tickets] get list watch update",
}
