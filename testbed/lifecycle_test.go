package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/testbed/state"
)

// These tests bring up real clusters, so that they need root, the packages of `make setup`, and minutes for the first
// build. `go test -short` leaves them out. The test's own program is what runs in the pods: it answers with its host name.

const podProgram = "answer-with-hostname"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == podProgram {
		name, err := os.Hostname()
		if err != nil {
			panic(err)
		}
		panic(http.ListenAndServe(":8080", http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(answer, name)
		})))
	}
	os.Exit(m.Run())
}

// bed is a testbed of a test, and the machine as it was before.
type bed struct {
	*testing.T
	testbed state.Testbed
	program string
}

func newBed(t *testing.T, name string) bed {
	t.Helper()
	if testing.Short() {
		t.Skip("brings up a real cluster")
	}
	testbed, err := state.System.Named(fmt.Sprintf("test-%d-%s", os.Getpid(), name))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TESTBED_SOURCE", folder)
	program := filepath.Join(t.TempDir(), "testbed")
	if output, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, output)
	}
	made := bed{T: t, testbed: testbed, program: program}
	t.Cleanup(func() {
		if _, err := made.try("down"); err != nil {
			t.Errorf("down: %v", err)
		}
	})
	return made
}

func (b bed) command(arguments ...string) *exec.Cmd {
	return exec.Command(b.program, append([]string{"--name", b.testbed.Name}, arguments...)...)
}

// try runs the command and returns its output.
func (b bed) try(arguments ...string) (string, error) {
	var out, words bytes.Buffer
	command := b.command(arguments...)
	command.Stdout, command.Stderr = &out, &words
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(arguments, " "), err, words.String())
	}
	return out.String(), nil
}

func (b bed) run(arguments ...string) string {
	b.Helper()
	out, err := b.try(arguments...)
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// await polls until the command prints the expected text.
func (b bed) await(holds func(string, error) bool, arguments ...string) {
	b.Helper()
	var out string
	var err error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if out, err = b.try(arguments...); holds(out, err) {
			return
		}
	}
	b.Fatalf("%v says %q, %v after a minute", arguments, out, err)
}

func succeedsWith(want string) func(string, error) bool {
	return func(out string, err error) bool { return err == nil && strings.Contains(out, want) }
}

func fails(_ string, err error) bool { return err != nil }

func (b bed) record() state.Record {
	b.Helper()
	record, err := b.testbed.Read()
	if err != nil {
		b.Fatal(err)
	}
	return record
}

// component is one of `status --json`, which fails when one does not run.
func (b bed) component(name string) (pid int, condition string) {
	b.Helper()
	out, err := b.try("status", "--json")
	var report struct {
		Components []struct {
			Name, Condition string
			PID             int
		}
	}
	if json.Unmarshal([]byte(out), &report) != nil {
		b.Fatalf("status said %q, %v", out, err)
	}
	for _, each := range report.Components {
		if each.Name == name {
			return each.PID, each.Condition
		}
	}
	b.Fatalf("status names no %s", name)
	return 0, ""
}

// checkNothingLeft looks for whatever could be left of the testbed with that record.
func (b bed) checkNothingLeft(record state.Record) {
	b.Helper()
	name := b.testbed.Name
	for _, folder := range append([]string{b.testbed.Run(), b.testbed.Data()}, record.Cgroups...) {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			b.Errorf("left: %s (%v)", folder, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		b.Fatal(err)
	}
	if strings.Contains(string(mounts), name) {
		b.Errorf("left: mounts in %s", mounts)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.Fatal(err)
	}
	for _, process := range processes {
		words, err := os.ReadFile(filepath.Join(process, "cmdline"))
		if err == nil && process != fmt.Sprintf("/proc/%d", os.Getpid()) && strings.Contains(string(words), name) {
			b.Errorf("left: %s %q", process, words)
		}
		// The number may be another namespace's by now, but hardly in the moment between.
		var status syscall.Stat_t
		if syscall.Stat(filepath.Join(process, "ns/net"), &status) == nil && record.NetworkNamespace != 0 && status.Ino == record.NetworkNamespace {
			b.Errorf("left: %s %q in the testbed's network", process, words)
		}
	}
}

// machine is what of the machine itself a testbed could change by mistake.
func machine(t *testing.T) string {
	t.Helper()
	var seen strings.Builder
	for _, name := range []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		value, err := os.ReadFile("/proc/sys/" + name)
		fmt.Fprintf(&seen, "%s %s %v\n", name, value, err)
	}
	devices, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range devices {
		fmt.Fprintln(&seen, device.Name)
	}
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		rules, err := exec.Command(program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(rules)) {
			if strings.HasPrefix(line, "-A") {
				seen.WriteString(line)
			}
		}
	}
	return seen.String()
}

func (b bed) loadPodImage() {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	archive := filepath.Join(b.TempDir(), "image.tar")
	b.run("image", "build", "--name", "fairway.test/answer:v1", "--binary", self+":/answer", "--entrypoint", "/answer",
		"--entrypoint", podProgram, "--user", "65532:65532", "-o", archive)
	b.run("image", "load", archive)
	if list := b.run("image", "list"); !strings.Contains(list, "fairway.test/answer:v1") {
		b.Fatalf("the image is not in %s", list)
	}
}

// serve deploys two pods behind a dual-stack Service of type LoadBalancer.
func (b bed) serve() {
	b.Helper()
	objects := filepath.Join(b.TempDir(), "objects.json")
	label := map[string]any{"app": "answer"}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{
		map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "answer"},
			"spec": map[string]any{"replicas": 2, "selector": map[string]any{"matchLabels": label}, "template": map[string]any{
				"metadata": map[string]any{"labels": label},
				"spec": map[string]any{"terminationGracePeriodSeconds": 1, "containers": []any{map[string]any{
					"name": "answer", "image": "fairway.test/answer:v1",
					"resources":      map[string]any{"limits": map[string]any{"memory": "100Mi"}},
					"readinessProbe": map[string]any{"periodSeconds": 1, "httpGet": map[string]any{"port": 8080}},
				}}},
			}},
		},
		map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "answer"},
			"spec": map[string]any{"type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "selector": label,
				"ports": []any{map[string]any{"port": 80, "targetPort": 8080}}},
		},
	}})
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(objects, text, 0o644); err != nil {
		b.Fatal(err)
	}
	b.run("kubectl", "apply", "-f", objects)
	b.run("kubectl", "rollout", "status", "deployment/answer", "--timeout=60s")
}

func (b bed) curl(url string) []string {
	return []string{"exec", "curl", "-sS", "--max-time", "1", url}
}

// pod is the address and the name of a ready pod.
func (b bed) pod() (address, name string) {
	b.Helper()
	both := strings.Fields(b.run("kubectl", "get", "pods", "-l", "app=answer", "--field-selector=status.phase=Running",
		"-o", "jsonpath={.items[0].status.podIP} {.items[0].metadata.name}"))
	return both[0], both[1]
}

func TestTwoTestbedsServeSideBySideAndLeaveNothing(t *testing.T) {
	one, two := newBed(t, "one"), newBed(t, "two")
	before := machine(t)
	for _, each := range []bed{one, two} {
		begun := time.Now()
		if out := each.run("up"); out != each.testbed.Kubeconfig() {
			t.Errorf("up printed %q", out)
		}
		t.Logf("%s is up in %s", each.testbed.Name, time.Since(begun).Round(time.Millisecond))
		each.run("up")
		each.loadPodImage()
		each.serve()
	}
	for _, each := range []bed{one, two} {
		// Both have the same addresses, each its own pods.
		_, name := each.pod()
		prefix := name[:strings.LastIndex(name, "-")]
		for _, url := range []string{"http://10.11.0.1/", "http://[fd00:10:11::1]/", "http://answer/", "http://answer.default.svc/"} {
			each.await(succeedsWith(prefix), each.curl(url)...)
		}
	}
	first, second := one.record(), two.record()
	two.run("down")
	two.checkNothingLeft(second)
	one.await(succeedsWith("answer-"), one.curl("http://10.11.0.1/")...)
	one.run("status")
	one.run("down")
	one.checkNothingLeft(first)
	if after := machine(t); after != before {
		t.Errorf("the machine was\n%s\nand is\n%s", before, after)
	}
}

func TestWhateverCrashesUpRepairsItAndDownLeavesNothing(t *testing.T) {
	b := newBed(t, "crash")
	b.run("up")
	b.loadPodImage()
	b.serve()
	for _, name := range []string{"kubelet", "containerd", "kube-apiserver", "etcd", "coredns"} {
		pid, _ := b.component(name)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill %s, process %d: %v", name, pid, err)
		}
		b.await(func(string, error) bool {
			_, condition := b.component(name)
			return condition == "ended"
		}, "status")
	}
	b.run("up")
	b.run("status")
	b.await(succeedsWith("answer-"), b.curl("http://answer/")...)

	// A program that someone left running inside, and the first process killed.
	inside := b.command("exec", "sleep", "600")
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	b.await(succeedsWith("sleep"), "exec", "sh", "-c", "tr '\\0' ' ' </proc/"+strconv.Itoa(inside.Process.Pid)+"/cmdline")
	record := b.record()
	if err := syscall.Kill(record.Init.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.await(fails, "status")
	b.run("down")
	if err := inside.Wait(); err == nil {
		t.Error("the program inside ended by itself")
	}
	b.checkNothingLeft(record)
}

func TestAnUpThatIsKilledMidwayCanBeTakenDownOrFollowed(t *testing.T) {
	b := newBed(t, "midway")
	for _, next := range []string{"down", "up"} {
		starting := b.command("up")
		if err := starting.Start(); err != nil {
			t.Fatal(err)
		}
		for {
			if record, err := b.testbed.Read(); err == nil && record.Init.PID != 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if err := starting.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = starting.Wait()
		record := b.record()
		b.run(next)
		if next == "up" {
			b.run("status")
			b.run("down")
		}
		b.checkNothingLeft(record)
	}
	b.run("down")
}

func TestFaultsBeginAndEnd(t *testing.T) {
	b := newBed(t, "faults")
	b.run("up")
	b.loadPodImage()
	b.serve()
	address, name := b.pod()

	b.run("fault", "drop-address", address)
	b.await(func(_ string, err error) bool { return err != nil && strings.Contains(err.Error(), "timed out") }, b.curl("http://"+address+":8080/")...)
	b.run("fault", "restore-address", address)
	b.await(succeedsWith(name), b.curl("http://"+address+":8080/")...)
	b.run("fault", "drop-address", address, "--except-node")
	b.run(b.curl("http://" + address + ":8080/")...)
	b.run("fault", "restore-address", address)

	b.run("fault", "kill-container", "default/"+name)
	b.await(succeedsWith("1"), "kubectl", "get", "pod", name, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")

	// For the pods alone, then for everyone.
	b.run("fault", "api-server", "partition")
	b.run("kubectl", "get", "nodes")
	b.run("fault", "api-server", "heal")
	b.run("fault", "api-server", "partition", "--all")
	b.await(func(_ string, err error) bool { return err != nil && strings.Contains(err.Error(), "timed out") },
		b.curl("https://10.96.0.1/")...)
	b.run("fault", "api-server", "heal")
	b.run("kubectl", "get", "nodes")

	b.run("fault", "api-server", "stop")
	b.await(func(_ string, err error) bool { return err != nil && strings.Contains(err.Error(), "refused") }, "kubectl", "get", "nodes")
	b.await(succeedsWith("answer-"), b.curl("http://10.11.0.1/")...)
	b.run("fault", "api-server", "start")
	b.run("kubectl", "get", "nodes")
	b.run("status")
}

func TestAProgramInsideGivesItsExitStatusAndFindsTheCluster(t *testing.T) {
	b := newBed(t, "exec")
	b.await(fails, "exec", "true")
	b.run("up")
	var status *exec.ExitError
	if _, err := b.try("exec", "sh", "-c", "exit 7"); !errors.As(err, &status) || status.ExitCode() != 7 {
		t.Errorf("exit 7 gave %v", err)
	}
	if out := b.run("exec", "kubectl", "config", "current-context"); out != b.testbed.Name {
		t.Errorf("KUBECONFIG leads to %q", out)
	}
	if out := b.run("exec", "getent", "ahostsv4", "kubernetes.default.svc"); !strings.Contains(out, "10.96.0.1") {
		t.Errorf("kubernetes.default.svc is %q", out)
	}
	if _, err := b.try("exec", "no-such-program"); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a program that is not there gave %v", err)
	}
}
