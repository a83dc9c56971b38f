package main

// This file owns what all groups use: the endpoints, the server, and how a group is run.

import (
	"fmt"
	"os"
	"strings"
	"time"

	"fairway.dev/conformance/http3/backend"
	"fairway.dev/conformance/http3/peer"
)

const (
	// deadline bounds everything that should take milliseconds.
	deadline = 10 * time.Second
	// maxGrowth is how much more memory a server may have after a group than before.
	maxGrowth = 64 << 20
	// crashTime is how long a crashing server may take to end.
	crashTime = 200 * time.Millisecond
)

// laboratory is everything around the server.
type laboratory struct {
	chosen                options
	directory             string
	plan                  peer.Plan
	backend               *backend.Server
	recorder, recorderH2C *backend.Recorder
	process               *peer.Process
	results               *results
	// witness is another client's connection, which must be served all the time.
	witness *link
}

func newLaboratory(chosen options) (*laboratory, error) {
	lab := &laboratory{chosen: chosen, results: newResults(chosen)}
	var err error
	if lab.directory, err = os.MkdirTemp("", "fairway-http3-"); err != nil {
		return nil, err
	}
	if lab.backend, err = backend.Start(); err != nil {
		return nil, err
	}
	if lab.recorder, err = backend.Record(false); err != nil {
		return nil, err
	}
	if lab.recorderH2C, err = backend.Record(true); err != nil {
		return nil, err
	}
	lab.plan = peer.Plan{Directory: lab.directory, Backend: lab.backend.Port, Recorder: lab.recorder.Port, RecorderH2C: lab.recorderH2C.Port}
	if lab.plan.Certificates, err = peer.NewCertificates(); err != nil {
		return nil, err
	}
	if err := lab.start(); err != nil {
		return nil, err
	}
	lab.results.Version = lab.process.Version
	return lab, lab.readSettings()
}

// start starts the server of all cases, the first time or again.
func (lab *laboratory) start() (err error) {
	lab.process, err = lab.startServer(lab.plan)
	return err
}

// startServer starts a server of the tested kind.
func (lab *laboratory) startServer(plan peer.Plan) (*peer.Process, error) {
	switch lab.chosen.peer {
	case "quic-go":
		return peer.StartQUICGo(plan)
	case "fairway":
		if lab.chosen.fairway == "" {
			return nil, fmt.Errorf("no program to test; use -fairway or FAIRWAY")
		}
		return peer.StartFairway(lab.chosen.fairway, plan, lab.chosen.workers)
	default:
		return nil, fmt.Errorf("unknown peer %q", lab.chosen.peer)
	}
}

func (lab *laboratory) close() {
	if !lab.process.HasEnded() {
		lab.process.Kill()
	}
	lab.backend.Close()
	lab.recorder.Close()
	lab.recorderH2C.Close()
	if lab.results.Unexpected == 0 && !lab.chosen.keepsLogs {
		_ = os.RemoveAll(lab.directory)
		return
	}
	fmt.Println("the logs of this run are in", lab.directory)
}

// skips reports whether a case was not selected.
func (lab *laboratory) skips(name string) bool { return !strings.Contains(name, lab.chosen.match) }

// measure runs a group, and looks at the memory of the server before and after it.
func (lab *laboratory) measure(name string, run func(*laboratory) error) error {
	before, _, err := lab.process.Memory()
	if err != nil {
		return err
	}
	began, unexpected, first, process := time.Now(), lab.results.Unexpected, len(lab.results.Cases), lab.process
	if err := run(lab); err != nil {
		return err
	}
	after, _, err := lab.process.Memory()
	if err != nil {
		return err
	}
	if process == lab.process && after > before+maxGrowth && name != "floods" {
		lab.results.add(result{Group: name, Name: "memory", Problems: []string{fmt.Sprintf("%d MiB before, %d MiB after", before>>20, after>>20)}})
	}
	found := group{Name: name, Cases: len(lab.results.Cases) - first, Unexpected: lab.results.Unexpected - unexpected,
		Seconds: time.Since(began).Seconds(), MemoryBefore: before, MemoryAfter: after}
	lab.results.Groups = append(lab.results.Groups, found)
	fmt.Printf("%s: %d cases, %d unexpected, %.0f s; memory %d MiB before, %d MiB after\n", name, found.Cases, found.Unexpected, found.Seconds,
		before>>20, after>>20)
	return nil
}

// add notes a case, after a look at whether the server still runs.
func (lab *laboratory) add(one result, isSuspect bool) error {
	for end := time.Now().Add(crashTime); isSuspect && !lab.process.HasEnded() && time.Now().Before(end); {
		time.Sleep(crashTime / 20)
	}
	var err error
	if lab.process.HasEnded() {
		one.Problems = append(one.Problems, "the server has crashed")
		lab.witness = nil
		err = lab.start()
	}
	lab.results.add(one)
	if lab.chosen.verbose {
		fmt.Printf("%s: %s: %s in %.3f s\n", one.Group, one.Name, one.Got, one.Seconds)
	}
	return err
}

// until waits until a condition holds, and says whether it does.
func until(limit time.Duration, holds func() bool) bool {
	for end := time.Now().Add(limit); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
