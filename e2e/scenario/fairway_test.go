package scenario

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/verdict"
)

// These scenarios affect Fairway itself or the API, so none runs in parallel.

// Study 3: the controller's own replicas go from 5 to 7 and back.
func TestScalingFairwayLosesNoRequest(t *testing.T) {
	s := newStage(t, "fairway-scale")
	s.backends(3)
	s.scaleFairway(5)
	defer s.scaleFairway(fairwayReplicas)
	s.traffic(load.Plan{})
	s.repeat(func() {
		s.scaleFairway(7)
		s.lasting(how.up)
		s.scaleFairway(5)
		s.lasting(how.down)
	})
	s.finish()
}

// scaleFairway waits until removed replicas have ended: until then they drain.
func (s *stage) scaleFairway(count int32) {
	s.Helper()
	s.must(kube.Scale(context.Background(), fairwayNamespace, fairwayName, count))
	s.must(kube.AwaitSettled(context.Background(), fairwayNamespace, fairwayName))
}

func TestRollingFairwayToANewImageLosesNoRequest(t *testing.T) {
	s := newStage(t, "fairway-roll")
	s.backends(3)
	images := []string{testbed.Next, testbed.Image}
	defer func() { s.must(upgrade(context.Background(), testbed.Image)) }()
	s.traffic(load.Plan{})
	s.repeat(func() {
		for _, image := range images {
			s.must(upgrade(s.Context(), image))
			s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
			s.runs(image)
			s.more(s.rate)
		}
	})
	s.finish()
}

func (s *stage) runs(image string) {
	s.Helper()
	pods, err := replicas(s.Context())
	s.must(err)
	for _, pod := range pods {
		if pod.Spec.Containers[0].Image != image {
			s.Errorf("pod %s runs %s, not %s", pod.Name, pod.Spec.Containers[0].Image, image)
		}
	}
}

func TestAKilledFairwayContainerCostsOnlyWhatWasInsideIt(t *testing.T) {
	s := newStage(t, "fairway-kill")
	s.backends(3)
	s.traffic(load.Plan{})
	s.repeat(func() {
		pods, err := replicas(s.Context())
		s.must(err)
		if restarted := slices.ContainsFunc(pods, func(pod core.Pod) bool { return cluster.Restarts(pod) > 0 }); restarted {
			// Kubernetes waits ever longer before it restarts a container again.
			s.must(kube.Restart(s.Context(), fairwayNamespace, fairwayName))
			s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
			pods, err = replicas(s.Context())
			s.must(err)
		}
		s.killFairway(pods[0])
		s.more(s.rate)
	})
	s.finish(verdict.CutInKilledFairway(&s.kills), verdict.RefusedByKilledFairway(&s.absent))
}

// killFairway kills a container of Fairway with -9 and waits until it serves again. The Service may lead to it until
// the node has found out.
func (s *stage) killFairway(pod core.Pod) {
	s.Helper()
	back, killed := s.absent.Open(), s.kills.Open()
	s.must(testbed.Fault(s.Context(), "kill-container", pod.Namespace+"/"+pod.Name))
	s.must(kube.AwaitDead(s.Context(), pod))
	killed()
	s.must(kube.AwaitRestarted(s.Context(), pod))
	s.awaitServed(load.Plan{Host: s.host})
	back()
}

func TestWhenTheLeaderGoesAnotherReplicaWritesStatus(t *testing.T) {
	s := newStage(t, "leader")
	s.backends(3)
	s.traffic(load.Plan{})
	count := 0
	s.repeat(func() {
		leader := s.leader()
		s.must(kube.API.CoreV1().Pods(fairwayNamespace).Delete(s.Context(), leader, meta.DeleteOptions{}))
		count++
		name := fmt.Sprintf("after-%d", count)
		s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: name, Host: name + "." + s.host, Service: "backend"}))
		s.published(name, true)
		s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
		if now := s.leader(); now == leader {
			s.Errorf("%s is gone and still the leader", leader)
		}
	})
	s.finish()
}

// leader waits for a holder of the Lease that is a ready pod.
func (s *stage) leader() string {
	s.Helper()
	var name string
	s.must(cluster.Eventually(s.Context(), time.Minute, "a replica of Fairway holds the Lease", func(ctx context.Context) (bool, string, error) {
		lease, err := kube.API.CoordinationV1().Leases(fairwayNamespace).Get(ctx, fairwayName, meta.GetOptions{})
		if err != nil {
			return false, "", err
		}
		holder := ""
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		pods, err := replicas(ctx)
		if err != nil {
			return false, "", err
		}
		for _, pod := range pods {
			if pod.Name == holder {
				name = holder
				return true, "", nil
			}
		}
		return false, "the holder is " + holder, nil
	}))
	return name
}

// published waits until an Ingress has Fairway's addresses in its status, or none.
func (s *stage) published(name string, wanted bool) {
	s.Helper()
	var expected []string
	if wanted {
		for _, address := range addresses {
			expected = append(expected, address.String())
		}
	}
	slices.Sort(expected)
	what := fmt.Sprintf("Ingress %s/%s has the addresses %v", s.namespace, name, expected)
	s.must(cluster.Eventually(s.Context(), time.Minute, what, func(ctx context.Context) (bool, string, error) {
		got, err := kube.PublishedAddresses(ctx, s.namespace, name)
		slices.Sort(got)
		return slices.Equal(got, expected), fmt.Sprint(got), err
	}))
}

func TestStatusIsClearedWhenTheLastReplicaGoes(t *testing.T) {
	s := newStage(t, "last-replica")
	s.backends(1)
	s.published("backend", true)
	s.scaleFairway(0)
	defer s.scaleFairway(fairwayReplicas)
	s.published("backend", false)
	s.scaleFairway(fairwayReplicas)
	s.published("backend", true)
	s.awaitServed(load.Plan{Host: s.host})
}
