package scenario

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/metrics"
	"fairway/e2e/report"
)

const (
	// fleetRate is the limit of a client, in requests per second, and fleetBurst its burst.
	fleetRate, fleetBurst = 100, 100
	// excessClients exceed the limit together: each sends a request about every excessPause.
	excessClients, excessPause = 12, 10 * time.Millisecond
	// steadyWindow is how long a fleet that does not change is observed.
	steadyWindow = 10 * time.Second
)

// A limit of the fleet holds for a client of all replicas, of one of them, and while replicas come and go: docs/limits.md publishes the bound.
func TestALimitOfTheFleetHoldsWhileReplicasComeAndGo(t *testing.T) {
	s := newStage(t, "fleet")
	// The requests here are counted by admits.
	s.requests = 0
	s.scaleFairway(3)
	defer s.scaleFairway(fairwayReplicas)
	s.must(kube.Deploy(s.Context(), s.workload("backend", 2)))
	s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: "limited", Host: s.host, Service: "backend", Annotations: map[string]string{
		"fairway.dev/limit-scope":                            "fleet",
		"nginx.ingress.kubernetes.io/limit-rps":              fmt.Sprint(fleetRate),
		"nginx.ingress.kubernetes.io/limit-burst-multiplier": fmt.Sprint(fleetBurst / fleetRate),
	}}))
	s.awaitServed(load.Plan{Host: s.host})

	s.countedBy(3)
	service := cluster.Join(addresses[0], 80)
	s.admits("3 replicas", service, fleetBound{1, 3, 0.5}, func() { s.observe(steadyWindow) })
	pods, err := replicaAddresses(s.Context())
	s.must(err)
	s.admits("1 of 3 replicas", cluster.Join(pods[0], 8080), fleetBound{1, 3, 0.5}, func() { s.observe(steadyWindow) })
	// Pods have their zone as a label: that of the new ones differs.
	defer s.labelNodes("")
	s.labelNodes(otherZone)
	s.admits("3 to 6 replicas", service, fleetBound{6. / 3, 6, 0}, func() { s.scaleFairway(6); s.countedBy(6) })
	s.admits("6 replicas", service, fleetBound{1, 6, 0.5}, func() { s.observe(steadyWindow) })
	s.admits("6 to 3 replicas", service, fleetBound{2 - 3./6, 6, 0}, func() { s.scaleFairway(3); s.countedBy(3) })
	s.finish()
}

// countedBy waits until each replica divides limits by this number.
func (s *stage) countedBy(count int) {
	s.Helper()
	pods, err := replicaAddresses(s.Context())
	s.must(err)
	for _, address := range pods {
		s.must(cluster.Eventually(s.Context(), time.Minute, fmt.Sprintf("%s counts %d replicas", address, count), func(ctx context.Context) (bool, string, error) {
			page, err := metrics.Read(ctx, cluster.Join(address, probePort))
			if err != nil {
				return false, "", err
			}
			value, _ := page.Value("fairway_fleet_replicas", nil)
			return value == float64(count), fmt.Sprint(value), nil
		}))
	}
}

func (s *stage) observe(window time.Duration) {
	select {
	case <-s.Context().Done():
	case <-time.After(window):
	}
}

// fleetBound is the sum of the shares of all replicas, and their number.
type fleetBound struct {
	shares   float64
	replicas int
	// leastShare of the limit is let through at least: without lending, one of three replicas lets through a third.
	leastShare float64
}

// requests are the most that all replicas let through within a window.
func (bound fleetBound) requests(window time.Duration) float64 {
	return (fleetRate*window.Seconds()+fleetBurst)*bound.shares + float64(bound.replicas)
}

// admits sends more requests than the limit allows during an event, and compares the admitted ones with the published bound.
func (s *stage) admits(what, address string, bound fleetBound, happens func()) {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	var clients sync.WaitGroup
	var lock sync.Mutex
	counts := map[load.Class]int{}
	began := time.Now()
	for range excessClients {
		clients.Go(func() {
			probe := load.NewProbe(load.Plan{Address: address, Host: s.host, Reuse: load.NewConnection, Ports: clientPorts})
			defer probe.Close()
			for ctx.Err() == nil {
				sight := probe.Ask(context.WithoutCancel(ctx))
				lock.Lock()
				counts[sight.Class]++
				lock.Unlock()
				time.Sleep(excessPause)
			}
		})
	}
	happens()
	stop()
	clients.Wait()
	window := time.Since(began)
	admitted, refused, all := counts[load.OK], counts[load.Class("status 503")], 0
	for _, count := range counts {
		all += count
	}
	limit := fleetRate*window.Seconds() + fleetBurst
	s.Logf("%s: %d of %d requests admitted in %.1f s; limit %.0f, bound %.0f", what, admitted, all, window.Seconds(), limit, bound.requests(window))
	s.figures = append(s.figures, report.Figure{Name: what + ": admitted, of the limit", Value: 100 * float64(admitted) / limit, Unit: "%"})
	if float64(admitted) > bound.requests(window) {
		s.Errorf("%s: %d requests were admitted in %s; the bound is %.0f", what, admitted, window, bound.requests(window))
	}
	if float64(admitted) < bound.leastShare*limit {
		s.Errorf("%s: %d requests were admitted in %s, less than %.0f%% of the limit", what, admitted, window, 100*bound.leastShare)
	}
	if refused == 0 || admitted+refused != all {
		s.Errorf("%s: expected only 200 and, beyond the limit, 503: %v", what, counts)
	}
}
