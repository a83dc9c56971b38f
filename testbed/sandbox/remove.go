package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"fairway/testbed/state"
	"golang.org/x/sys/unix"
)

// patience is how long the kernel may take to end killed processes.
const patience = 20 * time.Second

// Remove ends all of a testbed and removes what it left, in whatever state it is; the caller holds its lock.
func Remove(testbed state.Testbed) error {
	record, err := testbed.Read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if record.Init.PID != 0 {
		// The kernel ends every process of the namespace before it reports this one as ended.
		if err := record.Init.Kill(patience); err != nil {
			return err
		}
	}
	folders, err := CgroupFolders(testbed.Name)
	if err != nil {
		return err
	}
	for _, folder := range slices.Compact(slices.Sorted(slices.Values(append(folders, record.Cgroups...)))) {
		if err := removeCgroup(folder, patience); err != nil {
			return err
		}
	}
	for _, folder := range []string{testbed.Run(), testbed.Data()} {
		if err := unmount(folder); err != nil {
			return err
		}
	}
	return testbed.Remove()
}

// unmount removes mounts in a folder. The testbed makes none that is visible outside; others are to be removed with the folder.
func unmount(folder string) error {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("look for mounts of the testbed: %w", err)
	}
	defer file.Close()
	var mounts []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], folder+"/") {
			mounts = append(mounts, fields[4])
		}
	}
	slices.Reverse(mounts)
	for _, mount := range mounts {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", mount, err)
		}
	}
	return nil
}
