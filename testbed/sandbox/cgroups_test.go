package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMountOptionsKeepOnlyWhatNamesTheHierarchy(t *testing.T) {
	for shown, want := range map[string]string{
		"rw,cpu,cpuacct":                      "cpu,cpuacct",
		"rw,xattr,name=systemd":               "none,name=systemd",
		"rw,cpuset,clone_children":            "cpuset",
		"rw,memory,release_agent=/sbin/agent": "memory",
	} {
		if got := controllers(shown); got != want {
			t.Errorf("%s: %s, not %s", shown, got, want)
		}
	}
}

func TestEveryHierarchyHasACgroupOfTheTestbed(t *testing.T) {
	folders, err := CgroupFolders("one")
	if err != nil {
		t.Fatal(err)
	}
	others, err := CgroupFolders("two")
	if err != nil {
		t.Fatal(err)
	}
	for i := range folders {
		if folders[i] == others[i] {
			t.Errorf("two testbeds share %s", folders[i])
		}
	}
}

func TestMissingControllersAreNamed(t *testing.T) {
	folder := t.TempDir()
	for passed, want := range map[string]string{"cpu cpuset memory pids": "", "cpuset memory": "cpu, pids"} {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte(passed), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := complete(folder); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", passed, err)
		}
	}
}
