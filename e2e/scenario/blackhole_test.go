package scenario

import (
	"context"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/metrics"
	"fairway/e2e/verdict"
)

// One of four endpoints stops answering: its packets are dropped, first so that the node finds out, then so that it does
// not. The latencies are published and hold on a quiet machine; what the test asserts holds on a busy one.
func TestABlackHoleBehindOneAddressLosesNoIdempotentRequest(t *testing.T) {
	s := newStage(t, "blackhole")
	s.backends(4)
	s.impatient()
	// Many of them wait at once.
	s.traffic(load.Plan{Clients: 80})
	before := s.connects()
	var found, hidden []cut
	s.repeat(func() {
		pods, err := kube.Pods(s.Context(), s.namespace, "backend")
		s.must(err)
		found = append(found, s.blackHole(pods[0]))
		hidden = append(hidden, s.silence(pods[1]))
	})
	s.latencies("node finds out", found)
	s.latencies("node does not find out", hidden)
	s.within(before)
	s.finish(verdict.PostLostToDyingPod(&s.dying))
}

// impatient is a stream of clients that give up before Fairway's connect timeout is over. A request that waits for that
// timeout fails here, and on a machine of any speed no other one does.
func (s *stage) impatient() {
	s.Helper()
	host := "impatient." + s.host
	s.must(kube.Route(s.Context(), cluster.Route{
		Namespace: s.namespace, Name: "impatient", Host: host, Service: "backend",
		Annotations: map[string]string{"nginx.ingress.kubernetes.io/proxy-connect-timeout": "60"},
	}))
	plan := load.Plan{Host: host, Clients: 40, Rate: s.rate / 5, AnswerTimeout: 30 * time.Second}
	s.awaitServed(plan)
	s.stream(plan)
	s.rate -= plan.Rate
}

// cut is the time in which an address was being cut off: between the two, some of its packets were dropped.
type cut struct{ from, to time.Time }

// watched is how long after a cut the latency of requests is looked at.
const watched = 30 * time.Second

// blackHole drops all packets of a pod's address until its node has found out, and for a while longer.
func (s *stage) blackHole(pod core.Pod) cut {
	s.Helper()
	end := s.dying.Open()
	defer end()
	at := s.dropped(pod, func(cut) {
		s.awaitReadiness(pod, false)
		s.more(s.rate)
	})
	s.awaitReadiness(pod, true)
	s.runUntil(at.to.Add(watched))
	return at
}

// silence does the same, but the node does not find out: the pod stays a ready endpoint that cannot be reached. Fairway
// connects there sooner or later, and then to another one as well.
func (s *stage) silence(pod core.Pod) cut {
	s.Helper()
	end := s.dying.Open()
	defer end()
	before := s.connects()
	at := s.dropped(pod, func(at cut) {
		s.hedged(before)
		s.runUntil(at.to.Add(watched))
	}, "--except-node")
	s.more(s.rate)
	return at
}

// dropped drops a pod's packets while something happens.
func (s *stage) dropped(pod core.Pod, happens func(cut), options ...string) cut {
	s.Helper()
	at := cut{from: time.Now()}
	s.must(testbed.Fault(s.Context(), append([]string{"drop-address", pod.Status.PodIP}, options...)...))
	at.to = time.Now()
	restored := false
	restore := func() {
		if !restored {
			restored = true
			s.must(testbed.Fault(context.Background(), "restore-address", pod.Status.PodIP))
		}
	}
	defer restore()
	happens(at)
	restore()
	return at
}

// runUntil lets the streams run until a time, which may have passed.
func (s *stage) runUntil(end time.Time) {
	select {
	case <-s.Context().Done():
	case <-time.After(time.Until(end)):
	}
}

// latencies publishes how long requests took because of the cuts. Nothing is asserted: that would fail on a busy machine.
func (s *stage) latencies(what string, cuts []cut) {
	s.Helper()
	var after, inHand, lost []time.Duration
	for _, stream := range s.streams {
		for _, span := range stream.Spans() {
			for _, at := range cuts {
				switch {
				case span.End.Before(at.from) || span.Begin.After(at.to.Add(watched)):
				case !span.OK:
					lost = append(lost, span.Duration())
				case span.Begin.After(at.to):
					after = append(after, span.Duration())
				default:
					inHand = append(inHand, span.Duration())
				}
			}
		}
	}
	slices.Sort(after)
	slices.Sort(inHand)
	slices.Sort(lost)
	label := what + ": begun in the 30 s after the cut"
	s.figure(label+", requests", float64(len(after)), "", 0)
	s.figure(label+", p50", load.Percentile(after, 0.50).Seconds(), "s", 0)
	s.figure(label+", p99", load.Percentile(after, 0.99).Seconds(), "s", 0.4)
	s.figure(label+", longest", load.Percentile(after, 1).Seconds(), "s", 1)
	s.figure(what+": in hand at the cut, longest", load.Percentile(inHand, 1).Seconds(), "s", 2.5)
	s.figure(what+": POSTs that were lost, longest", load.Percentile(lost, 1).Seconds(), "s", 0)
}

// connects is what one replica of Fairway says of the connections that it makes to endpoints.
type connects struct {
	// made counts connections, retries attempts after the first of a request.
	made, retries float64
	// hedges are late connects, by how they were handled.
	hedges map[string]float64
	// timedOut counts requests that failed with the connect timeout.
	timedOut float64
	// up is how long the process has run.
	up time.Duration
}

// connects of each replica that is ready.
func (s *stage) connects() map[netip.Addr]connects {
	s.Helper()
	pods, err := replicas(s.Context())
	s.must(err)
	all := map[netip.Addr]connects{}
	for _, pod := range pods {
		address, err := netip.ParseAddr(pod.Status.PodIP)
		s.must(err)
		page, err := metrics.Read(s.Context(), cluster.Join(address, probePort))
		s.must(err)
		// No longer than this, by the clock of the node, which is ours.
		all[address] = s.connectsOf(page, time.Since(pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time))
	}
	return all
}

func (s *stage) connectsOf(page metrics.Page, up time.Duration) connects {
	s.Helper()
	value := func(name string, labels map[string]string) float64 {
		value, _ := page.Value("fairway_"+name, labels)
		return value
	}
	all := connects{
		made: value("upstream_connections_total", nil), retries: value("upstream_retries_total", nil),
		hedges:   map[string]float64{},
		timedOut: value("faults_total", map[string]string{"reason": "connect_timeout"}),
		up:       up,
	}
	for _, outcome := range hedgeOutcomes {
		all.hedges[outcome] = value("upstream_hedges_total", map[string]string{"outcome": outcome})
	}
	return all
}

// hedgeOutcomes are those of docs/metrics.md. The budget pays for `won` and `lost`.
var hedgeOutcomes = []string{"won", "lost", "reused", "moved", "refused"}

// hedgeCount is the number of hedges that the budget has paid for.
func (c connects) hedgeCount() float64 { return c.hedges["won"] + c.hedges["lost"] }

// escaped is how many requests did not wait for a late connect.
func (c connects) escaped() float64 { return c.hedgeCount() + c.hedges["reused"] + c.hedges["moved"] }

// hedged waits until a replica has hedged a connect. Without one the scenario continues, for its figures.
func (s *stage) hedged(before map[netip.Addr]connects) {
	s.Helper()
	err := cluster.Eventually(s.Context(), promptly, "a connect to the dead endpoint is hedged", func(context.Context) (bool, string, error) {
		made := 0.0
		for address, now := range s.connects() {
			made += now.escaped() - before[address].escaped()
		}
		return made > 0, "none is", nil
	})
	if err != nil {
		s.Error(err)
	}
}

// within shows that no replica hedged more than its budget of a tenth of its connects and ten a second for each worker,
// since it started, and that no request was answered with the connect timeout.
func (s *stage) within(before map[netip.Addr]connects) {
	s.Helper()
	made, hedges := 0.0, map[string]float64{}
	for address, now := range s.connects() {
		then, known := before[address]
		if !known {
			s.Fatalf("replica %s was not there at the begin", address)
		}
		workers := float64(runtime.NumCPU())
		budget := (now.made+now.retries+now.hedgeCount())/10 + 10*workers*(1+math.Ceil(now.up.Seconds()))
		if now.hedgeCount() > budget {
			s.Errorf("replica %s paid for %v hedges, and its budget was %v: %+v", address, now.hedgeCount(), budget, now)
		}
		if now.timedOut > then.timedOut {
			s.Errorf("replica %s answered %v requests with the connect timeout", address, now.timedOut-then.timedOut)
		}
		made += now.made - then.made
		for _, outcome := range hedgeOutcomes {
			hedges[outcome] += now.hedges[outcome] - then.hedges[outcome]
		}
	}
	s.figure("connections made to endpoints", made, "", 0)
	for _, outcome := range hedgeOutcomes {
		s.figure("late connects: "+outcome, hedges[outcome], "", 0)
	}
}

func (s *stage) awaitReadiness(pod core.Pod, wanted bool) {
	s.Helper()
	what := "pod " + pod.Name + " is ready"
	if !wanted {
		what = "pod " + pod.Name + " is not ready"
	}
	s.must(cluster.Eventually(s.Context(), promptly, what, func(ctx context.Context) (bool, string, error) {
		now, err := kube.Pod(ctx, pod.Namespace, pod.Name)
		if err != nil {
			return false, "", err
		}
		return cluster.IsReady(*now) == wanted, string(now.Status.Phase), nil
	}))
}
