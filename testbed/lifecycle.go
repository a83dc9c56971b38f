package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"fairway/testbed/binaries"
	"fairway/testbed/node"
	"fairway/testbed/sandbox"
	"fairway/testbed/state"
)

// The commands of the testbed's own first processes; no one else calls them.
const (
	initCommand  = "run-init"
	serveCommand = "run-node"
)

// packages are the programs of the machine that a testbed runs, and the Debian packages they are in.
var packages = []struct{ program, name string }{
	{"etcd", "etcd-server"}, {"runc", "runc"}, {"iptables", "iptables"}, {"ip6tables", "iptables"},
	{"ip", "iproute2"}, {"mount", "mount"},
}

// plugins are where distributions put the CNI plugins.
var plugins = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

func printProgress(line string) {
	fmt.Fprintln(os.Stderr, "testbed: "+line)
}

// sources is the folder that the programs are built from; the launcher names it.
func sources() (string, error) {
	if folder := os.Getenv("TESTBED_SOURCE"); folder != "" {
		return folder, nil
	}
	return "", errors.New("the sources are not known; start this command as testbed/testbed of a checkout, or set TESTBED_SOURCE to that folder")
}

func buildBinaries() error {
	folder, err := sources()
	if err != nil {
		return err
	}
	if _, err := binaries.Ensure(folder, printProgress); err != nil {
		return err
	}
	cache, err := binaries.Cache()
	if err != nil {
		return err
	}
	fmt.Println(cache)
	return nil
}

func missingPackages() error {
	var missing []string
	for _, each := range packages {
		if _, err := exec.LookPath(each.program); err != nil {
			missing = append(missing, fmt.Sprintf("%s (package %s)", each.program, each.name))
		}
	}
	if _, err := pluginFolder(); err != nil {
		missing = append(missing, err.Error())
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing on this machine: %s; run `make setup`", strings.Join(missing, ", "))
	}
	return nil
}

func pluginFolder() (string, error) {
	for _, folder := range plugins {
		complete := true
		for _, plugin := range []string{"bridge", "host-local", "loopback"} {
			if _, err := os.Stat(filepath.Join(folder, plugin)); err != nil {
				complete = false
			}
		}
		if complete {
			return folder, nil
		}
	}
	return "", errors.New("the CNI plugins bridge, host-local and loopback (package containernetworking-plugins)")
}

func up(testbed state.Testbed) error {
	begun := time.Now()
	if err := missingPackages(); err != nil {
		return err
	}
	folder, err := sources()
	if err != nil {
		return err
	}
	programs, err := binaries.Ensure(folder, printProgress)
	if err != nil {
		return err
	}
	if programs.CNI, err = pluginFolder(); err != nil {
		return err
	}
	if built := time.Since(begun); built > time.Second {
		begun = time.Now()
	}
	release, err := testbed.Lock()
	if err != nil {
		return err
	}
	defer func() { release() }()
	record, err := testbed.Read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	continued, err := startMissing(testbed, record)
	if err != nil {
		return err
	}
	if !continued {
		if record, release, err = fresh(testbed, programs, release); err != nil {
			return err
		}
	}
	if err := follow(testbed, record, begun); err != nil {
		return err
	}
	fmt.Println(testbed.Kubeconfig())
	return nil
}

// startMissing makes a running testbed start missing components; it returns false if none runs, or no longer.
func startMissing(testbed state.Testbed, record state.Record) (bool, error) {
	for end := time.Now().Add(10 * time.Second); record.Init.Alive(); time.Sleep(20 * time.Millisecond) {
		// It may have been started a moment ago, by a command that was killed, and not listen yet.
		err := node.NewControl(testbed).Order(node.Order{Do: "up"})
		if err == nil || time.Now().After(end) {
			return true, err
		}
	}
	return false, nil
}

// fresh removes what an earlier testbed of that name left and starts a new one.
func fresh(testbed state.Testbed, programs node.Programs, release func()) (state.Record, func(), error) {
	if err := sandbox.Remove(testbed); err != nil {
		return state.Record{}, release, err
	}
	release()
	// The locked folder was removed with everything else.
	release, err := testbed.Lock()
	if err != nil {
		return state.Record{}, func() {}, err
	}
	if record, err := testbed.Read(); err == nil && record.Init.Alive() {
		return record, release, nil
	}
	description, err := json.Marshal(programs)
	if err != nil {
		return state.Record{}, release, fmt.Errorf("write down the programs: %w", err)
	}
	if err := os.WriteFile(testbed.Run("programs.json"), description, 0o644); err != nil {
		return state.Record{}, release, fmt.Errorf("write down the programs: %w", err)
	}
	record, err := sandbox.Start(testbed, "--name", testbed.Name, initCommand)
	return record, release, err
}

// follow tells the steps of a start until the testbed is ready or has failed.
func follow(testbed state.Testbed, record state.Record, begun time.Time) error {
	control := node.NewControl(testbed)
	told := 0
	for {
		report, err := control.Report()
		if err != nil && !record.Init.Alive() {
			return fmt.Errorf("the testbed ended while it started: %s", lastLine(testbed.Log("testbed")))
		}
		for ; err == nil && told < len(report.Steps); told++ {
			printProgress(fmt.Sprintf("%5.1f s  %s", time.Since(begun).Seconds(), report.Steps[told]))
		}
		switch {
		case err == nil && report.Phase == node.Ready:
			printProgress(fmt.Sprintf("%5.1f s  %s is up", time.Since(begun).Seconds(), testbed.Name))
			return nil
		case err == nil && report.Phase == node.Failed:
			return fmt.Errorf("%s; the logs are in %s until `testbed --name %s down`", report.Failure, testbed.Data("logs"), testbed.Name)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func lastLine(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return lines[len(lines)-1]
}

func down(testbed state.Testbed, rest []string) error {
	flags := flag.NewFlagSet("down", flag.ContinueOnError)
	all := flags.Bool("all", false, "")
	if _, err := parseArguments(flags, rest); err != nil {
		return err
	}
	testbeds := []state.Testbed{testbed}
	if *all {
		found, err := state.System.All()
		if err != nil {
			return err
		}
		testbeds = found
	}
	var failures []error
	for _, each := range testbeds {
		release, err := each.Lock()
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if err := sandbox.Remove(each); err != nil {
			failures = append(failures, fmt.Errorf("take down %s: %w", each.Name, err))
		}
		release()
	}
	return errors.Join(failures...)
}

func programs(testbed state.Testbed) (node.Programs, error) {
	var programs node.Programs
	content, err := os.ReadFile(testbed.Run("programs.json"))
	if err == nil {
		err = json.Unmarshal(content, &programs)
	}
	if err != nil {
		return programs, fmt.Errorf("read the programs of the testbed: %w", err)
	}
	return programs, nil
}

// live is the first process of a testbed.
func live(testbed state.Testbed) error {
	programs, err := programs(testbed)
	if err != nil {
		return err
	}
	return sandbox.Live(testbed, programs.Folders(), "--name", testbed.Name, serveCommand)
}

func serve(testbed state.Testbed) error {
	programs, err := programs(testbed)
	if err != nil {
		return err
	}
	return node.Serve(testbed, programs)
}
