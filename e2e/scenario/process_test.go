package scenario

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fairway/e2e/cluster"
	"fairway/e2e/metrics"
)

// process is a Fairway that the test has started itself, outside of any pod.
type process struct {
	command            *exec.Cmd
	http, https, admin string
}

// run starts the binary against the cluster's API, with more flags, and says how long it took to be ready; it ends with the test.
func (s *stage) run(more ...string) (*process, time.Duration) {
	s.Helper()
	return s.runProgram(testbed.Fairway, more...)
}

// runProgram does so with another binary.
func (s *stage) runProgram(fairway string, more ...string) (*process, time.Duration) {
	s.Helper()
	p := &process{http: s.freeAddress(), https: s.freeAddress(), admin: s.freeAddress()}
	p.command = exec.Command(fairway, append([]string{"run", "--kubernetes", "--no-status", "--access-log=off",
		"--http=" + p.http, "--https=" + p.https, "--admin=" + p.admin}, more...)...)
	var said bytes.Buffer
	p.command.Stderr = &said
	begun := time.Now()
	s.must(p.command.Start())
	s.Cleanup(func() {
		// There are no clients, so nothing to drain.
		_ = p.command.Process.Signal(syscall.SIGKILL)
		_ = p.command.Wait()
		if s.Failed() {
			s.Logf("the process said:\n%s", said.String())
		}
	})
	s.must(cluster.Eventually(s.Context(), time.Minute, "the process is ready", func(ctx context.Context) (bool, string, error) {
		return p.ready(ctx)
	}))
	return p, time.Since(begun)
}

func (p *process) ready(ctx context.Context) (bool, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/readyz", nil)
	if err != nil {
		return false, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, "", err
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK, response.Status, nil
}

// freeAddress is an unused address on loopback.
func (s *stage) freeAddress() string {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	defer listener.Close()
	return listener.Addr().String()
}

// memory is the resident memory, in MiB.
func (p *process) memory(s *stage) float64 {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	s.must(err)
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "VmRSS:" {
			kibibytes, err := strconv.ParseFloat(words[1], 64)
			s.must(err)
			return kibibytes / 1024
		}
	}
	s.Fatalf("the process has no memory:\n%s", text)
	return 0
}

// cpu is the CPU time that it has used, in seconds.
func (p *process) cpu(s *stage) float64 {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	s.must(err)
	// The name of the program, in brackets, may hold blanks; behind it utime and stime are the 12th and 13th word (proc(5)).
	_, rest, _ := cutLast(string(text), ")")
	words, ticks := strings.Fields(rest), 0.0
	if len(words) < 13 {
		s.Fatalf("the process has no CPU time: %s", text)
	}
	for _, word := range words[11:13] {
		count, err := strconv.ParseFloat(word, 64)
		s.must(err)
		ticks += count
	}
	return ticks / 100
}

// propagation is its histogram of the times of changes.
func (p *process) propagation(s *stage) metrics.Histogram {
	s.Helper()
	page, err := metrics.Read(s.Context(), p.admin)
	s.must(err)
	histogram := page.Histogram(propagation, nil)
	if len(histogram) == 0 {
		s.Fatalf("its metrics have no %s", propagation)
	}
	return histogram
}
