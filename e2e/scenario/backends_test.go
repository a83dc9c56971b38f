package scenario

import (
	"context"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/verdict"
)

// Study 1: 5 replicas, then 7, then 5 again; those that go end at once.
func TestScalingADeploymentLosesNoRequest(t *testing.T) {
	s := beside(t, "scale")
	s.backends(5)
	s.traffic(load.Plan{})
	s.repeat(func() {
		s.scale("backend", 7)
		s.lasting(how.up)
		s.scale("backend", 5)
		s.lasting(how.down)
	})
	s.finish(verdict.PostLostToDyingPod(&s.dying))
}

// scale waits until the Deployment has exactly its pods; until then pods may be dying.
func (s *stage) scale(name string, count int32) {
	s.Helper()
	end := s.dying.Open()
	defer end()
	s.must(kube.Scale(s.Context(), s.namespace, name, count))
	s.must(kube.AwaitSettled(s.Context(), s.namespace, name))
}

func TestARollingRestartLosesNoRequest(t *testing.T) {
	s := beside(t, "restart")
	s.backends(4)
	s.traffic(load.Plan{})
	s.repeat(func() {
		s.restart("backend")
		s.more(s.rate)
	})
	s.finish(verdict.PostLostToDyingPod(&s.dying))
}

func (s *stage) restart(name string) {
	s.Helper()
	end := s.dying.Open()
	defer end()
	s.must(kube.Restart(s.Context(), s.namespace, name))
	s.must(kube.AwaitSettled(s.Context(), s.namespace, name))
}

func TestKilledBackendContainersLoseNoIdempotentRequest(t *testing.T) {
	s := beside(t, "kill")
	s.backends(4)
	s.traffic(load.Plan{})
	s.repeat(func() {
		pods, err := kube.Pods(s.Context(), s.namespace, "backend")
		s.must(err)
		for _, pod := range pods {
			s.kill(pod)
			s.more(s.rate)
		}
		// Containers that were killed before are restarted ever later: new pods, so that this never has to wait long.
		s.restart("backend")
	})
	s.finish(verdict.PostLostToDyingPod(&s.dying), verdict.AnswerCutByKill(&s.kills))
}

// kill kills the container of a pod with -9 and waits until it is back.
func (s *stage) kill(pod core.Pod) {
	s.Helper()
	dead, killed := s.dying.Open(), s.kills.Open()
	defer dead()
	s.must(testbed.Fault(s.Context(), "kill-container", pod.Namespace+"/"+pod.Name))
	s.must(kube.AwaitDead(s.Context(), pod))
	killed()
	s.must(kube.AwaitRestarted(s.Context(), pod))
}

func TestABlackHoleBehindOneAddressLosesNoIdempotentRequest(t *testing.T) {
	s := beside(t, "blackhole")
	s.backends(4)
	// Many of them wait at once.
	s.traffic(load.Plan{Clients: 80})
	s.repeat(func() {
		pods, err := kube.Pods(s.Context(), s.namespace, "backend")
		s.must(err)
		s.blackHole(pods[0])
		s.silence(pods[1])
	})
	s.swift()
	s.finish(verdict.PostLostToDyingPod(&s.dying))
}

const (
	// connecting is the connect timeout of Ingresses: what a black hole may cost a request, with a second for a busy machine.
	connecting = 5*time.Second + time.Second
	// inHand is what it may cost one that an endpoint had in hand when its address was cut off. No byte is
	// unacknowledged then: Fairway's kernel asks after 10 s of silence and gives up 2 s later; the rest is another attempt.
	inHand = 18 * time.Second
)

// swift says how long requests took because of a black hole, and that none took longer than it may.
func (s *stage) swift() {
	s.Helper()
	var later, before time.Duration
	for _, stream := range s.streams {
		for _, event := range stream.Slowest() {
			took := event.End.Sub(event.Begin)
			if s.cuts.Holds(event.Begin, event.End) {
				before = max(before, took)
			} else {
				later = max(later, took)
			}
		}
	}
	s.figure("longest of those begun in a black hole", later.Seconds(), "s", 5)
	s.figure("longest of those in hand when it began", before.Seconds(), "s", 0)
	if later > connecting || before > inHand {
		s.Errorf("requests took up to %s, and %s when they were in hand as an address was cut off", later, before)
	}
}

// blackHole drops all packets of a pod's address until its node has found out, and for a while longer.
func (s *stage) blackHole(pod core.Pod) {
	s.Helper()
	end := s.dying.Open()
	defer end()
	s.dropped(pod, func() {
		s.awaitReadiness(pod, false)
		s.more(s.rate)
	})
	s.awaitReadiness(pod, true)
	s.more(s.rate)
}

// silence does the same, but the node does not find out: the pod stays a ready endpoint that nobody reaches.
func (s *stage) silence(pod core.Pod) {
	s.Helper()
	end := s.dying.Open()
	defer end()
	s.dropped(pod, func() { s.more(3 * s.rate) }, "--except-node")
	s.more(s.rate)
}

// dropped drops a pod's packets while something happens.
func (s *stage) dropped(pod core.Pod, happens func(), options ...string) {
	s.Helper()
	cut := s.cuts.Open()
	s.must(testbed.Fault(s.Context(), append([]string{"drop-address", pod.Status.PodIP}, options...)...))
	cut()
	restored := false
	restore := func() {
		if !restored {
			restored = true
			s.must(testbed.Fault(context.Background(), "restore-address", pod.Status.PodIP))
		}
	}
	defer restore()
	happens()
	restore()
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

// IPv4 and IPv6 clients, Services with one family, with the other, and with both.
func TestDualStackServicesAndEndpointsAreServedToBothFamilies(t *testing.T) {
	s := beside(t, "dualstack")
	if len(addresses) < 2 || !addresses[1].Is6() {
		t.Fatalf("Fairway's Service has the addresses %v, not one of each family", addresses)
	}
	families := map[string][]core.IPFamily{
		"both": {core.IPv6Protocol, core.IPv4Protocol},
		"four": {core.IPv4Protocol},
		"six":  {core.IPv6Protocol},
	}
	for name, wanted := range families {
		w := s.workload(name, 2)
		w.Families = wanted
		s.must(kube.Deploy(s.Context(), w))
		host := name + "." + s.host
		s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: name, Host: host, Service: name}))
		s.served(load.Plan{Host: host})
		for _, address := range addresses {
			s.stream(load.Plan{
				Host: host, Address: cluster.Join(address, 80), Clients: 5, Rate: s.rate / 6, Reuse: load.NewConnection,
			})
		}
	}
	s.repeat(func() {
		for name := range families {
			s.scale(name, 3)
			s.scale(name, 2)
		}
	})
	s.finish(verdict.PostLostToDyingPod(&s.dying))
}
