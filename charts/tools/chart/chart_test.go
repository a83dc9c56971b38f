package chart

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestEveryVariantIsMadeOfFieldsThatKubernetesHas(t *testing.T) {
	for name, values := range variants {
		t.Run(name, func(t *testing.T) {
			seen := sets.New[Object]()
			for _, object := range render(t, values...) {
				object.Typed = nil
				if seen.Has(object) {
					t.Errorf("twice: %v", object)
				}
				seen.Insert(object)
			}
			if seen.Len() < 4 {
				t.Errorf("only %d objects", seen.Len())
			}
		})
	}
}

func TestThePlainManifestIsWhatTheChartRenders(t *testing.T) {
	rendered, err := output(exec.Command(Path("charts", "tools", "render")))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(Path("deploy", "fairway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if rendered != string(kept) {
		t.Error("deploy/fairway.yaml is not what the chart renders: run `make deploy`")
	}
	if _, err := Decode(rendered); err != nil {
		t.Error(err)
	}
	if strings.Contains(rendered, "Helm") {
		t.Error("deploy/fairway.yaml says that Helm manages it")
	}
}

func TestVersionsAgree(t *testing.T) {
	if program, chart := first(t, "version = ", "Cargo.toml"), first(t, "appVersion: ", "charts", "fairway", "Chart.yaml"); program != chart {
		t.Errorf("the program is %s, the chart installs %s", program, chart)
	}
	pinned, image := first(t, "channel = ", "rust-toolchain.toml"), first(t, "FROM rust:", "Dockerfile")
	if !strings.HasPrefix(image, pinned+"-") {
		t.Errorf("rust-toolchain.toml pins %s, the Dockerfile builds with %s", pinned, image)
	}
}

func TestBothImagesStartTheSameProgramAsTheUserOfTheChart(t *testing.T) {
	makefile, err := os.ReadFile(Path("Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	user, program := first(t, "USER ", "Dockerfile"), strings.Trim(first(t, "ENTRYPOINT ", "Dockerfile"), `["]`)
	if !strings.Contains(string(makefile), "--entrypoint "+program+" ") || !strings.Contains(string(makefile), "--user "+user+" ") {
		t.Errorf("the Dockerfile starts %s as %s, `make image` does not", program, user)
	}
	pod := one[appsv1.Deployment](t, render(t)).Spec.Template.Spec.SecurityContext
	if asked := fmt.Sprintf("%d:%d", *pod.RunAsUser, *pod.RunAsGroup); asked != user {
		t.Errorf("the image is for %s, the chart runs it as %s", user, asked)
	}
}
