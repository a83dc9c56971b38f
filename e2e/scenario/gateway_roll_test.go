package scenario

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/verdict"
)

// While a roll moves the addresses behind a Gateway, the replica that writes them is killed: another one must take over before the
// old replicas stop accepting.
func TestKillingTheLeaderOfARollCostsAGatewayOnlyWhatWasInsideIt(t *testing.T) {
	s := newStage(t, "gateway-roll-kill")
	address := s.gateway()
	s.traffic(load.Plan{Address: address})
	kills := 0
	s.repeat(func() {
		for _, roll := range []func() core.Pod{s.rollBegins, s.rollIsUnderWay} {
			s.killRolling(roll(), address)
			kills++
			s.more(s.rate)
		}
	})
	// A client has one request at a time, so that a kill cuts at most one of each.
	most := kills * s.clients()
	cut, inside := 0, verdict.CutInKilledFairway(&s.kills)
	takes := inside.Takes
	inside.Takes = func(event load.Event) bool {
		if !takes(event) {
			return false
		}
		cut++
		return true
	}
	s.finish(inside, verdict.RefusedByKilledFairway(&s.absent))
	if cut > most {
		s.Errorf("%d requests were cut while %d processes were killed; these had at most %d", cut, kills, most)
	}
}

// clients is how many there are, over all streams.
func (s *stage) clients() int {
	all := 0
	for _, stream := range s.streams {
		all += stream.Plan().Clients
	}
	return all
}

// rollBegins begins to roll Fairway's replicas, and gives the pod that leads at that moment.
func (s *stage) rollBegins() core.Pod {
	s.Helper()
	leader := s.leaderPod()
	s.must(kube.Restart(s.Context(), fairwayNamespace, fairwayName))
	return leader
}

// rollIsUnderWay begins to roll Fairway's replicas and waits until a new one is ready, which is when the first old one is told to
// stop. Gives the pod that leads then.
func (s *stage) rollIsUnderWay() core.Pod {
	s.Helper()
	before, err := replicas(s.Context())
	s.must(err)
	s.must(kube.Restart(s.Context(), fairwayNamespace, fairwayName))
	isNew := func(pod core.Pod) bool {
		return !slices.ContainsFunc(before, func(old core.Pod) bool { return old.UID == pod.UID })
	}
	s.must(cluster.Eventually(s.Context(), 3*time.Minute, "a new replica of Fairway is ready", func(ctx context.Context) (bool, string, error) {
		now, err := replicas(ctx)
		return slices.ContainsFunc(now, isNew), fmt.Sprintf("%d are ready", len(now)), err
	}))
	return s.leaderPod()
}

func (s *stage) leaderPod() core.Pod {
	s.Helper()
	pod, err := kube.Pod(s.Context(), fairwayNamespace, s.leader())
	s.must(err)
	return *pod
}

// killRolling kills a container of Fairway with -9 and waits until the roll is over. Connections may be refused until the Service
// of the Gateway leads to that container no more, or it is back. What is logged tells whether a request failed while the replica was
// absent, when its pod was already terminating, or afterwards, on another replica.
func (s *stage) killRolling(pod core.Pod, address string) {
	s.Helper()
	begun := time.Now()
	since := func() time.Duration { return time.Since(begun).Round(time.Millisecond) }
	s.Logf("%s: replica %s at %s is killed, terminating: %t", begun.Format("15:04:05.000"), pod.Name, pod.Status.PodIP, pod.DeletionTimestamp != nil)
	back, killed := s.absent.Open(), s.kills.Open()
	s.must(testbed.Fault(s.Context(), "kill-container", pod.Namespace+"/"+pod.Name))
	s.must(kube.AwaitDead(s.Context(), pod))
	killed()
	s.Logf("the node saw that %s is dead after %s", pod.Name, since())
	probe := load.NewProbe(load.Plan{Address: address, Host: s.host, Reuse: load.NewConnection, ConnectTimeout: time.Second})
	s.awaitConsecutive(address+" answers", func(ctx context.Context) (bool, string) {
		sight := probe.Ask(ctx)
		return sight.Class == load.OK, fmt.Sprintf("%+v", sight)
	})
	back()
	s.Logf("every endpoint of %s answers after %s", address, since())
	s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
	s.Logf("the roll is over after %s", since())
	s.leader()
}

// awaitConsecutive waits until 32 new connections in a row succeed, which shows that every endpoint of a Service responds: the chance
// that all missed one of two endpoints is 1 in 4 billion, of three endpoints 1 in 400,000.
func (s *stage) awaitConsecutive(what string, ask func(context.Context) (answered bool, saw string)) {
	s.Helper()
	const wanted = 32
	s.must(cluster.Eventually(s.Context(), time.Minute, what, func(ctx context.Context) (bool, string, error) {
		for count := range wanted {
			if answered, saw := ask(ctx); !answered {
				return false, fmt.Sprintf("%d times in a row, and then %s", count, saw), nil
			}
		}
		return true, "", nil
	}))
}
