package scenario

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	refusals "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"fairway/e2e/cluster"
	"fairway/e2e/report"
)

//go:embed policies/complete.yaml
var completePolicies string

//go:embed policies/refused.yaml
var refusedPolicies string

// policyKind is a kind of policy in the form of its CRD.
type policyKind struct {
	name     string
	resource schema.GroupVersionResource
	// root is the schema of an object, with its field `spec` alone.
	root map[string]any
}

// The API server takes the policies of the documents as they are, and refuses an object for each rule of their CRDs, with what the
// rule says. Fairway does not have to serve them.
func TestTheAPIServerTakesPoliciesAndRefusesEachMistakeInThem(t *testing.T) {
	s := newParallelStage(t, "policies")
	kinds := s.policyKinds()
	complete, refused := s.documents(completePolicies), s.documents(refusedPolicies)
	documented := s.documentedPolicies()
	for _, object := range slices.Concat(documented, complete) {
		s.createUnchanged(kinds[object.GetKind()], object)
	}
	mistakes := 0
	for name, kind := range kinds {
		isOfKind := func(object *unstructured.Unstructured) bool { return object.GetKind() == name }
		if !slices.ContainsFunc(documented, isOfKind) {
			s.Errorf("docs/policies.md has no example of a %s", name)
		}
		examples := slices.DeleteFunc(slices.Clone(complete), func(object *unstructured.Unstructured) bool { return !isOfKind(object) })
		breaking := slices.DeleteFunc(slices.Clone(refused), func(object *unstructured.Unstructured) bool { return !isOfKind(object) })
		mistakes += s.refusesValues(kind, examples) + s.refusesRules(kind, breaking)
	}
	s.figure("mistakes in policies that the API server refuses", float64(mistakes), "", 0)
	book.Add(report.Scenario{Name: s.name, Figures: s.figures})
}

// policyKinds applies the CRDs of the chart, and removes them after the test. Gives the kinds by name.
func (s *stage) policyKinds() map[string]policyKind {
	s.Helper()
	folder := filepath.Join(testbed.Chart, "charts", "policy-crds", "crds")
	s.Cleanup(func() {
		if _, err := testbed.Kubectl(context.Background(), "delete", "--ignore-not-found", "-f", folder); err != nil {
			s.Error(err)
		}
	})
	_, err := testbed.Kubectl(s.Context(), "apply", "--server-side", "-f", folder)
	s.must(err)
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	s.must(err)
	kinds := map[string]policyKind{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		s.must(err)
		for _, crd := range s.documents(string(text)) {
			_, err := testbed.Kubectl(s.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", crd.GetName())
			s.must(err)
			kind := s.policyKind(crd)
			kinds[kind.name] = kind
		}
	}
	if len(kinds) != 5 {
		s.Fatalf("%s has the kinds %v, not five", folder, kinds)
	}
	return kinds
}

// policyKind reads a CRD, and waits until its kind is served.
func (s *stage) policyKind(crd *unstructured.Unstructured) policyKind {
	s.Helper()
	text := func(fields ...string) string {
		value, found, err := unstructured.NestedString(crd.Object, fields...)
		if err != nil || !found {
			s.Fatalf("CRD %s has no %v: %v", crd.GetName(), fields, err)
		}
		return value
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	s.must(err)
	if len(versions) != 1 {
		s.Fatalf("CRD %s has %d versions", crd.GetName(), len(versions))
	}
	version := versions[0].(map[string]any)
	spec, found, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec")
	if err != nil || !found {
		s.Fatalf("CRD %s has no schema of spec: %v", crd.GetName(), err)
	}
	kind := policyKind{
		name:     text("spec", "names", "kind"),
		resource: schema.GroupVersionResource{Group: text("spec", "group"), Version: version["name"].(string), Resource: text("spec", "names", "plural")},
		root:     map[string]any{"required": []any{"spec"}, "properties": map[string]any{"spec": spec}},
	}
	s.must(cluster.Eventually(s.Context(), promptly, kind.name+" is served", func(ctx context.Context) (bool, string, error) {
		_, err := kube.Objects.Resource(kind.resource).Namespace(s.namespace).List(ctx, meta.ListOptions{})
		return err == nil, "", err
	}))
	return kind
}

// documents are the objects of a text in YAML.
func (s *stage) documents(text string) []*unstructured.Unstructured {
	s.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var found []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return found
		}
		s.must(err)
		found = append(found, object)
	}
}

// documentedPolicies are the examples in docs/policies.md.
func (s *stage) documentedPolicies() []*unstructured.Unstructured {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(testbed.Chart, "..", "..", "docs", "policies.md"))
	s.must(err)
	var found []*unstructured.Unstructured
	for _, block := range strings.Split(string(text), "\n```yaml\n")[1:] {
		manifest, _, _ := strings.Cut(block, "\n```")
		for _, object := range s.documents(manifest) {
			if strings.HasPrefix(object.GetAPIVersion(), "fairway.dev/") {
				found = append(found, object)
			}
		}
	}
	return found
}

// createUnchanged creates an object, and checks that the API server stored it unchanged.
func (s *stage) createUnchanged(kind policyKind, object *unstructured.Unstructured) {
	s.Helper()
	object = object.DeepCopy()
	object.SetNamespace(s.namespace)
	kept, err := kube.Objects.Resource(kind.resource).Namespace(s.namespace).Create(s.Context(), object,
		meta.CreateOptions{FieldValidation: meta.FieldValidationStrict})
	if err != nil {
		s.Errorf("%s %s is refused: %v", object.GetKind(), object.GetName(), err)
		return
	}
	if !reflect.DeepEqual(kept.Object["spec"], object.Object["spec"]) {
		s.Errorf("%s %s is kept as %v, not %v", object.GetKind(), object.GetName(), kept.Object["spec"], object.Object["spec"])
	}
}

// attempt sends an object to the API server as a dry run.
func (s *stage) attempt(kind policyKind, object map[string]any) error {
	asked := &unstructured.Unstructured{Object: object}
	asked.SetNamespace(s.namespace)
	asked.SetName("mistake")
	_, err := kube.Objects.Resource(kind.resource).Namespace(s.namespace).Create(s.Context(), asked,
		meta.CreateOptions{FieldValidation: meta.FieldValidationStrict, DryRun: []string{meta.DryRunAll}})
	return err
}

// refused fails unless the API server refuses an object for the value of a field, with these words.
func (s *stage) refused(kind policyKind, object map[string]any, field, says string) {
	s.Helper()
	err := s.attempt(kind, object)
	var status *refusals.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil {
		for _, cause := range status.ErrStatus.Details.Causes {
			if cause.Field == field && strings.Contains(cause.Message, says) {
				return
			}
		}
	}
	s.Errorf("a %s with a wrong %s: wanted %q, and the API server said: %v", kind.name, field, says, err)
}
