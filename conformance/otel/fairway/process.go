// Package fairway owns Fairway as a process: what it serves, how it is started and ended, and what it says about itself.
package fairway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fairway.dev/conformance/otel/wait"
)

const (
	// readyTimeout bounds how long Fairway may take to serve.
	readyTimeout = time.Minute
	// scrapeTimeout bounds a request to the admin server.
	scrapeTimeout = 10 * time.Second
)

// Line is what a test looks at of a line of the access log.
type Line struct {
	Request struct {
		Target string
		ID     string
	}
	Status   int
	Flag     string
	Upstream *struct {
		Attempts  int
		Hedged    bool
		Endpoint  string
		Status    int
		ConnectUS int `json:"connect_us"`
	}
}

// Process is a Fairway that runs.
type Process struct {
	// HTTP, HTTPS, Gateway and Admin are where it listens.
	HTTP, HTTPS, Gateway, Admin string

	command *exec.Cmd
	done    chan struct{}
	mutex   sync.Mutex
	lines   map[string]Line
	dropped int
}

// Options are how Fairway is started.
type Options struct {
	// Binary is the program.
	Binary string
	// Directory is where its manifests and its log are written.
	Directory string
	// Ports are where the endpoints listen.
	Ports Ports
	// Flags are those of the test, beyond those that every run has.
	Flags []string
}

// Start starts Fairway and waits until it serves.
func Start(options Options) (*Process, error) {
	served := filepath.Join(options.Directory, "manifests")
	if err := os.MkdirAll(served, 0o755); err != nil {
		return nil, err
	}
	if err := WriteManifests(served, options.Ports); err != nil {
		return nil, err
	}
	process := &Process{
		HTTP:    wait.FreeAddress(),
		HTTPS:   wait.FreeAddress(),
		Admin:   wait.FreeAddress(),
		Gateway: net.JoinHostPort("127.0.0.1", strconv.Itoa(options.Ports.Gateway)),
		done:    make(chan struct{}),
		lines:   map[string]Line{},
	}
	flags := []string{"run", "--manifests", served, "--http", process.HTTP, "--https", process.HTTPS, "--admin", process.Admin,
		"--gateway-address", "127.0.0.1", "--workers", "2", "--access-log", "json", "--drain-delay", "0"}
	process.command = exec.Command(options.Binary, append(flags, options.Flags...)...)
	process.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.OpenFile(filepath.Join(options.Directory, "fairway.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	process.command.Stderr = log
	output, err := process.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.command.Start(); err != nil {
		return nil, err
	}
	go process.follow(output, log)
	if err := process.awaitReady(); err != nil {
		process.Kill()
		return nil, fmt.Errorf("fairway: %w; see %s", err, log.Name())
	}
	return process, nil
}

// follow reads the access log to its end.
func (process *Process) follow(output io.Reader, log io.Closer) {
	reader := bufio.NewReaderSize(output, 1<<20)
	for {
		text, err := reader.ReadBytes('\n')
		if err != nil {
			break
		}
		var line Line
		process.mutex.Lock()
		if json.Unmarshal(text, &line) != nil || line.Request.Target == "" {
			process.dropped++
		} else {
			path, _, _ := strings.Cut(line.Request.Target, "?")
			process.lines[path] = line
		}
		process.mutex.Unlock()
	}
	_ = process.command.Wait()
	log.Close()
	close(process.done)
}

func (process *Process) awaitReady() error {
	for _, address := range []string{process.Admin, process.HTTP, process.Gateway} {
		if err := wait.Listening(address, process.done, readyTimeout); err != nil {
			return err
		}
	}
	isReady := wait.Until(readyTimeout, func() bool {
		response, err := http.Get("http://" + process.Admin + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	if !isReady {
		return fmt.Errorf("/readyz did not return 200 within %s", readyTimeout)
	}
	return nil
}

// LineOf is the line of the access log for a path.
func (process *Process) LineOf(path string) (Line, bool) {
	process.mutex.Lock()
	defer process.mutex.Unlock()
	line, isKnown := process.lines[path]
	return line, isKnown
}

// Unreadable counts lines of the access log that are no JSON of a request.
func (process *Process) Unreadable() int {
	process.mutex.Lock()
	defer process.mutex.Unlock()
	return process.dropped
}

// ForgetLines drops the lines of the access log that were read so far.
func (process *Process) ForgetLines() {
	process.mutex.Lock()
	defer process.mutex.Unlock()
	process.lines = map[string]Line{}
}

// Resident is the memory that the process has in RAM, in bytes.
func (process *Process) Resident() (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kibibytes, err := strconv.Atoi(fields[1])
			return kibibytes << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmRSS", process.command.Process.Pid)
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

// Stop asks the process to end, and says how long that took. A process that takes longer than the limit is killed, which is an error.
func (process *Process) Stop(limit time.Duration) (time.Duration, error) {
	began := time.Now()
	if process.HasEnded() {
		return 0, fmt.Errorf("fairway had ended before: %s", process.command.ProcessState)
	}
	_ = process.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-process.done:
		took := time.Since(began)
		if !process.command.ProcessState.Success() {
			return took, fmt.Errorf("fairway ended with %s", process.command.ProcessState)
		}
		return took, nil
	case <-time.After(limit):
		process.Kill()
		return time.Since(began), fmt.Errorf("fairway had not ended %s after SIGTERM", limit)
	}
}

// Kill ends the process at once.
func (process *Process) Kill() {
	_ = process.command.Process.Kill()
	<-process.done
}
