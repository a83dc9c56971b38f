package main

// This file owns what all parts use: the endpoints, the sink, the collector, and Fairway in front of and behind them.

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"fairway.dev/conformance/otel/backend"
	"fairway.dev/conformance/otel/collector"
	"fairway.dev/conformance/otel/fairway"
	"fairway.dev/conformance/otel/sink"
	"fairway.dev/conformance/otel/traffic"
	"fairway.dev/conformance/otel/tree"
	"fairway.dev/conformance/otel/wait"
)

const (
	// service is --otlp-service-name.
	service = "fairway-under-test"
	// httpEndpoints is how many endpoints speak HTTP.
	httpEndpoints = 4
	// holes is how many hosts have a black hole: each worker looks at each of them once, and then again when it probes.
	holes = 60
	// quiet is how long nothing may change before a run counts as settled: longer than the delay of a batch.
	quiet = 7 * time.Second
	// settleTimeout bounds the wait for that.
	settleTimeout = 2 * time.Minute
	// stopTimeout bounds how long Fairway may take to end.
	stopTimeout = 45 * time.Second
)

// laboratory is everything around Fairway.
type laboratory struct {
	chosen    options
	directory string
	keepLogs  bool
	log       *os.File
	record    *backend.Record
	sink      *sink.Sink
	ports     fairway.Ports
	addresses collector.Addresses
	collector *collector.Process
}

func newLaboratory(chosen options) (*laboratory, error) {
	directory, err := os.MkdirTemp("", "fairway-otel-")
	if err != nil {
		return nil, err
	}
	lab := &laboratory{chosen: chosen, directory: directory, record: backend.NewRecord()}
	if lab.log, err = os.Create(filepath.Join(directory, "collector.log")); err != nil {
		return nil, err
	}
	if lab.sink, err = sink.Start(); err != nil {
		return nil, err
	}
	lab.addresses = collector.Addresses{GRPC: wait.FreeAddress(), HTTP: wait.FreeAddress(), Sink: lab.sink.URL}
	if err := lab.startEndpoints(); err != nil {
		return nil, err
	}
	return lab, nil
}

func (lab *laboratory) startEndpoints() error {
	for range httpEndpoints {
		port, err := backend.ServeHTTP(lab.record, backend.Target)
		if err != nil {
			return err
		}
		lab.ports.HTTP = append(lab.ports.HTTP, port)
	}
	var err error
	if lab.ports.GRPC, err = backend.ServeGRPC(lab.record); err != nil {
		return err
	}
	if lab.ports.Guard, err = backend.ServeHTTP(lab.record, backend.Guard); err != nil {
		return err
	}
	lab.ports.Dead, lab.ports.Gateway = portOf(wait.FreeAddress()), portOf(wait.FreeAddress())
	for number := range holes {
		hole, err := backend.DigBlackHole(fmt.Sprintf("127.0.1.%d", number+1), 0)
		if err != nil {
			return err
		}
		lab.ports.Holes = append(lab.ports.Holes, hole)
	}
	return nil
}

// controlAddress is an endpoint for requests that go past Fairway.
func (lab *laboratory) controlAddress() string { return fmt.Sprintf("127.0.0.1:%d", lab.ports.HTTP[0]) }

func portOf(address string) int {
	port, _ := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
	return port
}

func (lab *laboratory) close() {
	lab.stopCollector()
	for _, hole := range lab.ports.Holes {
		hole.Close()
	}
	lab.sink.Close()
	lab.log.Close()
	if !lab.keepLogs {
		_ = os.RemoveAll(lab.directory)
		return
	}
	fmt.Println("the logs of this run are in", lab.directory)
}

// startCollector starts the real collector, unless it runs.
func (lab *laboratory) startCollector() error {
	if lab.collector != nil {
		return nil
	}
	process, err := collector.Start(lab.addresses, io.Writer(lab.log))
	lab.collector = process
	return err
}

// stopCollector kills it, if it runs.
func (lab *laboratory) stopCollector() {
	if lab.collector != nil {
		lab.collector.Kill()
		lab.collector = nil
	}
}

// endpoint is the value of --otlp-endpoint.
func (lab *laboratory) endpoint(protocol string) string {
	if protocol == "http" {
		return "http://" + lab.addresses.HTTP
	}
	return "http://" + lab.addresses.GRPC
}

// tracingFlags are those of Fairway.
func (lab *laboratory) tracingFlags(protocol string, settings traffic.Settings) []string {
	propagation := "w3c"
	if settings.HasB3 {
		propagation = "w3c-b3"
	}
	return []string{
		"--otlp-endpoint", lab.endpoint(protocol), "--otlp-protocol", protocol, "--otlp-service-name", service,
		"--trace-sample-ratio", strconv.FormatFloat(settings.Ratio, 'f', -1, 64),
		"--trace-parent-based", strconv.FormatBool(settings.IsParentBased),
		"--trace-trust-incoming", strconv.FormatBool(settings.TrustsIncoming),
		"--trace-propagation", propagation,
	}
}

// startFairway starts a Fairway with its own clients, after all records were dropped.
func (lab *laboratory) startFairway(flags []string) (*fairway.Process, *traffic.Clients, error) {
	lab.sink.Forget()
	lab.record.Forget()
	process, err := fairway.Start(fairway.Options{Binary: lab.chosen.binary, Directory: lab.directory, Ports: lab.ports, Flags: flags})
	if err != nil {
		return nil, nil, err
	}
	clients, err := traffic.NewClients(process)
	if err != nil {
		process.Kill()
	}
	return process, clients, err
}

// counted are Fairway's counters of spans.
type counted struct {
	Sent             int `json:"sent"`
	Dropped          int `json:"dropped"`
	ExchangesDropped int `json:"exchanges_dropped"`
	queued           int
	connections      int
	reasons          map[string]int
}

const ofTraces = `signal="traces"`

func count(process *fairway.Process) (counted, error) {
	samples, err := process.Scrape()
	if err != nil {
		return counted{}, err
	}
	found := counted{
		Sent:             samples.Sum(fairway.ItemsSent, ofTraces),
		Dropped:          samples.Sum(fairway.ItemsDropped, ofTraces),
		ExchangesDropped: samples.Sum(fairway.ExchangesDropped),
		queued:           samples.Sum(fairway.QueueItems, ofTraces),
		connections:      samples.Sum(fairway.UpstreamConnected),
		reasons:          map[string]int{},
	}
	for labels, value := range samples[fairway.ItemsDropped] {
		if _, reason, _ := strings.Cut(labels, `reason="`); strings.Contains(labels, ofTraces) && value > 0 {
			reason, _, _ = strings.Cut(reason, `"`)
			found.reasons[reason] += int(value)
		}
	}
	return found, nil
}

// settle waits until Fairway has nothing left to send: its queue is empty, and its counts have not changed for longer than a batch
// may wait.
func (lab *laboratory) settle(process *fairway.Process) (counted, error) {
	var last counted
	var failed error
	since := time.Now()
	isSettled := wait.Until(settleTimeout, func() bool {
		now, err := count(process)
		if err != nil {
			failed = err
			return true
		}
		if now.Sent != last.Sent || now.Dropped != last.Dropped || now.queued != 0 {
			last, since = now, time.Now()
		}
		return time.Since(since) > quiet
	})
	if failed == nil && !isSettled {
		failed = fmt.Errorf("%d spans still wait after %s", last.queued, settleTimeout)
	}
	return last, failed
}

// exchanges joins the records of requests.
func (lab *laboratory) exchanges(process *fairway.Process, outcomes []*traffic.Outcome) []tree.Exchange {
	all := make([]tree.Exchange, 0, len(outcomes))
	for _, outcome := range outcomes {
		one := tree.Exchange{Outcome: outcome, Sights: lab.record.Of(outcome.Case.Path)}
		if line, isKnown := process.LineOf(outcome.Case.Path); isKnown {
			one.Line = &line
		}
		all = append(all, one)
	}
	return all
}
