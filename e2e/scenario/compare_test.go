package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"testing"

	"fairway/e2e/bed"
	"fairway/e2e/cluster"
	"fairway/e2e/load"
)

const redirectAnnotation = "nginx.ingress.kubernetes.io/temporal-redirect"

// `fairway compare --kubernetes` makes its probes of the objects in the cluster. Two replicas answer alike; a Fairway that
// does not know an annotation differs where the annotation decides, and nowhere else.
func TestFairwayCompareReadsTheClusterAndExplainsWhatDiffers(t *testing.T) {
	s := newParallelStage(t, "compare")
	s.backends(1)
	moved := cluster.Route{
		Namespace: s.namespace, Name: "moved", Host: s.host, Path: "/moved", Service: "backend",
		Annotations: map[string]string{redirectAnnotation: "https://elsewhere.example/"},
	}
	s.must(kube.Route(s.Context(), moved))
	s.awaitOnEveryReplica(load.Plan{Host: s.host, Path: "/moved"}, "is redirected", func(sight load.Sight) bool { return sight.Class == "status 302" })
	unaware, _ := s.run("--annotations-prefix=unknown.example")
	s.traffic(load.Plan{})
	s.repeat(func() {
		replicas, err := replicaAddresses(s.Context())
		s.must(err)
		if len(replicas) < 2 {
			s.Fatalf("two replicas are compared, and there is %v", replicas)
		}
		one, other := replicaSides(replicas[0]), replicaSides(replicas[1])
		s.requireEqual(s.compared(one, other, 0))
		s.differs(s.compared(one, unaware.side(), 1), moved)
	})
	s.finish()
}

// comparison is the output of `fairway compare --output json`.
type comparison struct {
	Partial string `json:"partial"`
	Probes  struct {
		Planned   int `json:"planned"`
		Compared  int `json:"compared"`
		Identical int `json:"identical"`
		Different int `json:"different"`
	} `json:"probes"`
	Differences []struct {
		Cause struct {
			Object string `json:"object"`
			Field  string `json:"field"`
			Why    string `json:"why"`
		} `json:"cause"`
	} `json:"differences"`
}

// replicaSides names a replica with its two ports.
func replicaSides(address netip.Addr) string {
	return cluster.Join(address, 8080) + ":8443"
}

// side names the process with its two ports.
func (p *process) side() string {
	_, port, _ := cutLast(p.https, ":")
	return p.http + ":" + port
}

// compared runs `fairway compare` over the objects of the scenario's namespace, and wants this exit code.
func (s *stage) compared(from, to string, code int) comparison {
	s.Helper()
	text, err := bed.Run(s.Context(), testbed.Fairway, "compare", "--kubernetes", "--watch-namespace", s.namespace,
		"--from", from, "--to", to, "--output", "json", "--yes")
	ended := 0
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		ended = failed.ExitCode()
	} else {
		s.must(err)
	}
	if ended != code {
		s.Fatalf("fairway compare %s %s ended with %d, not %d: %v\n%s", from, to, ended, code, err, text)
	}
	var found comparison
	s.must(json.Unmarshal([]byte(text), &found))
	if found.Partial != "" || found.Probes.Compared != found.Probes.Planned || found.Probes.Planned < 10 {
		s.Fatalf("not everything was compared: %s: %+v", found.Partial, found.Probes)
	}
	return found
}

func (s *stage) requireEqual(found comparison) {
	s.Helper()
	if found.Probes.Identical != found.Probes.Planned || len(found.Differences) > 0 {
		s.Errorf("two replicas differ: %+v", found)
	}
}

// differs wants differences, all of them explained by the annotation of the route.
func (s *stage) differs(found comparison, route cluster.Route) {
	s.Helper()
	if found.Probes.Different == 0 || found.Probes.Identical == 0 {
		s.Errorf("one path of two is redirected on one side only: %+v", found.Probes)
	}
	object := fmt.Sprintf("Ingress %s/%s", route.Namespace, route.Name)
	field := fmt.Sprintf("metadata.annotations[%q]", redirectAnnotation)
	for _, difference := range found.Differences {
		if cause := difference.Cause; cause.Object != object || cause.Field != field {
			s.Errorf("a difference is explained by %s %s: %s", cause.Object, cause.Field, cause.Why)
		}
	}
}
