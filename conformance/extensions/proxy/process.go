package proxy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// readyTimeout bounds how long a proxy may take to serve.
	readyTimeout = time.Minute
	// stopTimeout bounds how long it may take to end.
	stopTimeout = 45 * time.Second
)

// process is a program that runs, with what it prints in a file.
type process struct {
	command *exec.Cmd
	done    chan struct{}
	log     string
}

func start(log, binary string, arguments ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	command := exec.Command(binary, arguments...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stdout, command.Stderr = file, file
	if err := command.Start(); err != nil {
		return nil, err
	}
	started := &process{command: command, done: make(chan struct{}), log: log}
	go func() {
		_ = command.Wait()
		close(started.done)
	}()
	return started, nil
}

// HasEnded reports whether the process has ended.
func (process *process) HasEnded() bool {
	select {
	case <-process.done:
		return true
	default:
		return false
	}
}

// Stop asks it to end. One that ended before, takes too long or ends badly is an error.
func (process *process) Stop() error {
	if process.HasEnded() {
		return fmt.Errorf("it had ended before: %s", process.command.ProcessState)
	}
	_ = process.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-process.done:
		if !process.command.ProcessState.Success() {
			return fmt.Errorf("it ended with %s", process.command.ProcessState)
		}
		return nil
	case <-time.After(stopTimeout):
		process.kill()
		return fmt.Errorf("it had not ended %s after SIGTERM", stopTimeout)
	}
}

func (process *process) kill() {
	_ = process.command.Process.Kill()
	<-process.done
}

// Memory is what it has in RAM, and had at most, in bytes.
func (process *process) Memory() (resident, peak int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.command.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		kibibytes, _ := strconv.Atoi(fields[1])
		switch fields[0] {
		case "VmRSS:":
			resident = kibibytes << 10
		case "VmHWM:":
			peak = kibibytes << 10
		}
	}
	if resident == 0 {
		err = errors.New("/proc has no VmRSS of it")
	}
	return resident, peak, err
}

// firstLine is the first line that a program prints, without its path.
func firstLine(binary string, arguments ...string) string {
	text, err := exec.Command(binary, arguments...).CombinedOutput()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(strings.ReplaceAll(line, binary, ""))
}
