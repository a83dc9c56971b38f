package scenario

import (
	"context"
	"net"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/verdict"
)

// inStep is how soon Fairway follows changes again once the API responds, on a quiet machine.
const inStep = 5 * time.Second

func TestARestartedAPIServerLosesNoRequest(t *testing.T) {
	s := newStage(t, "api-restart")
	s.backends(3)
	s.traffic(load.Plan{})
	s.repeat(func() {
		s.must(testbed.Fault(s.Context(), "api-server", "restart"))
		s.apiAnswers()
		s.more(s.rate)
		s.follows()
	})
	s.finish(verdict.PostLostToDyingPod(&s.dying))
}

// While Fairway cannot reach the API, pods are replaced and containers die: Fairway knows endpoints that no longer exist. One
// of those that it knows always lives.
func TestAnUnreachableAPIServerLosesNoRequest(t *testing.T) {
	s := newStage(t, "api-unreachable")
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

// apiAnswers waits until the API answers the test, and pods as well: they reach it through its Service, which kube-proxy
// notices later.
func (s *stage) apiAnswers() {
	s.Helper()
	var service string
	s.must(cluster.Eventually(s.Context(), time.Minute, "the API answers", func(ctx context.Context) (bool, string, error) {
		kubernetes, err := kube.API.CoreV1().Services("default").Get(ctx, "kubernetes", meta.GetOptions{})
		if err != nil {
			return false, "", err
		}
		service = net.JoinHostPort(kubernetes.Spec.ClusterIP, "443")
		return true, "", nil
	}))
	s.must(cluster.Eventually(s.Context(), time.Minute, "the Service of the API leads to it", func(context.Context) (bool, string, error) {
		conn, err := net.DialTimeout("tcp", service, time.Second)
		if err != nil {
			return false, "", err
		}
		return true, "", conn.Close()
	}))
}

// follows checks that a change is served again, and how long after the API responds.
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
	s.awaitServed(load.Plan{Host: host})
	s.figure("from the API's return to a served change", time.Since(begun).Seconds(), "s", 0)
	s.figure("from the write of that change", time.Since(settled).Seconds(), "s", inStep.Seconds())
	s.must(kube.API.NetworkingV1().Ingresses(s.namespace).Delete(s.Context(), route.Name, meta.DeleteOptions{}))
}
