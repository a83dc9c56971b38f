package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"fairway/testbed/image"
	"fairway/testbed/network"
	"fairway/testbed/node"
	"fairway/testbed/sandbox"
	"fairway/testbed/state"
)

// running is the record of a testbed that is up.
func running(testbed state.Testbed) (state.Record, error) {
	record, err := testbed.Read()
	if errors.Is(err, fs.ErrNotExist) {
		return record, fmt.Errorf("testbed %s is not up; run `testbed --name %s up`", testbed.Name, testbed.Name)
	}
	if err == nil && !record.Init.Alive() {
		return record, fmt.Errorf("testbed %s has ended; run `testbed --name %s up` to start it anew, or down", testbed.Name, testbed.Name)
	}
	return record, err
}

// execute becomes a program in the testbed's network.
func execute(testbed state.Testbed, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("exec: name the program; see testbed --help")
	}
	record, err := running(testbed)
	if err != nil {
		return err
	}
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		// A proxy of the machine's is not reachable from inside.
		name, _, _ := strings.Cut(strings.ToLower(variable), "=")
		return slices.Contains([]string{"kubeconfig", "testbed_name", "http_proxy", "https_proxy", "all_proxy", "path"}, name)
	})
	environment = append(environment, "KUBECONFIG="+testbed.Kubeconfig(), "TESTBED_NAME="+testbed.Name,
		"PATH="+testbed.Run("bin")+":"+os.Getenv("PATH"))
	return sandbox.Exec(record, testbed.Run("resolv.conf"), environment, arguments)
}

func status(testbed state.Testbed, rest []string) error {
	flags := flag.NewFlagSet("status", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	if _, err := parseArguments(flags, rest); err != nil {
		return err
	}
	record, err := running(testbed)
	if err != nil {
		return err
	}
	report, err := node.NewControl(testbed).Report()
	if err != nil {
		return err
	}
	outside := pids(record)
	for i := range report.Components {
		report.Components[i].PID = outside[report.Components[i].PID]
	}
	if *asJSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(struct {
			state.Record
			node.Report
			Kubeconfig string `json:"kubeconfig"`
		}{record, report, testbed.Kubeconfig()})
	} else {
		err = printStatus(testbed, record, report)
	}
	if err == nil && !healthy(report) {
		err = failure(1)
	}
	return err
}

func healthy(report node.Report) bool {
	for _, component := range report.Components {
		if component.Condition != node.Running {
			return false
		}
	}
	return report.Phase == node.Ready
}

func printStatus(testbed state.Testbed, record state.Record, report node.Report) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "testbed\t%s\t%s %s\n", testbed.Name, report.Phase, report.Failure)
	fmt.Fprintf(table, "kubeconfig\t%s\n", testbed.Kubeconfig())
	fmt.Fprintf(table, "network\t/proc/%d/ns/net\n", record.Init.PID)
	fmt.Fprintf(table, "node\t%s\t%s, %s\n", node.Name, network.Node4, network.Node6)
	fmt.Fprintf(table, "pods\t\t%s, %s\n", network.Pods4, network.Pods6)
	fmt.Fprintf(table, "services\t\t%s, %s\n", network.Services4, network.Services6)
	fmt.Fprintf(table, "load balancers\t\t%s, %s\n", network.LoadBalancers4, network.LoadBalancers6)
	for _, fault := range report.Faults {
		fmt.Fprintf(table, "fault\t%s\n", fault)
	}
	fmt.Fprintln(table, "\t\t")
	for _, each := range report.Components {
		words := each.Why
		if each.Condition == node.Running {
			words = fmt.Sprintf("pid %d", each.PID)
		}
		fmt.Fprintf(table, "%s\t%s\t%s, since %s\n", each.Name, each.Condition, words, each.Age())
	}
	return table.Flush()
}

// pids are the numbers, as seen here, of the processes of the testbed by their numbers in its own namespace.
func pids(record state.Record) map[int]int {
	found := map[int]int{}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", record.Init.PID))
	if err != nil {
		return found
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return found
	}
	for _, entry := range entries {
		folder := filepath.Join("/proc", entry.Name())
		if other, err := os.Readlink(filepath.Join(folder, "ns/pid")); err != nil || other != space {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, "status"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			// proc_pid_status(5): NSpid lists the process's numbers from the outermost namespace to its own.
			if numbers, is := strings.CutPrefix(line, "NSpid:"); is {
				var inside, outside int
				fields := strings.Fields(numbers)
				if _, err := fmt.Sscan(fields[len(fields)-1]+" "+entry.Name(), &inside, &outside); err == nil {
					found[inside] = outside
				}
			}
		}
	}
	return found
}

func logs(testbed state.Testbed, rest []string) error {
	flags := flag.NewFlagSet("logs", flag.ContinueOnError)
	following := flags.Bool("f", false, "")
	names, err := parseArguments(flags, rest)
	if err != nil {
		return err
	}
	known := node.Logs(testbed)
	if len(known) == 0 {
		return fmt.Errorf("testbed %s has no logs; it is not up", testbed.Name)
	}
	arguments := []string{"-n", "+1"}
	if len(names) == 0 {
		names, arguments = known, []string{"-n", "5"}
	}
	if *following {
		arguments = append(arguments, "-F")
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s has no log; there are %s", name, strings.Join(known, ", "))
		}
		arguments = append(arguments, testbed.Log(name))
	}
	tail := exec.Command("tail", arguments...)
	tail.Stdout, tail.Stderr = os.Stdout, os.Stderr
	return passed(tail.Run())
}

// passed makes the exit status of a program this one's.
func passed(err error) error {
	var status *exec.ExitError
	if errors.As(err, &status) {
		return failure(status.ExitCode())
	}
	return err
}

// changes are what can be done to a component.
var changes = []string{"stop", "start", "restart"}

func fault(testbed state.Testbed, rest []string) error {
	flags := flag.NewFlagSet("fault", flag.ContinueOnError)
	kill := flags.Bool("kill", false, "")
	all := flags.Bool("all", false, "")
	exceptNode := flags.Bool("except-node", false, "")
	given, err := parseArguments(flags, rest)
	if err != nil {
		return err
	}
	order := node.Order{Wide: *all, ExceptNode: *exceptNode}
	switch {
	case len(given) == 2 && given[0] == "api-server" && (given[1] == "partition" || given[1] == "heal"):
		order.Do = given[1]
	case len(given) == 2 && given[0] == "api-server" && slices.Contains(changes, given[1]):
		order.On, order.Do = "kube-apiserver", given[1]
	case len(given) == 3 && given[0] == "component" && slices.Contains(changes, given[2]):
		order.On, order.Do = given[1], given[2]
	case len(given) == 2 && (given[0] == "drop-address" || given[0] == "restore-address"):
		order.Do, order.On = given[0], given[1]
	case len(given) >= 2 && len(given) <= 3 && given[0] == "kill-container":
		order.Do, order.On = given[0], given[1]
		order.Container = strings.Join(given[2:], "")
	default:
		return fmt.Errorf("there is no fault %q; see testbed --help", strings.Join(given, " "))
	}
	if *kill && order.Do == "stop" {
		order.Do = "kill"
	}
	if _, err := running(testbed); err != nil {
		return err
	}
	return node.NewControl(testbed).Order(order)
}

func images(testbed state.Testbed, rest []string) error {
	if len(rest) == 0 {
		return errors.New("image: say build, join, load or list; see testbed --help")
	}
	switch rest[0] {
	case "build":
		return buildImage(rest[1:])
	case "join":
		return joinImages(rest[1:])
	case "load":
		if len(rest) == 1 {
			return errors.New("image load: name the archives")
		}
		for _, archive := range rest[1:] {
			if err := ctr(testbed, "images", "import", archive); err != nil {
				return err
			}
		}
		return nil
	case "list":
		return ctr(testbed, "images", "list")
	}
	return fmt.Errorf("image: there is no %q; see testbed --help", rest[0])
}

// ctr runs containerd's own client on the images of Kubernetes.
func ctr(testbed state.Testbed, arguments ...string) error {
	if _, err := running(testbed); err != nil {
		return err
	}
	command := exec.Command(testbed.Run("bin", "ctr"), append([]string{
		"--address", testbed.Run("containerd.sock"), "--namespace", "k8s.io"}, arguments...)...)
	// Of the machine, not of the testbed: that its cgroups are of version 1.
	command.Env = append(os.Environ(), "CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return passed(command.Run())
}

func buildImage(rest []string) error {
	flags := flag.NewFlagSet("image build", flag.ContinueOnError)
	var spec image.Spec
	var programs, files, entrypoint, arguments, environment, labels several
	flags.StringVar(&spec.Name, "name", "", "")
	flags.Var(&programs, "binary", "")
	flags.Var(&files, "file", "")
	flags.Var(&entrypoint, "entrypoint", "")
	flags.Var(&arguments, "command", "")
	flags.Var(&environment, "env", "")
	flags.StringVar(&spec.User, "user", "", "")
	flags.Var(&labels, "label", "")
	flags.BoolVar(&spec.Gzip, "gzip", false, "")
	root := flags.String("root", "", "")
	output := flags.String("o", "", "")
	if more, err := parseArguments(flags, rest); err != nil {
		return err
	} else if len(more) > 0 || *output == "" || spec.Name == "" || len(programs) == 0 {
		return errors.New("image build: give --name, --binary and -o, and no words without a flag; see testbed --help")
	}
	spec.Entrypoint, spec.Command, spec.Environment = entrypoint, arguments, environment
	if err := fill(&spec, *root, programs, files, labels); err != nil {
		return err
	}
	return writeImage(*output, func(out io.Writer) error { return image.Write(out, spec) })
}

func joinImages(rest []string) error {
	flags := flag.NewFlagSet("image join", flag.ContinueOnError)
	name := flags.String("name", "", "")
	output := flags.String("o", "", "")
	archives, err := parseArguments(flags, rest)
	if err != nil {
		return err
	}
	if *output == "" || *name == "" || len(archives) == 0 {
		return errors.New("image join: give --name, -o and the archives; see testbed --help")
	}
	return writeImage(*output, func(out io.Writer) error { return image.Join(out, *name, archives) })
}

// fill reads what goes into the image. Libraries that several programs share are there once.
func fill(spec *image.Spec, root string, programs, files, labels []string) error {
	present := map[string]bool{}
	for _, each := range programs {
		source, destination, found := strings.Cut(each, ":")
		if !found {
			destination = "/" + filepath.Base(source)
		}
		contents, architecture, err := image.Program(source, destination, root)
		if err != nil {
			return err
		}
		if spec.Architecture != "" && spec.Architecture != architecture {
			return fmt.Errorf("image build: %s is built for %s, another program for %s", source, architecture, spec.Architecture)
		}
		spec.Architecture = architecture
		if len(spec.Entrypoint) == 0 {
			spec.Entrypoint = []string{destination}
		}
		for _, content := range contents {
			if !present[content.Path] {
				present[content.Path] = true
				spec.Files = append(spec.Files, content)
			}
		}
	}
	for _, each := range files {
		source, destination, found := strings.Cut(each, ":")
		if !found {
			return fmt.Errorf("image build: --file %s: say where it goes, as SOURCE:/PATH", each)
		}
		contents, err := image.Tree(source, destination)
		if err != nil {
			return err
		}
		spec.Files = append(spec.Files, contents...)
	}
	spec.Labels = map[string]string{}
	for _, each := range labels {
		key, value, found := strings.Cut(each, "=")
		if !found {
			return fmt.Errorf("image build: --label %s: give it a value, as KEY=VALUE", each)
		}
		spec.Labels[key] = value
	}
	return nil
}

// writeImage writes an archive, or leaves no file.
func writeImage(path string, write func(io.Writer) error) error {
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := errors.Join(write(out), out.Close()); err != nil {
		return errors.Join(fmt.Errorf("image: %w", err), os.Remove(path))
	}
	return nil
}
