package main

// This file owns the second part: a collector that is killed under a steady load, and what that costs.

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"fairway.dev/conformance/otel/fairway"
	"fairway.dev/conformance/otel/sink"
	"fairway.dev/conformance/otel/traffic"
)

const (
	// warmUp is how long the load runs before anything is measured.
	warmUp = 5 * time.Second
	// memoryInterval is how often the memory of Fairway is read.
	memoryInterval = 200 * time.Millisecond
	// maxBatch is how many spans a message has at most: what a killed collector may have had and not confirmed.
	maxBatch = 512
	// moreLatency and moreMemory are what a collector that is away or wrong may add. Twice the latency is allowed, too: the machine is
	// shared with the load.
	moreLatency = 5 * time.Millisecond
	moreMemory  = 16 << 20
)

// phase is the outcome of a part of the load.
type phase struct {
	Name     string  `json:"name,omitempty"`
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	// Control is the p99 of requests that went past Fairway.
	Control  float64 `json:"control_p99_ms"`
	Memory   int     `json:"memory_bytes"`
	from, to time.Time
}

// lossResult is the cost of an outage.
type lossResult struct {
	Protocol string         `json:"protocol"`
	Outage   float64        `json:"outage_seconds"`
	Phases   []phase        `json:"phases"`
	Made     int            `json:"spans_made"`
	Connects int            `json:"of_these_connects"`
	Counted  counted        `json:"counted"`
	Reasons  map[string]int `json:"dropped_by_reason"`
	Received int            `json:"received"`
	Repeated int            `json:"received_twice"`
	Lost     int            `json:"lost"`
}

func loss(lab *laboratory, results *results) error {
	for _, protocol := range []string{"grpc", "http"} {
		if err := lab.runLoss(protocol, results); err != nil {
			return fmt.Errorf("%s: %w", protocol, err)
		}
	}
	return nil
}

func (lab *laboratory) runLoss(protocol string, results *results) error {
	if err := lab.startCollector(); err != nil {
		return err
	}
	settings := traffic.Settings{Ratio: 1, IsParentBased: true, TrustsIncoming: true}
	process, clients, err := lab.startFairway(lab.tracingFlags(protocol, settings))
	if err != nil {
		return err
	}
	defer process.Kill()
	defer clients.Close()
	memory := watchMemory(process)
	load := clients.StartLoad(lab.chosen.loadPerSecond, steadyCase("loss-"+protocol))
	control := traffic.StartControl(lab.controlAddress(), lab.chosen.loadPerSecond)
	time.Sleep(warmUp)
	began := time.Now()
	time.Sleep(lab.chosen.steady)
	killed := time.Now()
	lab.stopCollector()
	time.Sleep(lab.chosen.outage)
	back := time.Now()
	if err := lab.startCollector(); err != nil {
		return err
	}
	time.Sleep(lab.chosen.steady)
	timed, refused := load.Stop()
	past, _ := control.Stop()
	ended := time.Now()
	exported, err := lab.settle(process)
	if err != nil {
		return err
	}
	result := lossResult{Protocol: protocol, Outage: back.Sub(killed).Seconds(), Counted: exported, Reasons: exported.reasons}
	readings := memory.stop()
	for _, part := range []phase{
		{Name: "before", from: began, to: killed}, {Name: "killed", from: killed, to: back}, {Name: "back", from: back, to: ended},
	} {
		part.measure(timed, past, readings)
		result.Phases = append(result.Phases, part)
	}
	name := "loss over " + protocol
	if refused > 0 {
		results.add(name, fmt.Sprintf("%d requests could not be sent in time", refused))
	}
	lab.account(&result, timed)
	result.judge(name, results)
	if _, err := process.Stop(stopTimeout); err != nil {
		results.add(name, err.Error())
	}
	results.Loss = append(results.Loss, result)
	result.print()
	return nil
}

// steadyCase makes the requests of a load: GET over HTTP/1.1, without the context of a trace.
func steadyCase(run string) func(int) *traffic.Case {
	kind := &traffic.Kind{Name: "HTTP/1.1", Entry: traffic.HTTP1, Attempts: 1}
	return func(number int) *traffic.Case {
		return &traffic.Case{Path: fmt.Sprintf("/%s/%d", run, number), Kind: kind, Host: fairway.PlainHost, Context: "none",
			Carried: traffic.Carried{Header: http.Header{}}}
	}
}

// account compares the spans that the exchanges had with those that were sent, dropped and received.
func (lab *laboratory) account(result *lossResult, timed []traffic.Timed) {
	arrived := map[string]bool{}
	paths := map[string]bool{}
	for _, span := range lab.sink.Spans() {
		arrived[span.ID] = true
		if path := span.Text("url.path"); path != "" && isServer(span) {
			paths[path] = true
		}
	}
	known := 0
	for _, one := range timed {
		// The server span, and a client span for each attempt that an endpoint saw.
		known++
		if !paths[one.Case.Path] {
			result.Lost++
		}
		for _, sight := range lab.record.Of(one.Case.Path) {
			known++
			if parent := strings.Join(sight.Header["Traceparent"], ","); len(parent) < 52 || !arrived[parent[36:52]] {
				result.Lost++
			}
		}
	}
	result.Made = result.Counted.Sent + result.Counted.Dropped
	result.Connects = result.Made - known
	result.Received, result.Repeated = len(arrived), lab.sink.Repeated()
}

func isServer(span *sink.Span) bool { return span.Kind.String() == "Server" }

func (result *lossResult) judge(name string, results *results) {
	counted := result.Counted
	if result.Connects < 0 || result.Connects > counted.connections {
		results.add(name, fmt.Sprintf("Fairway counts %d spans sent or dropped; that is %d more than requests and attempts, and %d connections were opened",
			result.Made, result.Connects, counted.connections))
	}
	if counted.ExchangesDropped > 0 {
		results.add(name, fmt.Sprintf("%d exchanges were dropped before they became spans", counted.ExchangesDropped))
	}
	if more := result.Received - counted.Sent; more < 0 || more > maxBatch {
		results.add(name, fmt.Sprintf("%d spans were sent, and %d arrived", counted.Sent, result.Received))
	}
	// Spans counted as dropped that are not known to be lost belong to connects, or arrived without a confirmation.
	if more := counted.Dropped - result.Lost; more < 0 || more > result.Connects+maxBatch {
		results.add(name, fmt.Sprintf("%d spans were dropped, and %d are lost", counted.Dropped, result.Lost))
	}
	if counted.Dropped == 0 && result.Outage > 30 {
		results.add(name, "no span was dropped while the collector was away")
	}
	before := result.Phases[0]
	for _, part := range result.Phases {
		if part.Failed > 0 {
			results.add(name, fmt.Sprintf("%s: %d requests failed", part.Name, part.Failed))
		}
		part.compare(&before, name, results)
	}
}

func (result *lossResult) print() {
	fmt.Printf("\nloss, OTLP over %s: the collector is killed for %.0f s\n", result.Protocol, result.Outage)
	fmt.Printf("  %-10s %9s %9s %9s %9s %9s %11s\n", "", "requests", "failed", "p50, ms", "p99, ms", "past it", "memory")
	for _, part := range result.Phases {
		fmt.Printf("  %-10s %9d %9d %9.2f %9.2f %9.2f %11s\n", part.Name, part.Requests, part.Failed, part.P50, part.P99, part.Control, mebibytes(part.Memory))
	}
	fmt.Printf("  %d spans made (%d of them connects): %d sent, %d dropped %v; %d received, %d of them twice; %d requests and attempts without their span\n",
		result.Made, result.Connects, result.Counted.Sent, result.Counted.Dropped, result.Reasons, result.Received, result.Repeated, result.Lost)
}

// compare checks a phase against an earlier one. If the machine slowed requests past Fairway down, it may have slowed these
// down to the same degree.
func (part *phase) compare(before *phase, name string, results *results) {
	noise := 1.0
	if before.Control > 0 {
		noise = max(1, part.Control/before.Control)
	}
	if limit := noise * max(2*before.P99, before.P99+milliseconds(moreLatency)); part.P99 > limit {
		results.add(name, fmt.Sprintf("%s: the p99 is %.2f ms, and was %.2f ms before; past Fairway %.2f ms, and %.2f ms before", part.Name, part.P99,
			before.P99, part.Control, before.Control))
	}
	if part.Memory > before.Memory+moreMemory {
		results.add(name, fmt.Sprintf("%s: the memory is %s, and was %s before", part.Name, mebibytes(part.Memory), mebibytes(before.Memory)))
	}
}

// within are the requests that were due in a phase.
func (part *phase) within(timed []traffic.Timed) []traffic.Timed {
	var found []traffic.Timed
	for _, one := range timed {
		if !one.Due.Before(part.from) && one.Due.Before(part.to) {
			found = append(found, one)
		}
	}
	return found
}

// measure fills a phase with what happened in it: requests that were due in it, through Fairway and past it, and the most memory.
func (part *phase) measure(timed, past []traffic.Timed, readings []reading) {
	within := part.within(timed)
	for _, one := range within {
		if one.Err != nil || one.Status != http.StatusOK {
			part.Failed++
		}
	}
	part.Requests = len(within)
	part.Control = milliseconds(traffic.Quantile(part.within(past), 0.99))
	part.P50, part.P99 = milliseconds(traffic.Quantile(within, 0.5)), milliseconds(traffic.Quantile(within, 0.99))
	for _, one := range readings {
		if !one.at.Before(part.from) && one.at.Before(part.to) {
			part.Memory = max(part.Memory, one.resident)
		}
	}
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration.Microseconds()) / 1000
}

func mebibytes(bytes int) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// reading is the memory of Fairway at a moment.
type reading struct {
	at       time.Time
	resident int
}

// memoryWatch reads the memory of a process until it is stopped.
type memoryWatch struct {
	ended    sync.WaitGroup
	done     chan struct{}
	readings []reading
}

func watchMemory(process *fairway.Process) *memoryWatch {
	watch := &memoryWatch{done: make(chan struct{})}
	watch.ended.Go(func() {
		ticks := time.NewTicker(memoryInterval)
		defer ticks.Stop()
		for {
			select {
			case <-watch.done:
				return
			case <-ticks.C:
				if resident, err := process.Resident(); err == nil {
					watch.readings = append(watch.readings, reading{time.Now(), resident})
				}
			}
		}
	})
	return watch
}

func (watch *memoryWatch) stop() []reading {
	close(watch.done)
	watch.ended.Wait()
	return watch.readings
}
