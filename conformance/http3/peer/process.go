// Package peer is the servers that are tested: Fairway, and quic-go's own server as a peer.
package peer

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// readyTimeout bounds how long a server may take to serve.
	readyTimeout = 30 * time.Second
	// StopTimeout bounds how long it may take to end after SIGTERM.
	StopTimeout = 45 * time.Second
)

// Plan is the configuration of a server.
type Plan struct {
	Directory    string
	Certificates *Certificates `json:"-"`
	// Backend is the port of the endpoint, and Recorder and RecorderH2C those of the recorders.
	Backend, Recorder, RecorderH2C int
	// EarlyData allows requests in 0-RTT packets.
	EarlyData bool
}

// Process is a server that runs.
type Process struct {
	Name, Version string
	// Address takes HTTP/3 over UDP, and HTTP/1.1 and HTTP/2 over TLS and TCP.
	Address *net.UDPAddr
	command *exec.Cmd
	done    chan struct{}
}

// start runs a program until it serves `ready`; what it prints is in a file of the directory.
func start(plan Plan, name, ready string, address *net.UDPAddr, binary string, arguments ...string) (*Process, error) {
	file, err := os.OpenFile(filepath.Join(plan.Directory, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	process := &Process{Name: name, Address: address, command: exec.Command(binary, arguments...), done: make(chan struct{})}
	process.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	process.command.Stdout, process.command.Stderr = file, file
	if err := process.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = process.command.Wait()
		close(process.done)
	}()
	for end := time.Now().Add(readyTimeout); !process.HasEnded() && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		response, err := http.Get(ready)
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return process, nil
		}
	}
	process.Kill()
	return nil, fmt.Errorf("%s does not become ready; see %s", name, file.Name())
}

// HasEnded reports whether the process has ended.
func (process *Process) HasEnded() bool {
	select {
	case <-process.done:
		return true
	default:
		return false
	}
}

// Terminate asks it to end.
func (process *Process) Terminate() { _ = process.command.Process.Signal(syscall.SIGTERM) }

// Wait waits for its end after Terminate. One that takes too long or ends badly is an error.
func (process *Process) Wait() error {
	select {
	case <-process.done:
		if !process.command.ProcessState.Success() {
			return fmt.Errorf("%s ended with %s", process.Name, process.command.ProcessState)
		}
		return nil
	case <-time.After(StopTimeout):
		process.Kill()
		return fmt.Errorf("%s had not ended %s after SIGTERM", process.Name, StopTimeout)
	}
}

// Kill ends it at once.
func (process *Process) Kill() {
	_ = process.command.Process.Kill()
	<-process.done
}

// Memory is what it has in RAM, and had at most since ResetPeak, in bytes.
func (process *Process) Memory() (resident, peak int, err error) {
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

// ResetPeak resets the peak of its memory (proc_pid_clear_refs(5)).
func (process *Process) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", process.command.Process.Pid), []byte("5"), 0)
}

// lastPort is the last one that freePort gave.
var lastPort = 10_000 + os.Getpid()%10_000

// freePort is a port of the loopback on which nothing listens with TCP or UDP, below those that the kernel gives to connections.
func freePort() int {
	for {
		lastPort++
		address := fmt.Sprintf("127.0.0.1:%d", lastPort)
		stream, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		packets, err := net.ListenPacket("udp", address)
		stream.Close()
		if err == nil {
			packets.Close()
			return lastPort
		}
	}
}
