package main

// This file owns the fourth part: metrics and logs over OTLP.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairway.dev/conformance/otel/fairway"
	"fairway.dev/conformance/otel/traffic"
	"fairway.dev/conformance/otel/wait"
)

const (
	// signalRequests is how many requests the part sends.
	signalRequests = 300
	// signalTimeout bounds how long metrics and logs may take to arrive.
	signalTimeout = time.Minute
	// compared is the metric whose value is compared with /metrics.
	compared = "fairway_upstream_requests_total"
)

// signalResult is what arrived over a protocol.
type signalResult struct {
	Protocol string   `json:"protocol"`
	Requests int      `json:"requests"`
	Logs     int      `json:"logs"`
	WithSpan int      `json:"logs_with_their_span"`
	Metrics  int      `json:"metrics"`
	Missing  []string `json:"metrics_that_only_a_scrape_has"`
}

func signals(lab *laboratory, results *results) error {
	for _, protocol := range []string{"grpc", "http"} {
		if err := lab.runSignals(protocol, results); err != nil {
			return fmt.Errorf("%s: %w", protocol, err)
		}
	}
	return nil
}

func (lab *laboratory) runSignals(protocol string, results *results) error {
	if err := lab.startCollector(); err != nil {
		return err
	}
	flags := lab.tracingFlags(protocol, traffic.Settings{Ratio: 0.5, IsParentBased: true, TrustsIncoming: true})
	process, clients, err := lab.startFairway(append(flags, "--otlp-metrics-interval", "1", "--otlp-logs"))
	if err != nil {
		return err
	}
	defer process.Kill()
	defer clients.Close()
	name, next := "signals over "+protocol, steadyCase("signals-"+protocol)
	for number := range signalRequests {
		if outcome := clients.Send(next(number)); outcome.Err != nil {
			results.add(name, outcome.Err.Error())
		}
	}
	if !wait.Until(signalTimeout, func() bool { return lab.sink.Received().Logs >= signalRequests }) {
		results.add(name, fmt.Sprintf("%d log records arrived after %d requests", lab.sink.Received().Logs, signalRequests))
	}
	isEqual := wait.Until(signalTimeout, func() bool { return int(lab.sink.Metrics()[compared].Sum) == signalRequests })
	if !isEqual {
		results.add(name, fmt.Sprintf("%s is %g and not %d", compared, lab.sink.Metrics()[compared].Sum, signalRequests))
	}
	if _, err := lab.settle(process); err != nil {
		return err
	}
	result := signalResult{Protocol: protocol, Requests: signalRequests}
	if err := lab.compareMetrics(&result, process); err != nil {
		return err
	}
	if len(result.Missing) > 0 {
		results.add(name, fmt.Sprintf("only a scrape has %s", strings.Join(result.Missing, ", ")))
	}
	lab.compareLogs(&result, name, next, results)
	if _, err := process.Stop(stopTimeout); err != nil {
		results.add(name, err.Error())
	}
	results.Signals = append(results.Signals, result)
	fmt.Printf("\nsignals, OTLP over %s: %d requests, %d log records (%d with the span of their request), %d metrics\n", protocol, result.Requests,
		result.Logs, result.WithSpan, result.Metrics)
	return nil
}

// compareMetrics looks for the metrics of a scrape among those that arrived.
func (lab *laboratory) compareMetrics(result *signalResult, process *fairway.Process) error {
	samples, err := process.Scrape()
	if err != nil {
		return err
	}
	arrived := lab.sink.Metrics()
	result.Metrics = len(arrived)
	result.Missing = []string{}
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if trimmed, isPart := strings.CutSuffix(name, suffix); isPart && !samples.Has(trimmed) {
				base = trimmed
			}
		}
		if _, has := arrived[name]; has {
			continue
		}
		if _, has := arrived[base]; !has && !slices.Contains(result.Missing, base) {
			result.Missing = append(result.Missing, base)
		}
	}
	return nil
}

// compareLogs looks for the record of each request, and for its span where the request was sampled.
func (lab *laboratory) compareLogs(result *signalResult, name string, next func(int) *traffic.Case, results *results) {
	spans := map[string]string{}
	for _, span := range lab.sink.Spans() {
		if isServer(span) {
			spans[span.Text("url.path")] = span.Trace
		}
	}
	records := map[string]int{}
	logs := lab.sink.Logs()
	result.Logs = len(logs)
	for _, record := range logs {
		path := pathOf(record.Body, record.Attributes)
		records[path]++
		if trace := spans[path]; trace != "" && record.Trace == trace {
			result.WithSpan++
		}
	}
	missing := 0
	for number := range signalRequests {
		if records[next(number).Path] != 1 {
			missing++
		}
	}
	if missing > 0 {
		results.add(name, fmt.Sprintf("%d of %d requests do not have exactly one log record", missing, signalRequests))
	}
	if result.WithSpan != len(spans) {
		results.add(name, fmt.Sprintf("%d requests are sampled, and %d log records have their trace", len(spans), result.WithSpan))
	}
}

// pathOf finds the path of the request that a log record is about.
func pathOf(body string, attributes map[string]any) string {
	if path, isText := attributes["url.path"].(string); isText {
		return path
	}
	_, rest, _ := strings.Cut(body, "/signals-")
	end := strings.IndexAny(rest, " \"?")
	if rest == "" || end < 0 {
		return ""
	}
	return "/signals-" + rest[:end]
}
