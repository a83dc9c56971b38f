// Package audit writes a line of JSON for each transaction that a rule matched. Lines are bounded, and never have a body, a credential or
// a cookie.
package audit

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
)

// maxQueued is how many lines wait for a slow disk. More are dropped and counted: requests do not wait for their log.
const maxQueued = 4096

// Log writes entries in the order in which they come.
type Log struct {
	path    string
	queue   chan []byte
	done    chan struct{}
	log     *slog.Logger
	dropped atomic.Uint64
	written atomic.Uint64

	mutex sync.Mutex // over what follows
	file  io.WriteCloser
}

// Open begins to append to a file; `-` is the standard output.
func Open(path string, log *slog.Logger) (*Log, error) {
	l := &Log{path: path, queue: make(chan []byte, maxQueued), done: make(chan struct{}), log: log}
	if err := l.Reopen(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

type standardOutput struct{ io.Writer }

func (standardOutput) Close() error { return nil }

// Reopen opens the file again, after it was moved away.
func (l *Log) Reopen() error {
	var file io.WriteCloser = standardOutput{os.Stdout}
	if l.path != "-" {
		opened, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
		if err != nil {
			return err
		}
		file = opened
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file = file
	return nil
}

// Write queues an entry.
func (l *Log) Write(entry *Entry) {
	line, err := json.Marshal(entry)
	if err != nil {
		l.drop(err)
		return
	}
	select {
	case l.queue <- append(line, '\n'):
	default:
		if l.dropped.Add(1) == 1 {
			l.log.Warn("the audit log is slower than its transactions; lines are dropped and counted")
		}
	}
}

// Dropped is how many lines were lost, and Written how many were not.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }
func (l *Log) Written() uint64 { return l.written.Load() }

// Close writes queued lines. Nothing may be written afterwards.
func (l *Log) Close() {
	close(l.queue)
	<-l.done
}

func (l *Log) run() {
	defer close(l.done)
	for line := range l.queue {
		l.mutex.Lock()
		_, err := l.file.Write(line)
		l.mutex.Unlock()
		if err != nil {
			l.drop(err)
			continue
		}
		l.written.Add(1)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	_ = l.file.Close()
}

func (l *Log) drop(err error) {
	if l.dropped.Add(1) == 1 {
		l.log.Error("a line of the audit log was lost", "error", err)
	}
}
