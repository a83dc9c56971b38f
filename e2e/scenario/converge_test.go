package scenario

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"fairway/e2e/bed"
	"fairway/e2e/cluster"
	"fairway/e2e/load"
)

// After `fairway wait` returns, the next answer of every replica is by the change that was waited for; and all replicas
// name it alike.
func TestFairwayWaitReturnsWhenEveryReplicaServesAChange(t *testing.T) {
	s := newStage(t, "converge")
	targets := s.targets()
	route := cluster.Route{Namespace: s.namespace, Name: "moving", Host: s.host, Service: targets[0].service}
	s.must(kube.Route(t.Context(), route))
	s.awaitServed(load.Plan{Host: s.host})
	s.scaleFairway(3)
	defer s.scaleFairway(fairwayReplicas)
	s.traffic(load.Plan{})
	changes := 0
	s.repeat(func() {
		changes++
		next := targets[changes%2]
		route.Service = next.service
		s.must(s.replace(route.Ingress()))
		s.waited("--ingress", s.namespace+"/"+route.Name)
		s.allAnswerFrom(next.pod)
	})
	s.agree()
	s.neverServes("00000000000000000000000000000000")
	s.figure("changes that were waited for", float64(changes), "", 0)
	s.finish()
}

// waited runs `fairway wait` until three replicas serve the change, and returns their digest.
func (s *stage) waited(wanted ...string) string {
	s.Helper()
	said, err := s.wait(s.Context(), append(wanted, "--replicas", "3", "--timeout", "30")...)
	s.must(err)
	digest, rest, _ := strings.Cut(strings.TrimSpace(said), " ")
	if rest != "serves on 3 of 3 replicas" {
		s.Fatalf("fairway wait said %q", said)
	}
	return digest
}

// agree waits until all replicas report the same digest. Objects of an earlier scenario may still be disappearing, and change
// the digest between two queries.
func (s *stage) agree() {
	s.Helper()
	s.must(cluster.Eventually(s.Context(), time.Minute, "replicas name their configuration alike", func(ctx context.Context) (bool, string, error) {
		digest := s.waited()
		said, err := s.wait(ctx, "--digest", digest, "--replicas", "3", "--timeout", "1")
		return strings.HasPrefix(said, digest+" "), said, err
	}))
}

func (s *stage) wait(ctx context.Context, wanted ...string) (string, error) {
	return bed.Run(ctx, testbed.Fairway, append([]string{"wait", "--namespace", fairwayNamespace}, wanted...)...)
}

// allAnswerFrom queries each replica once: none may still serve the previous state.
func (s *stage) allAnswerFrom(pod string) {
	s.Helper()
	replicas, err := replicaAddresses(s.Context())
	s.must(err)
	for _, address := range replicas {
		probe := load.NewProbe(load.Plan{Address: cluster.Join(address, 8080), Host: s.host, Reuse: load.NewConnection})
		if sight := probe.Ask(s.Context()); sight.Pod != pod {
			s.Errorf("after fairway wait replica %s answers %+v, not from %s", address, sight, pod)
		}
	}
}

// neverServes shows that `fairway wait` can fail.
func (s *stage) neverServes(digest string) {
	s.Helper()
	begun := time.Now()
	_, err := s.wait(s.Context(), "--digest", digest, "--timeout", "1")
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 {
		s.Errorf("fairway wait for a digest that nothing has: %v", err)
	}
	if took := time.Since(begun); took < time.Second {
		s.Errorf("fairway wait gave up after %s", took)
	}
}
