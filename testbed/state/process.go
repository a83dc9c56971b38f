package state

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one process for good: its number may be used again, together with its start it is not.
type Process struct {
	PID int `json:"pid"`
	// Start is in clock ticks since the boot (proc_pid_stat(5), field 22).
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

// Identify names a living process.
func Identify(pid int) (Process, error) {
	start, err := started(pid)
	if err != nil {
		return Process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Process{}, fmt.Errorf("read the boot's name: %w", err)
	}
	return Process{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

// Alive says whether that very process is still there and not merely unreaped.
func (p Process) Alive() bool {
	if p.PID == 0 {
		return false
	}
	now, err := Identify(p.PID)
	return err == nil && now == p
}

// Kill kills exactly this process, even if another one has its number by now, and waits until it has ended.
func (p Process) Kill(patience time.Duration) error {
	handle, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", p.PID, err)
	}
	defer unix.Close(handle)
	// The handle belongs to the process that has the number now; only after this check is it known to be ours.
	if !p.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	for end := time.Now().Add(patience); p.Alive(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("process %d is still there %s after it was killed", p.PID, patience)
		}
	}
	return nil
}

// started reads when a process started; a zombie counts as ended.
func started(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	// The name, in parentheses, may hold anything; field 3 (the state) follows the last one.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("look at process %d: its stat has %d fields", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return start, nil
}
