// Package bed runs the two commands that the scenarios need beside the API: `testbed` for faults, `helm` for the chart. It
// never starts or ends a testbed; who runs the tests does.
package bed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Bed names the programs and their inputs. All of it comes from the environment, set by e2e/run.sh.
type Bed struct {
	Testbed string
	Name    string
	Helm    string
	Chart   string
	Fairway string
	// Image and Next are two names of the same binary: the installed one, and the one that it is rolled to.
	Image   string
	Next    string
	Backend string
	// CoreDNS and Redis are images of these programs.
	CoreDNS string
	Redis   string
	// Programs is e2e/programs/tool, with the programs that people run next to Fairway.
	Programs string
	// Suite is the name of the scenarios that run, and of the file with their figures.
	Suite string
	// Definitions is the folder of the CRDs of Gateway API.
	Definitions string
	Results     string
	// Nightly asks for the long form.
	Nightly bool
	// Quiet says that nothing else runs on the machine, so that promised times are asserted.
	Quiet bool
}

// FromEnvironment reads the variables, and names all that are missing.
func FromEnvironment() (Bed, error) {
	var missing []string
	read := func(name string) string {
		value := os.Getenv(name)
		if value == "" {
			missing = append(missing, name)
		}
		return value
	}
	b := Bed{
		Testbed: read("E2E_TESTBED"),
		Name:    read("E2E_NAME"),
		Helm:    read("E2E_HELM"),
		Chart:   read("E2E_CHART"),
		Fairway: read("E2E_FAIRWAY"),
		Image:   read("E2E_IMAGE"),
		Next:    read("E2E_IMAGE_NEXT"),
		Backend: read("E2E_BACKEND_IMAGE"),
		CoreDNS: read("E2E_COREDNS_IMAGE"),
		Redis:   read("E2E_REDIS_IMAGE"),

		Programs:    read("E2E_PROGRAMS"),
		Suite:       read("E2E_SUITE"),
		Definitions: read("E2E_DEFINITIONS"),
		Results:     read("E2E_RESULTS"),
		Nightly:     os.Getenv("NIGHTLY") == "1",
		Quiet:       os.Getenv("QUIET") == "1",
	}
	if len(missing) > 0 {
		return b, fmt.Errorf("the environment has no %s: run these tests with `make e2e`", strings.Join(missing, ", "))
	}
	return b, nil
}

// commandLimit is far beyond what any of the commands takes.
const commandLimit = 3 * time.Minute

// Run runs a program to its end and gives what it wrote on its standard output.
func Run(ctx context.Context, program string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	var out, problems bytes.Buffer
	command := exec.CommandContext(ctx, program, arguments...)
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("run %s %s: %w: %s", program, strings.Join(arguments, " "), err, strings.TrimSpace(problems.String()+" "+out.String()))
	}
	return out.String(), nil
}

// Fault does one of the testbed's faults: Fault(ctx, "kill-container", "shop/pod").
func (b Bed) Fault(ctx context.Context, arguments ...string) error {
	_, err := b.testbed(ctx, append([]string{"fault"}, arguments...)...)
	return err
}

// Kubectl runs the testbed's kubectl.
func (b Bed) Kubectl(ctx context.Context, arguments ...string) (string, error) {
	return b.testbed(ctx, append([]string{"kubectl"}, arguments...)...)
}

// ProgramImage is the image that holds /PROGRAM alone, of the programs of e2e/programs; only in the suite `ecosystem`.
func (b Bed) ProgramImage(program string) string {
	return "localhost/fairway-e2e-" + program + ":" + b.Name
}

// ProgramFolder is the folder with the programs of a folder of e2e/programs, for one that runs outside of the pods.
func (b Bed) ProgramFolder(ctx context.Context, name string) (string, error) {
	out, err := Run(ctx, b.Programs, name)
	return strings.TrimSpace(out), err
}

// ModuleFolder is the folder of a module's source that a folder of e2e/programs pins: its CRDs and charts are read there.
func (b Bed) ModuleFolder(ctx context.Context, name, module string) (string, error) {
	out, err := Run(ctx, b.Programs, name, module)
	return strings.TrimSpace(out), err
}

func (b Bed) testbed(ctx context.Context, arguments ...string) (string, error) {
	return Run(ctx, b.Testbed, append([]string{"--name", b.Name}, arguments...)...)
}

// Install installs or upgrades a release of the chart; values are KEY=VALUE.
func (b Bed) Install(ctx context.Context, namespace, release string, values ...string) error {
	arguments := []string{"upgrade", "--install", release, b.Chart, "--namespace", namespace}
	for _, value := range values {
		arguments = append(arguments, "--set", value)
	}
	_, err := Run(ctx, b.Helm, arguments...)
	return err
}
