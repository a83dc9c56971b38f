package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
)

// webhookMedia is the content type of external-dns's webhook providers.
const webhookMedia = "application/external.dns.webhook+json;version=1"

// zone is a DNS provider for external-dns, as its webhook: it has the records and the history of their changes.
type zone struct {
	lock    sync.Mutex
	records map[string]record
	history []string
	// syncs is how often the records were read: once at the beginning of each synchronization.
	syncs int
}

// record is an endpoint of the webhook's protocol; its other fields are returned unchanged.
type record struct {
	Name    string   `json:"dnsName"`
	Targets []string `json:"targets"`
	Type    string   `json:"recordType"`
	Set     string   `json:"setIdentifier"`
	raw     json.RawMessage
}

func (r *record) UnmarshalJSON(text []byte) error {
	type plain record
	r.raw = slices.Clone(text)
	return json.Unmarshal(text, (*plain)(r))
}

func (r record) MarshalJSON() ([]byte, error) { return r.raw, nil }

func (r record) key() string { return r.Name + " " + r.Type + " " + r.Set }

// newZone listens at an address of the node that pods reach.
func (s *stage) newZone() (*zone, string) {
	s.Helper()
	node, err := kube.NodeAddress(s.Context())
	s.must(err)
	listener, err := net.Listen("tcp", cluster.Join(node, 0))
	s.must(err)
	z := &zone{records: map[string]record{}}
	server := &http.Server{Handler: http.HandlerFunc(z.serve)}
	go server.Serve(listener)
	s.Cleanup(func() { server.Close() })
	return z, "http://" + listener.Addr().String()
}

func (z *zone) serve(response http.ResponseWriter, request *http.Request) {
	response.Header().Set("Content-Type", webhookMedia)
	switch {
	case request.URL.Path == "/adjustendpoints":
		// Unchanged. The server drops the rest of a request when a response begins.
		all, _ := io.ReadAll(request.Body)
		response.Write(all)
	case request.URL.Path == "/records" && request.Method == http.MethodPost:
		var changes struct{ Create, UpdateOld, UpdateNew, Delete []record }
		if err := json.NewDecoder(request.Body).Decode(&changes); err != nil {
			http.Error(response, err.Error(), http.StatusBadRequest)
			return
		}
		z.lock.Lock()
		defer z.lock.Unlock()
		z.change("create", changes.Create)
		z.change("update", changes.UpdateNew)
		z.change("delete", changes.Delete)
		response.WriteHeader(http.StatusNoContent)
	case request.URL.Path == "/records":
		z.lock.Lock()
		defer z.lock.Unlock()
		z.syncs++
		all := []record{}
		for _, each := range z.records {
			all = append(all, each)
		}
		json.NewEncoder(response).Encode(all)
	default:
		io.WriteString(response, "{}")
	}
}

func (z *zone) change(kind string, records []record) {
	for _, each := range records {
		z.history = append(z.history, fmt.Sprintf("%s %s %s %v", kind, each.Name, each.Type, each.Targets))
		if kind == "delete" {
			delete(z.records, each.key())
		} else {
			z.records[each.key()] = each
		}
	}
}

// recordsOf is the addresses of a name, every change so far, and how often the records were read.
func (z *zone) recordsOf(name string) (targets, history []string, syncs int) {
	z.lock.Lock()
	defer z.lock.Unlock()
	for _, each := range z.records {
		if each.Name == name && (each.Type == "A" || each.Type == "AAAA") {
			targets = append(targets, each.Targets...)
		}
	}
	slices.Sort(targets)
	return targets, slices.Clone(z.history), z.syncs
}

// named waits until a name has exactly these addresses, and gives how long that took.
func (s *stage) named(z *zone, name string, wanted ...string) time.Duration {
	s.Helper()
	begun := time.Now()
	slices.Sort(wanted)
	s.must(cluster.Eventually(s.Context(), time.Minute, fmt.Sprintf("%s has the addresses %v", name, wanted),
		func(context.Context) (bool, string, error) {
			found, history, _ := z.recordsOf(name)
			return slices.Equal(found, wanted), fmt.Sprintf("%v; the last changes: %q", found, history[max(0, len(history)-6):]), nil
		}))
	return time.Since(begun)
}

// changes waits for two more comparisons of the records with the cluster, and returns the changes since the history had that
// length.
func (s *stage) changes(z *zone, since int) []string {
	s.Helper()
	_, _, before := z.recordsOf("")
	s.must(cluster.Eventually(s.Context(), time.Minute, "external-dns looks twice more", func(context.Context) (bool, string, error) {
		_, _, now := z.recordsOf("")
		return now >= before+2, fmt.Sprint(now - before), nil
	}))
	_, history, _ := z.recordsOf("")
	return history[since:]
}

// externalDNS runs external-dns, which keeps the records of Ingresses, HTTPRoutes and ListenerSets in the zone.
func (s *stage) externalDNS(provider string) {
	s.Helper()
	s.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-external-dns}
rules:
- {apiGroups: [""], resources: [services, pods, nodes, namespaces], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
- {apiGroups: [networking.k8s.io], resources: [ingresses], verbs: [get, list, watch]}
- {apiGroups: [gateway.networking.k8s.io], resources: [gateways, httproutes, listenersets], verbs: [get, list, watch]}
`)
	s.must(kube.DeployProgram(s.Context(), cluster.Program{
		Namespace: s.namespace, Name: "external-dns", Image: testbed.ProgramImage("external-dns"), Replicas: 1,
		Arguments: []string{
			"--source=ingress", "--source=gateway-httproute", "--gateway-listener-sets", "--provider=webhook",
			"--webhook-provider-url=" + provider, "--registry=txt", "--txt-owner-id=e2e", "--policy=sync", "--interval=1s",
			"--log-level=debug",
		},
		Ready:       core.ProbeHandler{HTTPGet: &core.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(7979)}},
		Ports:       []core.ServicePort{{Name: "metrics", Port: 7979, TargetPort: intstr.FromInt32(7979)}},
		ClusterRole: "e2e-external-dns",
	}))
	s.Cleanup(func() {
		if s.Failed() {
			s.kubectlSays("logs", "-n", s.namespace, "deployment/external-dns", fmt.Sprintf("--tail=%d", told))
		}
	})
}

// gatewayAddresses are all that a Gateway has in its status.
func (s *stage) gatewayAddresses() []string {
	s.Helper()
	found, err := kube.Objects.Resource(gatewaysOfAPI).Namespace(s.namespace).Get(s.Context(), gatewayName, meta.GetOptions{})
	s.must(err)
	list, _, err := unstructured.NestedSlice(found.Object, "status", "addresses")
	s.must(err)
	var all []string
	for _, each := range list {
		all = append(all, each.(map[string]any)["value"].(string))
	}
	return all
}

// spelled writes addresses as external-dns does.
func spelled(addresses []netip.Addr) []string {
	var all []string
	for _, each := range addresses {
		all = append(all, each.String())
	}
	return all
}

// external-dns gives names the addresses that Fairway writes into the status of Ingresses, Gateways and what is attached to them. They
// appear, change and go with the objects; while Fairway is rolled, and its leader deleted, no record is touched.
func TestEcosystemExternalDNSKeepsTheRecordsOfEveryHost(t *testing.T) {
	s := newStage(t, "external-dns")
	s.rate, s.requests = acmeRate, 0
	s.serveGateways()
	z, provider := s.newZone()
	s.externalDNS(provider)
	s.backends(2)
	s.figure("first record of an Ingress", float64(s.named(z, s.host, spelled(addresses)...).Milliseconds()), "ms", 0)

	s.edge("", "")
	s.routedAs("gateway", "Gateway", gatewayName, "gateway."+s.host)
	s.apply(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: %s, name: team}
spec:
  parentRef: {name: %s}
  listeners: [{name: team, port: 80, protocol: HTTP, hostname: set.%s}]
`, s.namespace, gatewayName, s.host))
	s.routedAs("set", "ListenerSet", "team", "set."+s.host)
	ofGateway := s.gatewayAddresses()
	s.figure("first record of an HTTPRoute", float64(s.named(z, "gateway."+s.host, ofGateway...).Milliseconds()), "ms", 0)
	s.named(z, "set."+s.host, ofGateway...)

	s.traffic(load.Plan{})
	s.more(s.rate)
	s.rollWithUnchangedRecords(z)
	s.moved(z, ofGateway)
	s.bareMetal(z)
	for _, each := range []string{"ingress/backend", "httproute/gateway", "listenerset/team"} {
		// The host of the streams would no longer be served.
		if each == "ingress/backend" {
			s.finish()
		}
		s.kubectl("delete", "-n", s.namespace, each)
	}
	for _, name := range []string{"", "gateway2.", "set."} {
		s.named(z, name+s.host)
	}
	z.lock.Lock()
	defer z.lock.Unlock()
	if len(z.records) > 0 {
		s.Errorf("records are left: %v", z.records)
	}
}

// rollWithUnchangedRecords rolls Fairway to another image and back and deletes its leader: not one record may change.
func (s *stage) rollWithUnchangedRecords(z *zone) {
	s.Helper()
	_, before, synced := z.recordsOf("")
	for _, image := range []string{testbed.Next, testbed.Image} {
		s.must(upgrade(s.Context(), image, gatewayAPI...))
		s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
		s.runs(image)
	}
	leader := s.leader()
	s.must(kube.API.CoreV1().Pods(fairwayNamespace).Delete(s.Context(), leader, meta.DeleteOptions{}))
	s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
	s.leader()
	if changed := s.changes(z, len(before)); len(changed) > 0 {
		s.Errorf("while Fairway was rolled, external-dns made %d changes: %s", len(changed), strings.Join(changed, "; "))
	}
	_, _, now := z.recordsOf("")
	s.figure("synchronizations while Fairway was rolled", float64(now-synced), "", 0)
}

// moved gives the HTTPRoute of the Gateway another host: the old name goes, and the new one appears.
func (s *stage) moved(z *zone, ofGateway []string) {
	s.Helper()
	s.routedAs("gateway", "Gateway", gatewayName, "gateway2."+s.host)
	s.named(z, "gateway2."+s.host, ofGateway...)
	s.named(z, "gateway."+s.host)
}

// bareMetal publishes fixed addresses, then those of the nodes, then those of the Service again: records are updated, none is deleted
// in between.
func (s *stage) bareMetal(z *zone) {
	s.Helper()
	_, before, _ := z.recordsOf("")
	publish := func(values ...string) {
		s.Helper()
		s.must(upgrade(s.Context(), testbed.Image, append(values, gatewayAPI...)...))
		s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
	}
	publish("status.publishAddresses={192.0.2.10,2001:db8::10}")
	s.named(z, s.host, "192.0.2.10", "2001:db8::10")
	publish("status.publishNodes=internal")
	s.named(z, s.host, s.nodeAddresses()...)
	publish()
	s.named(z, s.host, spelled(addresses)...)
	for _, change := range s.changes(z, len(before)) {
		if !strings.HasPrefix(change, "update ") {
			s.Errorf("a change of the published addresses is not an update: %s", change)
		}
	}
}

func (s *stage) nodeAddresses() []string {
	s.Helper()
	nodes, err := kube.API.CoreV1().Nodes().List(s.Context(), meta.ListOptions{})
	s.must(err)
	var all []string
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == core.NodeInternalIP {
				all = append(all, address.Address)
			}
		}
	}
	return all
}
