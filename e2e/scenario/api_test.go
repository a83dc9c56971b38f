package scenario

import (
	"context"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/verdict"
)

// inStep bounds how long Fairway may take to follow changes again once the API answers.
const inStep = 5 * time.Second

func TestARestartedAPIServerLosesNoRequest(t *testing.T) {
	s := begin(t, "api-restart")
	s.backends(3)
	s.traffic(load.Plan{})
	s.repeat(func() {
		s.must(testbed.Fault(s.Context(), "api-server", "restart"))
		s.apiAnswers()
		s.more(how.rate)
		s.follows()
	})
	s.finish(verdict.PostLostToDyingPod(&s.dying))
}

// While Fairway does not reach the API, pods come and go and containers die: Fairway hears nothing of it, and knows
// endpoints that are there no more. One of those that it knows always lives.
func TestAnUnreachableAPIServerLosesNoRequest(t *testing.T) {
	s := begin(t, "api-unreachable")
	s.backends(4)
	s.traffic(load.Plan{})
	s.repeat(func() {
		pods, err := kube.Pods(s.Context(), s.namespace, "backend")
		s.must(err)
		s.unreachable(func() {
			begun := time.Now()
			s.scale("backend", 6)
			s.must(testbed.Fault(s.Context(), "kill-container", pods[0].Namespace+"/"+pods[0].Name))
			s.must(kube.AwaitRestarted(s.Context(), pods[0]))
			s.scale("backend", 3)
			s.lasting(how.unreachable - time.Since(begun))
		})
		s.follows()
		s.scale("backend", 4)
	})
	s.finish(verdict.PostLostToDyingPod(&s.dying), verdict.AnswerCutByKill(&s.kills))
}

// unreachable cuts the pods off from the API server while something happens; backends may die during that time.
func (s *stage) unreachable(happens func()) {
	s.Helper()
	dead, killed := s.dying.Open(), s.kills.Open()
	defer dead()
	defer killed()
	s.must(testbed.Fault(s.Context(), "api-server", "partition"))
	healed := false
	heal := func() {
		if !healed {
			healed = true
			s.must(testbed.Fault(context.Background(), "api-server", "heal"))
		}
	}
	defer heal()
	happens()
	heal()
	s.apiAnswers()
}

func (s *stage) apiAnswers() {
	s.Helper()
	s.must(cluster.Eventually(s.Context(), time.Minute, "the API answers", func(ctx context.Context) (bool, string, error) {
		_, err := kube.API.CoreV1().Namespaces().Get(ctx, s.namespace, meta.GetOptions{})
		return err == nil, "", err
	}))
}

// follows shows that a change is served again, and how long after the API answers.
func (s *stage) follows() {
	s.Helper()
	begun := time.Now()
	end := s.dying.Open()
	defer end()
	s.must(kube.AwaitSettled(s.Context(), s.namespace, "backend"))
	settled := time.Now()
	host := "follows." + s.host
	route := cluster.Route{Namespace: s.namespace, Name: "follows", Host: host, Service: "backend"}
	s.must(kube.Route(s.Context(), route))
	s.served(load.Plan{Host: host})
	if took := time.Since(settled); took > inStep {
		s.Errorf("%s: a change was served everywhere %s after it was written, %s after the API answered", s.name, took, time.Since(begun))
	}
	s.must(kube.API.NetworkingV1().Ingresses(s.namespace).Delete(s.Context(), route.Name, meta.DeleteOptions{}))
}
