package node

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Condition is the state of a component.
type Condition string

// A component runs, was stopped on purpose, or ended by itself.
const (
	Running Condition = "running"
	Stopped Condition = "stopped"
	Ended   Condition = "ended"
)

// Status is one component as it is shown.
type Status struct {
	Name      string    `json:"name"`
	Condition Condition `json:"condition"`
	// PID is the number in the testbed's own process namespace.
	PID   int       `json:"pid,omitempty"`
	Since time.Time `json:"since"`
	// Why is how it ended.
	Why string `json:"why,omitempty"`
}

// supervisor starts and stops the components. It never restarts one by itself: a test that kills one wants it dead.
type supervisor struct {
	commands    map[string][]string
	environment []string
	logs        string

	mutex      sync.Mutex
	components map[string]*component
}

type component struct {
	status Status
	ended  chan struct{}
}

func (s *supervisor) running(name string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	known := s.components[name]
	return known != nil && known.status.Condition == Running
}

// start starts the component unless it runs.
func (s *supervisor) start(name string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.components[name]; known != nil && known.status.Condition == Running {
		return nil
	}
	command, known := s.commands[name]
	if !known {
		return unknown(name)
	}
	output, err := os.OpenFile(filepath.Join(s.logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer output.Close()
	process := exec.Command(command[0], command[1:]...)
	process.Env = s.environment
	process.Stdout, process.Stderr = output, output
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	started := &component{
		status: Status{Name: name, Condition: Running, PID: process.Process.Pid, Since: time.Now()},
		ended:  make(chan struct{}),
	}
	s.components[name] = started
	go s.await(started, process)
	return nil
}

func unknown(name string) error {
	return fmt.Errorf("there is no component %q; there are %s", name, strings.Join(Components, ", "))
}

func (s *supervisor) await(started *component, process *exec.Cmd) {
	err := process.Wait()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if started.status.Condition == Running {
		started.status.Condition = Ended
		log.Printf("%s ended: %v", started.status.Name, err)
	}
	started.status.PID = 0
	started.status.Since = time.Now()
	started.status.Why = process.ProcessState.String()
	close(started.ended)
}

// grace bounds how long a component may take to stop. The API server closes its listener at once, but would wait a minute for
// clients with watches.
const grace = 3 * time.Second

// stop ends the component, at once or with time to finish.
func (s *supervisor) stop(name string, signal syscall.Signal) error {
	s.mutex.Lock()
	if _, named := s.commands[name]; !named {
		s.mutex.Unlock()
		return unknown(name)
	}
	known := s.components[name]
	if known == nil || known.status.Condition != Running {
		s.mutex.Unlock()
		return nil
	}
	known.status.Condition = Stopped
	pid := known.status.PID
	s.mutex.Unlock()
	if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	select {
	case <-known.ended:
		return nil
	case <-time.After(grace):
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	<-known.ended
	return nil
}

// statuses are the components in the order they are shown, those never started left out.
func (s *supervisor) statuses() []Status {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var statuses []Status
	for _, name := range Components {
		if known := s.components[name]; known != nil {
			statuses = append(statuses, known.status)
		}
	}
	return statuses
}
