package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fairway/testbed/state"
	"golang.org/x/sys/unix"
)

// tunables are what kubelet sets for the whole machine (pkg/kubelet/cm, setupKernelTunables). It finds them set already,
// in files of the testbed's own, and the machine's stay as they are.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// setUpMounts makes the box from inside: cgroups, and mounts that no one outside sees. `visible` are paths that must stay
// readable wherever they are.
func setUpMounts(testbed state.Testbed, visible []string) error {
	cgroups, err := hierarchies()
	if err != nil {
		return err
	}
	for _, each := range cgroups {
		if err := each.enter(testbed.Name); err != nil {
			return err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	visible = append(visible, testbed.Run(), testbed.Data())
	// What containerd, CNI and kubelet keep at fixed places: namespaces of pods, sockets, locks, caches, links to logs.
	for _, folder := range []string{"/run", "/var/lib", "/var/log"} {
		if err := veil(folder, testbed.Data("veil"), visible); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc for the testbed's processes: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /sys for the testbed's network: %w", err)
	}
	if err := show(cgroups); err != nil {
		return err
	}
	if err := settle(testbed.Data("tunables")); err != nil {
		return err
	}
	// Kubernetes propagates mounts from pods to pods; these peers are the testbed's own.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts inside of the testbed: %w", err)
	}
	return nil
}

// veil covers a folder with an empty one in memory, in which only the visible paths are there.
func veil(folder, scratch string, visible []string) error {
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return fmt.Errorf("cover %s: %w", folder, err)
	}
	if err := unix.Mount("tmpfs", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("cover %s: %w", folder, err)
	}
	for _, path := range visible {
		relative, err := filepath.Rel(folder, path)
		if err != nil || strings.HasPrefix(relative, "..") {
			continue
		}
		place := filepath.Join(scratch, relative)
		if err := os.MkdirAll(place, 0o755); err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
		if err := unix.Mount(path, place, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
	}
	if err := unix.Mount(scratch, folder, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("cover %s: %w", folder, err)
	}
	return nil
}

// settle puts files of the testbed in the place of the machine-wide tunables.
func settle(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the testbed's tunables: %w", err)
	}
	for name, value := range tunables {
		file := filepath.Join(folder, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return fmt.Errorf("make the testbed's tunables: %w", err)
		}
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep the machine's %s: %w", name, err)
		}
	}
	return nil
}
