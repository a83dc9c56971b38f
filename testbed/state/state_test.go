package state

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func roots(t *testing.T) Roots {
	return Roots{Run: filepath.Join(t.TempDir(), "run"), Data: filepath.Join(t.TempDir(), "data")}
}

func named(t *testing.T, roots Roots, name string) Testbed {
	t.Helper()
	testbed, err := roots.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return testbed
}

func hold(t *testing.T, testbed Testbed) func() {
	t.Helper()
	release, err := testbed.Lock()
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func sleeper(t *testing.T) (*exec.Cmd, Process) {
	t.Helper()
	command := exec.Command("sleep", "600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if command.ProcessState == nil {
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	})
	process, err := Identify(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return command, process
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	testbed := named(t, roots(t), "one")
	defer hold(t, testbed)()
	if _, err := testbed.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a testbed without a record gave %v", err)
	}
	written := Record{Name: "one", Init: Process{PID: 7, Start: 8, Boot: "b"}, Cgroups: []string{"/c"}, Created: time.Unix(5, 0).UTC()}
	if err := testbed.Write(written); err != nil {
		t.Fatal(err)
	}
	if read, err := testbed.Read(); err != nil || !reflect.DeepEqual(read, written) {
		t.Errorf("read %+v, %v", read, err)
	}
	if err := os.WriteFile(testbed.Run("state.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := testbed.Read(); err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("a broken record gave %v", err)
	}
}

func TestNamesThatCannotBeFoldersAreRefused(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "A", "-a", "a-", strings.Repeat("a", 31)} {
		if _, err := System.Named(name); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

func TestANumberThatIsUsedAgainIsNotThatProcess(t *testing.T) {
	command, process := sleeper(t)
	other := process
	other.Start--
	if other.Alive() {
		t.Error("a process with another start counts as the same")
	}
	if err := other.Kill(time.Second); err != nil {
		t.Error(err)
	}
	if !process.Alive() {
		t.Fatal("the process that has the number now was killed")
	}
	go func() { _ = command.Wait() }()
	if err := process.Kill(10 * time.Second); err != nil {
		t.Error(err)
	}
	if process.Alive() {
		t.Error("the process was not killed")
	}
	if err := process.Kill(time.Second); err != nil {
		t.Errorf("killing what is gone: %v", err)
	}
}

func TestARebootEndsAllProcesses(t *testing.T) {
	_, process := sleeper(t)
	process.Boot = "another"
	if process.Alive() {
		t.Error("a process of another boot counts as alive")
	}
}

func TestALockOutlivesTheFolderItWasTakenOn(t *testing.T) {
	testbed := named(t, roots(t), "one")
	release := hold(t, testbed)
	taken := make(chan func())
	go func() {
		second, err := testbed.Lock()
		if err != nil {
			t.Error(err)
		}
		taken <- second
	}()
	select {
	case <-taken:
		t.Fatal("two hold the lock")
	case <-time.After(50 * time.Millisecond):
	}
	if err := testbed.Remove(); err != nil {
		t.Fatal(err)
	}
	release()
	second := <-taken
	defer second()
	if err := testbed.Write(Record{Name: "one"}); err != nil {
		t.Errorf("who holds the lock has no folder: %v", err)
	}
}

func TestTheLastTestbedTakesTheRootsWithIt(t *testing.T) {
	roots := roots(t)
	one, two := named(t, roots, "one"), named(t, roots, "two")
	for _, each := range []Testbed{one, two} {
		defer hold(t, each)()
		if err := os.MkdirAll(each.Data("logs"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := roots.All(); err != nil || len(all) != 2 {
		t.Errorf("there are %v, %v", all, err)
	}
	if err := one.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(two.Data("logs")); err != nil {
		t.Errorf("removing one testbed removed another: %v", err)
	}
	if err := two.Remove(); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{roots.Run, roots.Data} {
		if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", root, err)
		}
	}
	if err := two.Remove(); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}
