package scenario

import (
	"testing"

	core "k8s.io/api/core/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/verdict"
)

// Study 1: 5 replicas, then 7, then 5 again; those that go end at once.
func TestScalingADeploymentLosesNoRequest(t *testing.T) {
	s := newParallelStage(t, "scale")
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
	s := newParallelStage(t, "restart")
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
	s := newParallelStage(t, "kill")
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

// IPv4 and IPv6 clients, Services with one family, with the other, and with both.
func TestDualStackServicesAndEndpointsAreServedToBothFamilies(t *testing.T) {
	s := newParallelStage(t, "dualstack")
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
		s.awaitServed(load.Plan{Host: host})
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
