// Package chart holds the chart to what it promises: what helm renders of it, decoded with the types of Kubernetes.
// It never talks to a cluster; the end-to-end tests install the chart in one.
package chart

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Namespace is where releases are rendered to.
const Namespace = "edge"

// Path names a file of the repository.
func Path(elements ...string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(append([]string{filepath.Dir(file), "..", "..", ".."}, elements...)...)
}

// Helm runs the pinned helm and returns its standard output; the error has what it wrote to the standard error.
func Helm(arguments ...string) (string, error) {
	return output(exec.Command(Path("charts", "tools", "helm"), arguments...))
}

func output(command *exec.Cmd) (string, error) {
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, complaints.String())
	}
	return out.String(), nil
}

// Render returns the manifests of the chart with these values, each given as in --set-json.
func Render(values ...string) (string, error) {
	arguments := []string{"template", "fairway", Path("charts", "fairway"), "--namespace", Namespace}
	for _, value := range values {
		arguments = append(arguments, "--set-json", value)
	}
	return Helm(arguments...)
}

// Object is one rendered object: as its Go type where Kubernetes has one, else as a tree.
type Object struct {
	Kind, Namespace, Name string
	Typed                 k8sruntime.Object
}

// Decode reads manifests strictly: a field that the type does not have, or has twice, is an error.
func Decode(manifests string) ([]Object, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	var objects []Object
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("splitting manifests: %w", err)
		}
		object, err := decodeOne(document)
		if err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, document)
		}
		if object != nil {
			objects = append(objects, *object)
		}
	}
}

func decodeOne(document []byte) (*Object, error) {
	tree := unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(document, &tree.Object); err != nil {
		return nil, fmt.Errorf("reading YAML: %w", err)
	}
	if len(tree.Object) == 0 {
		return nil, nil
	}
	object := &Object{Kind: tree.GetKind(), Namespace: tree.GetNamespace(), Name: tree.GetName(), Typed: &tree}
	switch tree.GroupVersionKind().Group {
	case "monitoring.coreos.com", "gateway.networking.k8s.io", "apiextensions.k8s.io":
		return object, nil
	}
	typed, err := scheme.Scheme.New(tree.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("finding the type of %s: %w", tree.GroupVersionKind(), err)
	}
	if err := yaml.UnmarshalStrict(document, typed); err != nil {
		return nil, fmt.Errorf("decoding as %s: %w", tree.GroupVersionKind(), err)
	}
	object.Typed = typed
	return object, nil
}
