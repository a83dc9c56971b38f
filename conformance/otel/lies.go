package main

// This file owns the third part: collectors that never respond or respond falsely, one after the other behind one Fairway, and
// then the real collector.

import (
	"fmt"
	"time"

	"fairway.dev/conformance/otel/backend"
	"fairway.dev/conformance/otel/fairway"
	"fairway.dev/conformance/otel/liar"
	"fairway.dev/conformance/otel/traffic"
	"fairway.dev/conformance/otel/wait"
)

const (
	// contactTimeout bounds how long Fairway may wait before it contacts a collector again, whatever the previous one said.
	contactTimeout = 2 * time.Minute
	// maxContacts bounds how often Fairway asks a collector that is wrong, in a second.
	maxContacts = 20
)

// lieResult is what a collector that is wrong did to Fairway.
type lieResult struct {
	Protocol string  `json:"protocol"`
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	Contacts int     `json:"contacts"`
	phase
	Sent    int `json:"sent"`
	Dropped int `json:"dropped"`
}

func lies(lab *laboratory, results *results) error {
	for _, protocol := range []string{"grpc", "http"} {
		if err := lab.runLies(protocol, results); err != nil {
			return fmt.Errorf("%s: %w", protocol, err)
		}
	}
	return nil
}

func (lab *laboratory) runLies(protocol string, results *results) error {
	lab.stopCollector()
	settings := traffic.Settings{Ratio: 1, IsParentBased: true, TrustsIncoming: true}
	process, clients, err := lab.startFairway(lab.tracingFlags(protocol, settings))
	if err != nil {
		return err
	}
	defer process.Kill()
	defer clients.Close()
	fmt.Printf("\nlies, OTLP over %s\n  %-34s %8s %8s %9s %7s %9s %9s %11s %9s %9s\n", protocol, "collector", "seconds", "contacts", "requests",
		"failed", "p99, ms", "past it", "memory", "confirmed", "dropped")
	all := append(liar.Lies(protocol), liar.Lie{Name: "accepts no connection", Start: unreachable})
	var first *lieResult
	known := 0
	for number, lie := range all {
		result, made, err := lab.runLie(protocol, number, lie, process, clients)
		if err != nil {
			return fmt.Errorf("%s: %w", lie.Name, err)
		}
		known += made
		if first == nil {
			first = &result
		}
		result.judge(first, results)
		results.Lies = append(results.Lies, result)
		result.print()
	}
	return lab.runTruth(protocol, known, process, clients, results)
}

// unreachable is a collector that the network hides.
func unreachable(address string) (*liar.Liar, error) {
	hole, err := backend.DigBlackHole("127.0.0.1", portOf(address))
	if err != nil {
		return nil, err
	}
	hidden := liar.Closing(hole.Close)
	// Connects without a response cannot be counted.
	hidden.Contacts.Store(1)
	return hidden, nil
}

// runLie keeps one collector under load, at least until Fairway has contacted it. It also returns the number of spans of the
// load.
func (lab *laboratory) runLie(protocol string, number int, lie liar.Lie, process *fairway.Process, clients *traffic.Clients) (lieResult, int, error) {
	address := lab.addresses.GRPC
	if protocol == "http" {
		address = lab.addresses.HTTP
	}
	result := lieResult{Protocol: protocol, Name: lie.Name, phase: phase{Name: "this collector"}}
	before, err := count(process)
	if err != nil {
		return result, 0, err
	}
	wrong, err := lie.Start(address)
	if err != nil {
		return result, 0, err
	}
	defer wrong.Close()
	memory := watchMemory(process)
	result.from = time.Now()
	perSecond := max(1, lab.chosen.loadPerSecond/2)
	control := traffic.StartControl(lab.controlAddress(), perSecond)
	load := clients.StartLoad(perSecond, steadyCase(fmt.Sprintf("lie-%s-%d", protocol, number)))
	wait.Until(contactTimeout, func() bool { return wrong.Contacts.Load() > 0 || process.HasEnded() })
	time.Sleep(lab.chosen.lie)
	timed, _ := load.Stop()
	past, _ := control.Stop()
	result.to = time.Now()
	result.measure(timed, past, memory.stop())
	result.Seconds, result.Contacts = result.to.Sub(result.from).Seconds(), int(wrong.Contacts.Load())
	after, err := count(process)
	result.Sent, result.Dropped = after.Sent-before.Sent, after.Dropped-before.Dropped
	made := len(timed)
	for _, one := range timed {
		made += len(lab.record.Of(one.Case.Path))
	}
	return result, made, err
}

func (result *lieResult) judge(first *lieResult, results *results) {
	name := fmt.Sprintf("%s over %s", result.Name, result.Protocol)
	if result.Contacts == 0 {
		results.add(name, fmt.Sprintf("Fairway did not ask the collector within %s", contactTimeout))
	}
	if float64(result.Contacts) > maxContacts*(1+result.Seconds) {
		results.add(name, fmt.Sprintf("Fairway asked the collector %d times in %.0f s", result.Contacts, result.Seconds))
	}
	if result.Failed > 0 {
		results.add(name, fmt.Sprintf("%d requests failed", result.Failed))
	}
	result.compare(&first.phase, name, results)
	if result.Sent < 0 || result.Dropped < 0 {
		results.add(name, "a count went down")
	}
}

func (result *lieResult) print() {
	fmt.Printf("  %-34s %8.1f %8d %9d %7d %9.2f %9.2f %11s %9d %9d\n", result.Name, result.Seconds, result.Contacts, result.Requests, result.Failed,
		result.P99, result.Control, mebibytes(result.Memory), result.Sent, result.Dropped)
}

// runTruth starts the real collector in the place of the others: spans arrive again, and every span of the whole run was counted.
func (lab *laboratory) runTruth(protocol string, known int, process *fairway.Process, clients *traffic.Clients, results *results) error {
	name := "after lies over " + protocol
	if err := lab.startCollector(); err != nil {
		return err
	}
	// The queue may be full until Fairway asks again, so requests go on until one of them has its span.
	began := time.Now()
	next := steadyCase("truth-" + protocol)
	number := 0
	hasArrived := wait.Until(contactTimeout, func() bool {
		known += 1 + lab.attemptsOf(clients.Send(next(number)))
		number++
		return lab.sink.Received().Traces > 0
	})
	if !hasArrived {
		results.add(name, fmt.Sprintf("no span arrived at the real collector within %s", contactTimeout))
	}
	took := time.Since(began)
	counts, err := lab.settle(process)
	if err != nil {
		return err
	}
	if more := counts.Sent + counts.Dropped - known; more < 0 || more > counts.connections {
		results.add(name, fmt.Sprintf("%d spans were sent or dropped, and requests and attempts had %d", counts.Sent+counts.Dropped, known))
	}
	fmt.Printf("  the real collector got spans after %.1f s; of %d spans of requests and attempts and %d connections, %d were confirmed and %d dropped %v\n",
		took.Seconds(), known, counts.connections, counts.Sent, counts.Dropped, counts.reasons)
	lab.stopCollector()
	// A collector that is away must not hold Fairway back when it ends, either.
	clients.Send(next(number))
	ended, err := process.Stop(stopTimeout)
	if err != nil {
		results.add(name, err.Error())
	}
	fmt.Printf("  Fairway ended %.1f s after SIGTERM, without a collector\n", ended.Seconds())
	return nil
}

// attemptsOf is how many attempts of a request an endpoint saw.
func (lab *laboratory) attemptsOf(outcome *traffic.Outcome) int {
	return len(lab.record.Of(outcome.Case.Path))
}
