package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/bed"
	"fairway/e2e/cluster"
	"fairway/e2e/load"
)

// Objects that are wrong hurt themselves alone, and an Event on each says why in the words of `fairway check`.
func TestBrokenObjectsHurtOnlyThemselvesAndAreToldWhy(t *testing.T) {
	s := newParallelStage(t, "broken")
	s.backends(2)
	s.traffic(load.Plan{})
	broken := s.broken()
	told := s.checked(broken)
	s.repeat(func() {
		for _, ingress := range broken {
			_, err := kube.API.NetworkingV1().Ingresses(s.namespace).Create(s.Context(), ingress.DeepCopy(), meta.CreateOptions{})
			s.must(err)
		}
		for name, problems := range told {
			for _, problem := range problems {
				s.noted("Ingress", name, problem.Problem, problem.Consequence)
			}
		}
		s.awaitServed(load.Plan{Host: s.host})
		s.more(s.rate)
		for _, ingress := range broken {
			s.must(kube.API.NetworkingV1().Ingresses(s.namespace).Delete(s.Context(), ingress.Name, meta.DeleteOptions{}))
		}
	})
	s.finish()
}

// broken are Ingresses that the API server takes and that cannot be served as they are. One of them has the host of the
// streams, with another path.
func (s *stage) broken() []*networking.Ingress {
	const prefix = "nginx.ingress.kubernetes.io/"
	routes := []cluster.Route{
		{Name: "no-service", Host: s.host, Path: "/nowhere", Service: "nowhere"},
		{Name: "bad-regex", Host: "regex." + s.host, Path: "/(unclosed", Service: "backend", Annotations: map[string]string{prefix + "use-regex": "true"}},
		{Name: "bad-size", Host: "size." + s.host, Service: "backend", Annotations: map[string]string{prefix + "proxy-body-size": "many"}},
		{Name: "no-secret", Host: "secret." + s.host, Service: "backend", Secret: "nowhere"},
	}
	var ingresses []*networking.Ingress
	for _, route := range routes {
		route.Namespace = s.namespace
		ingress := route.Ingress()
		ingress.TypeMeta = meta.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}
		if route.Annotations[prefix+"use-regex"] != "" {
			free := networking.PathTypeImplementationSpecific
			ingress.Spec.Rules[0].HTTP.Paths[0].PathType = &free
		}
		ingresses = append(ingresses, ingress)
	}
	return ingresses
}

// finding is what `fairway check --output json` says in one line.
type finding struct {
	Severity string `json:"severity"`
	Origin   struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"origin"`
	Problem     string `json:"problem"`
	Consequence string `json:"consequence"`
}

// checked passes the objects and their references to `fairway check`, and returns its output by Ingress.
func (s *stage) checked(broken []*networking.Ingress) map[string][]finding {
	s.Helper()
	service, err := kube.API.CoreV1().Services(s.namespace).Get(s.Context(), "backend", meta.GetOptions{})
	s.must(err)
	service.TypeMeta = meta.TypeMeta{APIVersion: "v1", Kind: "Service"}
	class, err := kube.API.NetworkingV1().IngressClasses().Get(s.Context(), cluster.Class, meta.GetOptions{})
	s.must(err)
	class.TypeMeta = meta.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IngressClass"}
	directory := s.TempDir()
	// Where there is no Secret at all, check cannot tell that one is missing.
	secret := core.Secret{
		TypeMeta:   meta.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta.ObjectMeta{Name: "other", Namespace: s.namespace},
	}
	objects := []any{service, class, secret}
	for _, ingress := range broken {
		objects = append(objects, ingress)
	}
	for number, object := range objects {
		text, err := json.Marshal(object)
		s.must(err)
		s.must(os.WriteFile(filepath.Join(directory, fmt.Sprintf("%d.json", number)), text, 0o600))
	}
	return s.check(directory, len(broken))
}

func (s *stage) check(directory string, broken int) map[string][]finding {
	s.Helper()
	text, err := bed.Run(s.Context(), testbed.Fairway, "check", "--output", "json", directory)
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 {
		s.Fatalf("fairway check found nothing, or could not look: %v", err)
	}
	found := map[string][]finding{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		var one finding
		s.must(json.Unmarshal(lines.Bytes(), &one))
		if one.Origin.Kind == "Ingress" && one.Severity != "note" {
			found[one.Origin.Name] = append(found[one.Origin.Name], one)
		}
	}
	if len(found) != broken {
		s.Fatalf("fairway check complains about %d of %d Ingresses:\n%s", len(found), broken, text)
	}
	return found
}

// noted waits for an Event about an object of the scenario's namespace that has all the words.
func (s *stage) noted(kind, name string, words ...string) {
	s.Helper()
	what := fmt.Sprintf("an Event of %s %s/%s says %q", kind, s.namespace, name, words)
	s.must(cluster.Eventually(s.Context(), promptly, what, func(ctx context.Context) (bool, string, error) {
		notes, err := kube.EventNotes(ctx, s.namespace, kind, name)
		for _, note := range notes {
			if containsAll(note, words) {
				return true, "", nil
			}
		}
		return false, strings.Join(notes, " | "), err
	}))
}

func containsAll(note string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(note, word) {
			return false
		}
	}
	return true
}
