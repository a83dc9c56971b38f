// Package sandbox is the box that a testbed lives in: namespaces for processes, mounts, network and cgroups, and a cgroup
// of its own in every hierarchy. All that a testbed does happens inside, so that the kernel removes it with the first
// process; what remains (cgroups, folders) is removed by name. It knows nothing of Kubernetes.
package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchy is one mounted cgroup tree: of version 1 with some controllers, or the one of version 2.
type hierarchy struct {
	mount string
	// options are those of a version 1 mount: "cpu,cpuacct", or "none,name=systemd".
	options string
	unified bool
}

// hierarchies are those of this machine: version 2 alone, or those of version 1. (Beside version 1 a unified tree has no
// controllers; it is left out.)
func hierarchies() ([]hierarchy, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	defer file.Close()
	var found []hierarchy
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// proc_pid_mountinfo(5): the mount point is field 5; type and options of the file system follow the hyphen.
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields, system := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(system) < 3 {
			continue
		}
		switch mount := fields[4]; {
		case system[0] == "cgroup2" && mount == cgroupRoot:
			return []hierarchy{{mount: mount, unified: true}}, nil
		case system[0] == "cgroup" && filepath.Dir(mount) == cgroupRoot:
			found = append(found, hierarchy{mount: mount, options: controllers(system[2])})
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no cgroups are mounted below /sys/fs/cgroup; kubelet and runc need them")
	}
	return found, nil
}

// controllers are the mount options that name a version 1 hierarchy, without the others that it shows.
func controllers(options string) string {
	var kept []string
	for option := range strings.SplitSeq(options, ",") {
		switch {
		case strings.HasPrefix(option, "name="):
			kept = append(kept, "none", option)
		case slices.Contains([]string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids",
			"net_cls", "net_prio", "perf_event", "hugetlb", "rdma", "misc"}, option):
			kept = append(kept, option)
		}
	}
	return strings.Join(kept, ",")
}

// CgroupFolders are where the testbed of that name has its cgroups, whether or not they are there.
func CgroupFolders(name string) ([]string, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, each := range all {
		folders = append(folders, each.folder(name))
	}
	return folders, nil
}

func (h hierarchy) folder(name string) string {
	return filepath.Join(h.mount, "fairway-testbed-"+name)
}

// enter makes the testbed's cgroup in this hierarchy and moves this process there.
func (h hierarchy) enter(name string) error {
	folder := h.folder(name)
	if h.unified {
		// Only what the root passes on can be limited below it. A controller that it refuses (EBUSY or ENOENT) is one that
		// kubelet will name if it needs it.
		delegate(h.mount)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the cgroup of the testbed: %w", err)
	}
	if strings.Contains(h.options, "cpuset") {
		// cgroups-v1/cpusets: a new set is empty and takes no process until it has CPUs and memory nodes.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(folder, name); err != nil {
				return err
			}
		}
	}
	return join(folder)
}

// delegate turns on every controller for the cgroups below folder.
func delegate(folder string) {
	available, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, controller := range strings.Fields(string(available)) {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			fmt.Fprintf(os.Stderr, "cgroup controller %s is not passed on by %s: %v\n", controller, folder, err)
		}
	}
}

func inherit(folder, setting string) error {
	value, err := os.ReadFile(filepath.Join(filepath.Dir(folder), setting))
	if err != nil {
		return fmt.Errorf("read the CPUs of the parent cgroup: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, setting), value, 0o644); err != nil {
		return fmt.Errorf("set the CPUs of the testbed's cgroup: %w", err)
	}
	return nil
}

// join moves this process into a cgroup; "0" means the writing process.
func join(folder string) error {
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return fmt.Errorf("enter the cgroup %s: %w", folder, err)
	}
	return nil
}

// show mounts the hierarchies again, inside of the cgroup namespace: there they begin at the testbed's own cgroup.
func show(all []hierarchy) error {
	if all[0].unified {
		if err := unix.Mount("cgroup2", cgroupRoot, "cgroup2", 0, ""); err != nil {
			return fmt.Errorf("mount the testbed's cgroups: %w", err)
		}
		// cgroup-v2.rst, no internal processes: what lives in the root must move to a leaf before it passes controllers on.
		leaf := filepath.Join(cgroupRoot, "init")
		if err := os.MkdirAll(leaf, 0o755); err != nil {
			return fmt.Errorf("make the cgroup of the testbed's own processes: %w", err)
		}
		if err := join(leaf); err != nil {
			return err
		}
		delegate(cgroupRoot)
		return complete(cgroupRoot)
	}
	if err := unix.Mount("tmpfs", cgroupRoot, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount the testbed's cgroups: %w", err)
	}
	for _, each := range all {
		if err := os.Mkdir(each.mount, 0o755); err != nil {
			return fmt.Errorf("mount the testbed's cgroups: %w", err)
		}
		if err := unix.Mount("cgroup", each.mount, "cgroup", 0, each.options); err != nil {
			return fmt.Errorf("mount the cgroups of %s: %w", each.options, err)
		}
		for controller := range strings.SplitSeq(filepath.Base(each.mount), ",") {
			link := filepath.Join(cgroupRoot, controller)
			if err := os.Symlink(filepath.Base(each.mount), link); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("name the cgroups of %s: %w", controller, err)
			}
		}
	}
	return nil
}

// complete says which controllers a version 2 cgroup lacks that runc needs for any container.
func complete(folder string) error {
	passed, err := os.ReadFile(filepath.Join(folder, "cgroup.subtree_control"))
	if err != nil {
		return fmt.Errorf("read the controllers of the testbed's cgroup: %w", err)
	}
	var missing []string
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(strings.Fields(string(passed)), controller) {
			missing = append(missing, controller)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the cgroup controllers %s are not passed on to the testbed, so that no container would start; turn them on in %s/cgroup.subtree_control",
			strings.Join(missing, ", "), cgroupRoot)
	}
	return nil
}

// removeCgroup kills the processes in a cgroup and below it, and removes it. Its name shows that it belongs to the testbed, and
// so does everything in it.
func removeCgroup(folder string, patience time.Duration) error {
	end := time.Now().Add(patience)
	for {
		folders, err := descendants(folder)
		if err != nil {
			return err
		}
		if len(folders) == 0 {
			return nil
		}
		var last error
		for _, each := range folders {
			killAll(each)
			if err := os.Remove(each); err != nil && !errors.Is(err, fs.ErrNotExist) {
				last = err
			}
		}
		if last == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("remove the cgroup of the testbed: %w", last)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// descendants are a cgroup and all in it, children first.
func descendants(folder string) ([]string, error) {
	var folders []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the cgroups of the testbed: %w", err)
	}
	slices.Reverse(folders)
	return folders, nil
}

func killAll(folder string) {
	processes, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		// It no longer exists, which is the goal.
		return
	}
	for _, line := range strings.Fields(string(processes)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
			// It may end by itself meanwhile; what stays is seen when the cgroup cannot be removed.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
