package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"fairway/testbed/kubeapi"
	"fairway/testbed/network"
)

// dnsUser is whom CoreDNS is to the API server.
const dnsUser = "system:coredns"

// applyDNS makes the kube-dns Service in front of CoreDNS, which runs on the node as a process: it then serves programs
// on the node before the first pod, and takes no address of the pods.
func applyDNS(ctx context.Context, api *kubeapi.Client) error {
	type object = map[string]any
	ports := func(targetName string) []any {
		return []any{
			object{"name": "dns", "protocol": "UDP", "port": 53, targetName: 53},
			object{"name": "dns-tcp", "protocol": "TCP", "port": 53, targetName: 53},
		}
	}
	slice := func(name, family, address string) object {
		return object{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
			"metadata": object{"name": name, "labels": object{
				"kubernetes.io/service-name": "kube-dns", "endpointslice.kubernetes.io/managed-by": "testbed"}},
			"endpoints": []any{object{"addresses": []string{address}, "conditions": object{"ready": true}, "nodeName": Name}},
			"ports":     []any{object{"name": "dns", "protocol": "UDP", "port": 53}, object{"name": "dns-tcp", "protocol": "TCP", "port": 53}},
		}
	}
	const rbac, discovery = "/apis/rbac.authorization.k8s.io/v1", "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
	for _, each := range []struct {
		path   string
		object object
	}{
		{rbac + "/clusterroles/" + dnsUser, object{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": object{"name": dnsUser},
			"rules": []any{
				object{"apiGroups": []string{""}, "verbs": []string{"list", "watch"}, "resources": []string{"endpoints", "services", "pods", "namespaces"}},
				object{"apiGroups": []string{"discovery.k8s.io"}, "verbs": []string{"list", "watch"}, "resources": []string{"endpointslices"}},
			}}},
		{rbac + "/clusterrolebindings/" + dnsUser, object{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": object{"name": dnsUser},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": dnsUser},
			"subjects": []any{object{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": dnsUser}}}},
		{"/api/v1/namespaces/kube-system/services/kube-dns", object{
			"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "kube-dns"},
			"spec": object{
				"clusterIP": network.DNS4, "clusterIPs": []string{network.DNS4, network.DNS6},
				"ipFamilyPolicy": "RequireDualStack", "ipFamilies": []string{"IPv4", "IPv6"}, "ports": ports("targetPort"),
			}}},
		{discovery + "/kube-dns-ipv4", slice("kube-dns-ipv4", "IPv4", network.Node4)},
		{discovery + "/kube-dns-ipv6", slice("kube-dns-ipv6", "IPv6", network.Node6)},
	} {
		if err := api.Apply(ctx, each.path, each.object); err != nil {
			return fmt.Errorf("set up the cluster's DNS: %w", err)
		}
	}
	return nil
}

// resolves reports whether the DNS Service resolves the API server's Service, which shows that CoreDNS, its permissions and
// kube-proxy work.
func resolves(ctx context.Context, dns string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, kind, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, kind, net.JoinHostPort(dns, "53"))
	}}
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	if err != nil {
		return fmt.Errorf("ask %s for kubernetes.default: %w", dns, err)
	}
	if len(addresses) == 0 {
		return errors.New("DNS knows no address of kubernetes.default")
	}
	return nil
}
