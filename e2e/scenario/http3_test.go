package scenario

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"fairway/e2e/bed"
	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/metrics"
	"fairway/e2e/report"
	"fairway/e2e/verdict"
)

// http3Value switches HTTP/3 on, with its UDP port in the Service.
const http3Value = "http3.enabled=true"

// long is a response that is on its way while a replica drains: longer than kube-proxy needs to hear that the replica is not ready.
const long = 8 * time.Second

// HTTP/3 through the UDP port of the Service while backends go 5, 7, 5 and Fairway's replicas are rolled and scaled. A connection that
// is draining must keep what it carries, also where a response takes long.
func TestHTTP3LosesNoRequestWhenBackendsAndReplicasComeAndGo(t *testing.T) {
	s := newStage(t, "http3")
	s.requests = how.streamed
	s.must(kube.Deploy(t.Context(), s.workload("backend", 5)))
	s.serveHTTP3()
	web := s.secure("web", s.host)
	s.awaitServed(web)
	s.servedByHTTP3(web)
	web.Protocol = load.HTTP3
	keep, fresh, slow := web, web, web
	keep.Clients, keep.Sharing, keep.Rate = 24, 8, s.rate*8/10
	fresh.Reuse, fresh.Clients, fresh.Rate = load.NewConnection, 10, s.rate*2/10
	// POSTs, so that one that is cut is no GET that its client repeats.
	slow.Delay, slow.PostEvery, slow.Clients, slow.Sharing, slow.Rate = long, 1, 20, 2, 2
	for _, plan := range []load.Plan{keep, fresh, slow} {
		s.stream(plan)
	}
	s.repeat(func() {
		s.scale("backend", 7)
		s.lasting(how.up)
		s.scale("backend", 5)
		s.lasting(how.down)
		for _, image := range []string{testbed.Next, testbed.Image} {
			s.must(upgrade(s.Context(), image, http3Value))
			s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
			s.runs(image)
			s.more(s.rate)
		}
		s.scaleFairway(5)
		s.lasting(how.up)
		s.scaleFairway(fairwayReplicas)
		s.lasting(how.down)
	})
	s.finish(verdict.PostLostToDyingPod(&s.dying))
}

// serveHTTP3 installs the release again with HTTP/3, until the test ends. It does not upgrade it: Helm 3 merges ports by their number
// alone, so that a TCP port that exists and a UDP port of the same number become one.
func (s *stage) serveHTTP3() {
	s.Helper()
	s.Cleanup(func() {
		if err := reinstall(context.Background()); err != nil {
			s.Error(err)
		}
	})
	s.must(reinstall(s.Context(), http3Value))
	s.ticketsShared()
}

// ticketsShared waits until every replica has the leader's session ticket key, from which stateless resets are derived.
func (s *stage) ticketsShared() {
	s.Helper()
	s.ticketKey()
	pods, err := replicaAddresses(s.Context())
	s.must(err)
	for _, address := range pods {
		s.must(cluster.Eventually(s.Context(), promptly, address.String()+" has the ticket key", func(ctx context.Context) (bool, string, error) {
			page, err := metrics.Read(ctx, cluster.Join(address, probePort))
			_, shared := page.Value("fairway_tls_ticket_key_age_seconds", map[string]string{"source": "shared"})
			return shared, "it has one of its own", err
		}))
	}
}

// reinstall removes the release and installs it again.
func reinstall(ctx context.Context, values ...string) error {
	if _, err := bed.Run(ctx, testbed.Helm, "uninstall", fairwayName, "--namespace", fairwayNamespace, "--wait"); err != nil {
		return err
	}
	return install(ctx, values...)
}

// servedByHTTP3 waits until every replica of Fairway responds over QUIC, and then the Service, which takes until kube-proxy
// knows its UDP port.
func (s *stage) servedByHTTP3(plan load.Plan) {
	s.Helper()
	replicas, err := replicaAddresses(s.Context())
	s.must(err)
	targets := []string{cluster.Join(addresses[0], 443)}
	for _, address := range replicas {
		targets = append(targets, cluster.Join(address, 8443))
	}
	plan.ConnectTimeout = time.Second
	for _, target := range targets {
		plan.Address = target
		s.must(cluster.Eventually(s.Context(), promptly, fmt.Sprintf("%s answers %s over HTTP/3", target, plan.Host),
			func(context.Context) (bool, string, error) {
				sight := load.GetHTTP3(plan)
				return sight.Class == load.OK, fmt.Sprintf("%+v", sight), nil
			}))
	}
}

// moves is how many connections come to another replica, or may, in each way.
const moves = 100

// A connection whose datagrams reach another replica, because the node forgets its flow or the client's port changes: the
// replica sends a stateless reset, and a new connection serves the request.
func TestAConnectionOfHTTP3ThatComesToAnotherReplicaIsResetAtOnce(t *testing.T) {
	s := newStage(t, "http3-moved")
	s.must(kube.Deploy(t.Context(), s.workload("backend", 2)))
	s.serveHTTP3()
	plan := s.secure("web", s.host)
	s.awaitServed(plan)
	s.servedByHTTP3(plan)
	plan.Name, plan.Address, plan.Ports = s.name, cluster.Join(addresses[0], 443), clientPorts
	s.move("flow forgotten", plan, func(client *load.Moving) error { return cluster.ForgetFlow(client.Local().Port, plan.Address) })
	s.move("port changed", plan, (*load.Moving).Rebind)
	book.Add(report.Scenario{Name: s.name, Figures: s.figures})
}

// move moves connections, one after the other.
func (s *stage) move(way string, plan load.Plan, do func(*load.Moving) error) {
	s.Helper()
	before := s.resetsSent()
	var told, answered, roundTrips []time.Duration
	atOnce := 0
	for range moves {
		client, err := load.Move(plan)
		s.must(err)
		s.must(do(client))
		moved, err := client.Get()
		client.Close()
		switch {
		case err != nil:
			s.Errorf("%s: a request met %v after %s", way, err, moved.Answered)
		case moved.Reset:
			told, answered, roundTrips = append(told, moved.Told), append(answered, moved.Answered), append(roundTrips, moved.RoundTrip)
			if moved.Datagrams <= 1 {
				atOnce++
			}
		}
	}
	sent := s.resetsSent() - before
	s.Logf("%s: %d of %d connections were reset, %d of them by their first datagram; replicas count %v resets", way, len(told), moves, atOnce, sent)
	// With two replicas each connection has an even chance to come to the one that does not know it.
	if len(told) < moves/4 || len(told) > moves*3/4 {
		s.Errorf("%s: %d of %d connections were reset: the scenario shows nothing", way, len(told), moves)
	}
	if int(sent) < len(told) {
		s.Errorf("%s: clients saw %d stateless resets, and replicas count %v", way, len(told), sent)
	}
	// On a busy machine a client may send again before the reset of its first datagram comes.
	if atOnce < len(told)/2 {
		s.Errorf("%s: %d of %d resets came before a second datagram was sent", way, atOnce, len(told))
	}
	for _, each := range []struct {
		name  string
		times []time.Duration
	}{{"round trip before", roundTrips}, {"reset after the first datagram", told}, {"response after the first datagram", answered}} {
		slices.Sort(each.times)
		s.figure(way+", "+each.name+", p50", float64(load.Percentile(each.times, 0.5).Microseconds())/1000, "ms", 0)
		s.figure(way+", "+each.name+", max", float64(load.Percentile(each.times, 1).Microseconds())/1000, "ms", 0)
	}
}

// resetsSent are the stateless resets of all replicas.
func (s *stage) resetsSent() float64 {
	s.Helper()
	pods, err := replicaAddresses(s.Context())
	s.must(err)
	all := 0.0
	for _, address := range pods {
		page, err := metrics.Read(s.Context(), cluster.Join(address, probePort))
		s.must(err)
		count, found := page.Value("fairway_quic_stateless_resets_total", nil)
		if !found {
			s.Fatalf("the metrics of %s have no stateless resets", address)
		}
		all += count
	}
	return all
}
