// Command backend is the server behind Fairway in the scenarios: it responds with its pod's name and the request's id, reports
// every POST and gRPC call to the ledger of the test before it responds, and exits at once on SIGTERM, as simple backends do.
// It never retries, never drains and never delays unless asked to. TCP lines have their own port.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	// As process 1 of its container it would otherwise not feel the signal at all.
	go func() {
		<-end
		os.Exit(0)
	}()
	server, err := fromEnvironment()
	if err != nil {
		log.Fatalf("backend: %v", err)
	}
	if server.lines != "" {
		listener, err := net.Listen("tcp", server.lines)
		if err != nil {
			log.Fatalf("backend: %v", err)
		}
		go func() { log.Fatalf("backend: %v", server.answerLines(listener)) }()
	}
	log.Printf("backend: %s listens on %s", server.pod, server.listen)
	both := http.Server{Addr: server.listen, Handler: either(server), Protocols: new(http.Protocols)}
	both.Protocols.SetHTTP1(true)
	both.Protocols.SetUnencryptedHTTP2(true)
	log.Fatalf("backend: %v", both.ListenAndServe())
}

// answering is the server as configured by its environment.
type answering struct {
	pod    string
	listen string
	lines  string
	filler string
	notes  *notes
}

// fromEnvironment reads POD (default: the host's name, which is the pod's), LISTEN, LINES (address for TCP lines; none by
// default), FILLER (bytes after the line) and LEDGER (address of the test's ledger; without it POSTs are served and not
// reported).
func fromEnvironment() (*answering, error) {
	pod := os.Getenv("POD")
	if pod == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("read the host's name for want of POD: %w", err)
		}
		pod = name
	}
	filler := 900
	if text := os.Getenv("FILLER"); text != "" {
		bytes, err := strconv.Atoi(text)
		if err != nil || bytes < 0 {
			return nil, fmt.Errorf("FILLER %q is no number of bytes", text)
		}
		filler = bytes
	}
	listen := os.Getenv("LISTEN")
	if listen == "" {
		listen = ":8080"
	}
	return &answering{
		pod:    pod,
		listen: listen,
		lines:  os.Getenv("LINES"),
		filler: strings.Repeat(".", filler),
		notes:  &notes{address: os.Getenv("LEDGER"), pod: pod},
	}, nil
}

// ServeHTTP responds with `pod=NAME id=ID method=METHOD`, a line feed and the filler. `?delay=50ms` waits before that.
func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	id := query.Get("id")
	if r.Method == http.MethodPost {
		// Reported before anything else: a pod that dies after this counts as having done the work.
		if err := a.notes.write(id); err != nil {
			log.Printf("backend: note POST %s: %v", id, err)
		}
	}
	if text := query.Get("delay"); text != "" {
		delay, err := time.ParseDuration(text)
		if err != nil {
			http.Error(w, "delay is no duration", http.StatusBadRequest)
			return
		}
		time.Sleep(delay)
	}
	body := fmt.Sprintf("pod=%s id=%s method=%s\n%s", a.pod, id, r.Method, a.filler)
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write([]byte(body)); err != nil {
		log.Printf("backend: answer %s: %v", id, err)
	}
}
