package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"fairway/testbed/state"
	"golang.org/x/sys/unix"
)

// Exec becomes the program `arguments` inside of the testbed's network, with its names resolved there and everything else
// as it is outside. It returns only if it cannot.
func Exec(record state.Record, resolver string, environment, arguments []string) error {
	if !record.Init.Alive() {
		return fmt.Errorf("testbed %s is not running", record.Name)
	}
	// In the testbed's cgroup, so that `down` ends it and what it leaves. One hierarchy is enough for that, and one that
	// limits nothing.
	if err := joinOne(record.Cgroups); err != nil {
		return err
	}
	// Namespaces are the thread's; execve keeps those of the thread that calls it.
	runtime.LockOSThread()
	network, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", record.Init.PID), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the network of testbed %s: %w", record.Name, err)
	}
	if err := unix.Setns(network, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network of testbed %s: %w", record.Name, err)
	}
	if err := resolveWith(resolver); err != nil {
		return err
	}
	if err := os.Setenv("PATH", lookup(environment, "PATH")); err != nil {
		return fmt.Errorf("set PATH: %w", err)
	}
	program, err := exec.LookPath(arguments[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return fmt.Errorf("exec: %w", err)
	}
	if err := unix.Exec(program, arguments, environment); err != nil {
		return fmt.Errorf("exec %s: %w", program, err)
	}
	return nil
}

func lookup(environment []string, name string) string {
	value := ""
	for _, variable := range environment {
		if after, found := strings.CutPrefix(variable, name+"="); found {
			value = after
		}
	}
	return value
}

// resolveWith puts the testbed's resolv.conf in the place of the machine's, for this process and its children.
func resolveWith(resolver string) error {
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		// A machine without the file resolves by asking itself, which inside is nobody; names of Services then need a
		// resolver of the program's own.
		fmt.Fprintf(os.Stderr, "testbed: /etc/resolv.conf does not exist, so the names of Services are not resolved: %v\n", err)
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make mounts of its own: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts of its own: %w", err)
	}
	if err := unix.Mount(resolver, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("put the testbed's resolv.conf in place: %w", err)
	}
	return nil
}

func joinOne(cgroups []string) error {
	chosen := cgroups[0]
	for _, folder := range cgroups {
		if filepath.Base(filepath.Dir(folder)) == "pids" {
			chosen = folder
		}
	}
	// A leaf, because in version 2 a cgroup has either processes or children.
	leaf := filepath.Join(chosen, "exec")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return fmt.Errorf("make the cgroup of programs in the testbed: %w", err)
	}
	return join(leaf)
}
