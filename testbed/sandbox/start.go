package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"fairway/testbed/state"
	"golang.org/x/sys/unix"
)

// Start starts the first process of a testbed in new namespaces, with those arguments to this same program. It is
// written down before it does anything: until then it waits, and ends by itself should this process end.
func Start(testbed state.Testbed, arguments ...string) (state.Record, error) {
	cgroups, err := CgroupFolders(testbed.Name)
	if err != nil {
		return state.Record{}, err
	}
	record := state.Record{Name: testbed.Name, Cgroups: cgroups, Data: testbed.Data(), Created: time.Now()}
	if err := testbed.Write(record); err != nil {
		return record, err
	}
	if err := os.MkdirAll(testbed.Data("logs"), 0o755); err != nil {
		return record, fmt.Errorf("make the folders of the testbed: %w", err)
	}
	log, err := os.OpenFile(testbed.Log("testbed"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return record, fmt.Errorf("open the testbed's log: %w", err)
	}
	defer log.Close()
	waiting, begin, err := os.Pipe()
	if err != nil {
		return record, fmt.Errorf("start the testbed: %w", err)
	}
	defer begin.Close()
	first := exec.Command("/proc/self/exe", arguments...)
	first.Stdout, first.Stderr = log, log
	first.ExtraFiles = []*os.File{waiting}
	first.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
	}
	err = first.Start()
	waiting.Close()
	if err != nil {
		return record, fmt.Errorf("start the testbed in namespaces of its own: %w", err)
	}
	// Reaped when it ends while this process lives, so that it is not seen as a zombie.
	go func() { _ = first.Wait() }()
	if record.Init, err = state.Identify(first.Process.Pid); err != nil {
		return record, err
	}
	if record.NetworkNamespace, err = namespace(first.Process.Pid, "net"); err != nil {
		return record, err
	}
	if err := testbed.Write(record); err != nil {
		return record, err
	}
	if _, err := begin.Write([]byte{1}); err != nil {
		return record, fmt.Errorf("start the testbed: its first process has ended; see %s", testbed.Log("testbed"))
	}
	return record, nil
}

func namespace(pid int, kind string) (uint64, error) {
	var status unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", pid, kind), &status); err != nil {
		return 0, fmt.Errorf("find the %s namespace of process %d: %w", kind, pid, err)
	}
	return status.Ino, nil
}

// Live is the life of the first process: it makes the box from inside, starts `arguments` as its only child of its own,
// reaps whatever else becomes its child, and ends with that child, and with it, by the kernel's hand, everything else.
func Live(testbed state.Testbed, visible []string, arguments ...string) error {
	begin := os.NewFile(3, "begin")
	if n, err := begin.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the command that started the testbed ended before it was written down: %w", errors.Join(err))
	}
	begin.Close()
	// The cgroup namespace is one of the thread; children are started from this one.
	runtime.LockOSThread()
	if err := setUpMounts(testbed, visible); err != nil {
		return err
	}
	child, err := os.StartProcess("/proc/self/exe", append([]string{"testbed"}, arguments...), &os.ProcAttr{
		Files: []*os.File{nil, os.Stdout, os.Stderr}, Env: os.Environ(),
	})
	if err != nil {
		return fmt.Errorf("start the testbed's own process: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the testbed's processes: %w", err)
		}
		if pid == child.Pid {
			return fmt.Errorf("the testbed's own process ended (status %d, signal %d); all of the testbed ends with it",
				status.ExitStatus(), status.Signal())
		}
	}
}
