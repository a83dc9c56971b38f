package scenario

import (
	"context"
	"fmt"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
)

// renewals of each scenario, under load.
const renewals = 2

// timed are the first and the slowest durations of a scenario: until cert-manager wrote a certificate, and from there until Fairway
// showed it.
type timed struct {
	issue, renewal, shown time.Duration
}

func (s *stage) publish(times timed) {
	s.figure("first certificate", float64(times.issue.Milliseconds()), "ms", 0)
	s.figure("slowest renewal", float64(times.renewal.Milliseconds()), "ms", 0)
	s.figure("slowest Secret to replicas", float64(times.shown.Milliseconds()), "ms", 0)
}

// annotated is an Ingress as users of cert-manager write it: annotations request the certificate of its tls section.
func (s *stage) annotated(name, host, issuer string, more map[string]string) {
	s.Helper()
	annotations := map[string]string{"cert-manager.io/cluster-issuer": issuer}
	for key, value := range more {
		annotations[key] = value
	}
	s.must(kube.Route(s.Context(), cluster.Route{
		Namespace: s.namespace, Name: name, Host: host, Service: "backend", Secret: name, Annotations: annotations,
	}))
}

// showsEverywhere waits until every replica of Fairway presents the certificate.
func (s *stage) showsEverywhere(host, serial string) {
	s.Helper()
	s.awaitOnEveryReplica(s.trusting(host), "is served with certificate "+serial, func(sight load.Sight) bool {
		return sight.Class == load.OK && sight.Serial == serial
	})
}

// renewed asks for a new certificate and waits until it is shown; gives how long either took.
func (s *stage) renewed(name string, revision int64, shown func(serial string)) (took, until time.Duration) {
	s.Helper()
	begun := time.Now()
	s.renew(name)
	serial := s.issued(name, revision)
	written := time.Now()
	shown(serial)
	return written.Sub(begun), time.Since(written)
}

func (t *timed) renewed(took, until time.Duration) {
	t.renewal, t.shown = max(t.renewal, took), max(t.shown, until)
}

// cert-manager solves the challenges of an Ingress through Fairway: with an Ingress of its own, and with a path that it adds to the
// Ingress (edit in place). No request over TLS fails while certificates are renewed and other ones cannot be had, or are taken away.
func TestEcosystemCertManagerRenewsTheCertificateOfAnIngress(t *testing.T) {
	s := newStage(t, "cert-ingress")
	s.rate, s.requests = acmeRate, 0
	s.serveGateways()
	s.acme()
	s.must(kube.Deploy(t.Context(), s.workload("backend", 2)))
	begun := time.Now()
	s.annotated("own", s.host, "pebble-ingress", nil)
	times := timed{}
	serial := s.issued("own", 1)
	times.issue = time.Since(begun)
	s.showsEverywhere(s.host, serial)
	place := "place." + s.host
	s.annotated("place", place, "pebble-ingress", map[string]string{"acme.cert-manager.io/http01-edit-in-place": "true"})
	s.showsEverywhere(place, s.issued("place", 1))
	s.traffic(s.trusting(s.host))
	s.traffic(s.trusting(place))
	s.more(s.rate)
	for round := range renewals {
		for _, each := range []struct{ name, host string }{{"own", s.host}, {"place", place}} {
			times.renewed(s.renewed(each.name, int64(round+2), func(serial string) { s.showsEverywhere(each.host, serial) }))
		}
	}
	s.awaitChallengesGone()
	s.misled("lost." + s.host)
	s.unsolved("nobody." + s.host)
	s.replaced("other", "other."+s.host)
	s.more(s.rate)
	s.publish(times)
	s.finish()
}

// awaitChallengesGone waits until the objects of cert-manager's challenges are gone, also from the edited Ingress.
func (s *stage) awaitChallengesGone() {
	s.Helper()
	s.must(cluster.Eventually(s.Context(), issuing, "nothing of the challenges is left", func(ctx context.Context) (bool, string, error) {
		list, err := kube.API.NetworkingV1().Ingresses(s.namespace).List(ctx, meta.ListOptions{})
		if err != nil {
			return false, "", err
		}
		paths := 0
		for _, each := range list.Items {
			for _, rule := range each.Spec.Rules {
				paths += len(rule.HTTP.Paths)
			}
		}
		return paths == 2, fmt.Sprintf("%d paths in %d Ingresses", paths, len(list.Items)), nil
	}))
}

// misled asks for the certificate of a host that leads elsewhere: cert-manager waits and says why, until it leads to Fairway.
func (s *stage) misled(host string) {
	s.Helper()
	node, err := kube.NodeAddress(s.Context())
	s.must(err)
	s.resolves(host, node.String())
	s.annotated("lost", host, "pebble-ingress", nil)
	s.pending(host, "connection refused")
	s.shown(host, "the default certificate", func(serial string) bool { return serial != s.serialIn("own") })
	s.resolves(host, "")
	s.showsEverywhere(host, s.issued("lost", 1))
}

// unsolved requests a certificate whose challenge uses an IngressClass without a controller: the Ingress of the host serves it,
// and cert-manager reports the wrong response.
func (s *stage) unsolved(host string) {
	s.Helper()
	s.annotated("nobody", host, "pebble-nobody", nil)
	s.pending(host, "did not get expected response")
	s.must(kube.API.NetworkingV1().Ingresses(s.namespace).Delete(s.Context(), "nobody", meta.DeleteOptions{}))
}

// replaced deletes the Secret of a host, and then stores a foreign certificate in it: cert-manager issues anew each time.
func (s *stage) replaced(name, host string) {
	s.Helper()
	s.annotated(name, host, "pebble-ingress", nil)
	s.showsEverywhere(host, s.issued(name, 1))
	s.must(kube.API.CoreV1().Secrets(s.namespace).Delete(s.Context(), name, meta.DeleteOptions{}))
	s.showsEverywhere(host, s.issued(name, 2))
	foreign := s.certify(name, host)
	s.must(cluster.Eventually(s.Context(), issuing, "cert-manager replaces the foreign certificate", func(context.Context) (bool, string, error) {
		return s.serialIn(name) != foreign, "", nil
	}))
	s.showsEverywhere(host, s.issued(name, 3))
}

// With --host-ownership namespace a challenge for a host of another namespace is refused, both objects say so, and the owner of the
// host keeps being served.
func TestEcosystemCertManagerCannotHaveTheHostOfAnotherNamespace(t *testing.T) {
	s := newStage(t, "cert-owned")
	s.rate, s.requests = acmeRate, 0
	s.serveGateways()
	s.acme()
	s.must(upgrade(s.Context(), testbed.Image, append([]string{"hostOwnership=namespace"}, gatewayAPI...)...))
	s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
	s.must(kube.Deploy(t.Context(), s.workload("backend", 2)))
	s.annotated("own", s.host, "pebble-ingress", nil)
	s.showsEverywhere(s.host, s.issued("own", 1))
	s.traffic(s.trusting(s.host))
	s.more(s.rate)

	thief := &stage{T: s.T, name: "cert-thief", namespace: "e2e-cert-thief", host: s.host}
	s.must(kube.Namespace(s.Context(), thief.namespace))
	defer func() { s.must(kube.DeleteNamespace(context.Background(), thief.namespace)) }()
	thief.apply(fmt.Sprintf(`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {namespace: %s, name: stolen}
spec: {secretName: stolen, dnsNames: [%s], issuerRef: {kind: ClusterIssuer, name: pebble-ingress}}
`, thief.namespace, s.host))
	thief.pending(s.host, "did not get expected response")
	solver, err := kube.API.NetworkingV1().Ingresses(thief.namespace).List(s.Context(), meta.ListOptions{})
	s.must(err)
	if len(solver.Items) != 1 {
		s.Fatalf("cert-manager made %d Ingresses, not 1", len(solver.Items))
	}
	thief.noted("Ingress", solver.Items[0].Name, s.host, s.namespace)
	// cert-manager works on one challenge of a host at a time, and this one would never end.
	thief.kubectl("delete", "-n", thief.namespace, "certificate", "stolen")
	s.renewed("own", 2, func(serial string) { s.showsEverywhere(s.host, serial) })
	s.more(s.rate)
	s.finish()
}

// edge makes a Gateway with a listener for plain requests, and gives its address once it leads to Fairway; the DNS server says that the
// host is there.
func (s *stage) edge(annotations, listeners string) (address string) {
	s.Helper()
	s.apply(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: %s, name: %s, annotations: {%s}}
spec:
  gatewayClassName: %s
  allowedListeners: {namespaces: {from: Same}}
  listeners:
  - {name: plain, port: 80, protocol: HTTP}
%s
`, s.namespace, gatewayName, annotations, cluster.Class, listeners))
	found, err := kube.GatewayAddress(s.Context(), s.namespace, gatewayName)
	s.must(err)
	s.must(kube.AwaitReachable(s.Context(), found, 80))
	return found.String()
}

// routedAs is an HTTPRoute of that name and host to the backends, at a Gateway or ListenerSet.
func (s *stage) routedAs(name, kind, parent, host string) {
	s.Helper()
	s.apply(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: %s, name: %s}
spec:
  parentRefs: [{kind: %s, name: %s}]
  hostnames: [%s]
  rules: [{backendRefs: [{name: backend, port: 80}]}]
`, s.namespace, name, kind, parent, host))
}

// showsAt waits until as many new connections in a row are shown the certificate as make it unlikely that one of two replicas was
// never asked.
func (s *stage) showsAt(plan load.Plan, serial string) {
	s.Helper()
	const inARow = 20
	plan.Reuse = load.NewConnection
	probe := load.NewProbe(plan)
	s.must(cluster.Eventually(s.Context(), promptly, plan.Host+" is served at "+plan.Address+" with certificate "+serial,
		func(ctx context.Context) (bool, string, error) {
			for range inARow {
				if sight := probe.Ask(ctx); sight.Class != load.OK || sight.Serial != serial {
					return false, fmt.Sprintf("%+v", sight), nil
				}
			}
			return true, "", nil
		}))
}

// throughGateway renews the certificate in the Secret `edge-tls` under load, and lets a Secret be taken away and a challenge fail.
func (s *stage) throughGateway(address string, begun time.Time) {
	s.Helper()
	plan := s.trusting(s.host)
	plan.Address = address + ":443"
	times := timed{}
	serial := s.issued("edge-tls", 1)
	times.issue = time.Since(begun)
	s.showsAt(plan, serial)
	s.traffic(plan)
	s.more(s.rate)
	for round := range renewals {
		times.renewed(s.renewed("edge-tls", int64(round+2), func(serial string) { s.showsAt(plan, serial) }))
	}
	// A challenge that fails, for another host of the same Gateway.
	elsewhere := "lost." + s.host
	node, err := kube.NodeAddress(s.Context())
	s.must(err)
	s.resolves(elsewhere, node.String())
	s.apply(fmt.Sprintf(`
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {namespace: %s, name: lost}
spec: {secretName: lost, dnsNames: [%s], issuerRef: {kind: ClusterIssuer, name: pebble-gateway}}
`, s.namespace, elsewhere))
	s.pending(elsewhere, "connection refused")
	s.more(s.rate)
	s.resolves(elsewhere, address)
	s.issued("lost", 1)
	s.more(s.rate)
	s.publish(times)
	s.finish()
}

// cert-manager solves the challenge of a Gateway with an HTTPRoute, and the Gateway's listener gets its first certificate and every
// later one.
func TestEcosystemCertManagerRenewsTheCertificateOfAGateway(t *testing.T) {
	s := newStage(t, "cert-route")
	s.rate, s.requests = acmeRate, 0
	s.serveGateways()
	s.acme()
	s.must(kube.Deploy(t.Context(), s.workload("backend", 2)))
	begun := time.Now()
	address := s.edge("cert-manager.io/cluster-issuer: pebble-gateway", fmt.Sprintf(
		"  - {name: secure, port: 443, protocol: HTTPS, hostname: %s, tls: {certificateRefs: [{name: edge-tls}]}}", s.host))
	s.resolves(s.host, address)
	s.routedAs("backend", "Gateway", gatewayName, s.host)
	s.throughGateway(address, begun)
}

// The same for the listeners of a ListenerSet, to which cert-manager attaches the HTTPRoute of the challenge.
func TestEcosystemCertManagerRenewsTheCertificateOfAListenerSet(t *testing.T) {
	s := newStage(t, "cert-listeners")
	s.rate, s.requests = acmeRate, 0
	s.serveGateways()
	s.acme()
	s.must(kube.Deploy(t.Context(), s.workload("backend", 2)))
	begun := time.Now()
	address := s.edge("", "")
	s.resolves(s.host, address)
	s.apply(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: %s, name: team, annotations: {cert-manager.io/cluster-issuer: pebble-gateway}}
spec:
  parentRef: {name: %s}
  listeners:
  - {name: team-plain, port: 80, protocol: HTTP, hostname: %s}
  - {name: team-secure, port: 443, protocol: HTTPS, hostname: %s, tls: {certificateRefs: [{name: edge-tls}]}}
`, s.namespace, gatewayName, s.host, s.host))
	s.routedAs("backend", "ListenerSet", "team", s.host)
	s.throughGateway(address, begun)
}
