package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/report"
	"fairway/e2e/verdict"
)

// HTTP/2 and gRPC over TLS while everything changes: backends go 5, 7, 5, routes come and go, Fairway's replicas are rolled.
// Streams of some seconds are open all the time: they may end early only with their pod, and must say so.
func TestStreamsAndCallsOfHTTP2LiveThroughEveryChange(t *testing.T) {
	s := newStage(t, "streams")
	s.requests = how.streamed
	s.must(kube.Deploy(t.Context(), s.workload("backend", 5)))
	web := s.secure("web", s.host)
	s.awaitServed(web)
	web.Protocol, web.Clients, web.Sharing, web.Rate = load.HTTP2, 24, 8, s.rate*6/10
	calls := s.called(web)
	calls.Clients, calls.Sharing, calls.Rate = 12, 4, s.rate*4/10
	s.stream(web)
	s.stream(calls)
	calls.Clients = how.held
	held := s.hold(calls)
	changes := 0
	s.repeat(func() {
		s.scale("backend", 7)
		changes++
		s.changeRoutes(changes)
		// The streams that begin meanwhile are spread over all seven.
		s.lasting(max(how.up, load.StreamLength+2*time.Second))
		s.scale("backend", 5)
		s.lasting(how.down)
		s.must(kube.Restart(s.Context(), fairwayNamespace, fairwayName))
		s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
	})
	s.checkHeld(held.Stop())
	s.finish(verdict.PostLostToDyingPod(&s.dying), verdict.CallLostToDyingPod(&s.dying))
}

// called routes a gRPC host to the same backends, and waits until every replica serves it.
func (s *stage) called(web load.Plan) load.Plan {
	s.Helper()
	signed, err := authority()
	s.must(err)
	host := "grpc." + s.host
	s.certify("calls", host)
	s.must(kube.Route(s.Context(), cluster.Route{
		Namespace: s.namespace, Name: "calls", Host: host, Service: "backend", Secret: "calls",
		Annotations: map[string]string{"nginx.ingress.kubernetes.io/backend-protocol": "GRPC"},
	}))
	plan := web
	plan.Protocol, plan.Host, plan.TLS = load.GRPC, host, signed.Client(host)
	replicas, err := replicaAddresses(s.Context())
	s.must(err)
	for _, address := range replicas {
		direct := plan
		direct.Address = cluster.Join(address, 8443)
		s.must(cluster.Eventually(s.Context(), promptly, fmt.Sprintf("%s answers calls of %s", address, host),
			func(context.Context) (bool, string, error) {
				sight := load.Call(direct)
				return sight.Class == load.OK, fmt.Sprintf("%+v", sight), nil
			}))
	}
	return plan
}

// hold begins streams through the Service of Fairway.
func (s *stage) hold(plan load.Plan) *load.Holding {
	plan.Address, plan.Ports = cluster.Join(addresses[0], 443), clientPorts
	holding := load.Hold(plan)
	s.Cleanup(func() { holding.Stop() })
	return holding
}

// changeRoutes makes an Ingress with a host of its own, and removes the one before.
func (s *stage) changeRoutes(number int) {
	s.Helper()
	name := func(number int) string { return fmt.Sprintf("more-%d", number) }
	host := name(number) + "." + s.host
	s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: name(number), Host: host, Service: "backend"}))
	s.awaitServed(load.Plan{Host: host})
	if number > 1 {
		s.must(kube.API.NetworkingV1().Ingresses(s.namespace).Delete(s.Context(), name(number-1), meta.DeleteOptions{}))
	}
}

// checkHeld fails for streams that end early, but with UNAVAILABLE while pods were dying.
func (s *stage) checkHeld(held load.Held) {
	s.Helper()
	lost := verdict.CallLostToDyingPod(&s.dying)
	told, classes := 0, map[string]int{}
	var wrong []string
	for _, event := range held.Events {
		classes[strings.TrimSpace(string(event.Class)+" "+event.Reason)]++
		if lost.Takes(event) {
			told++
		} else {
			wrong = append(wrong, event.String())
		}
	}
	book.Add(report.Scenario{
		Name: s.name, Stream: "gRPC streams", Requests: held.Streams, Failed: len(wrong), Classes: classes,
		Apart: map[string]int{"stream ended with UNAVAILABLE by a dying pod": told},
	})
	s.Logf("%s: %d streams with %d messages: %d completed, %d told UNAVAILABLE", s.name, held.Streams, held.Messages, held.Completed, told)
	if len(wrong) > 0 {
		s.Errorf("%s: %d of %d streams failed: %s", s.name, len(wrong), held.Streams, firstLines(wrong))
	}
	if held.Completed == 0 {
		s.Errorf("%s: no stream was completed", s.name)
	}
	if told == 0 {
		s.Errorf("%s: no stream was in a dying pod: the scenario shows nothing", s.name)
	}
}
