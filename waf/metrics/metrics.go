// Package metrics counts what the WAF does, in the text format of Prometheus. The number of series is bounded.
package metrics

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxRules is the number of rules with their own series. The matches of others are counted as `other`.
const maxRules = 512

var bounds = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1}

// Result is how a transaction ended.
type Result string

const (
	Passed      Result = "passed"
	Interrupted Result = "interrupted"
	Failed      Result = "failed"
)

// Metrics are safe for concurrent use.
type Metrics struct {
	// Cached and Buffered are called when metrics are read, as are the lines of the audit log.
	Cached, Buffered           func() int64
	AuditWritten, AuditDropped func() uint64
	InFlight                   atomic.Int64
	Rejected                   atomic.Uint64

	mutex         sync.Mutex
	transactions  map[Result]uint64
	interruptions map[string]uint64
	rules         map[int]uint64
	otherRules    uint64
	steps         map[string]*histogram
	compiled      histogram
	invalid       uint64
}

type histogram struct {
	buckets []uint64
	count   uint64
	sum     float64
}

func (h *histogram) observe(seconds float64) {
	if h.buckets == nil {
		h.buckets = make([]uint64, len(bounds))
	}
	h.count++
	h.sum += seconds
	if at, _ := slices.BinarySearch(bounds, seconds); at < len(bounds) {
		h.buckets[at]++
	}
}

// New makes metrics that are all zero.
func New() *Metrics {
	return &Metrics{
		Cached: func() int64 { return 0 }, Buffered: func() int64 { return 0 },
		AuditWritten: func() uint64 { return 0 }, AuditDropped: func() uint64 { return 0 },
		transactions:  map[Result]uint64{Passed: 0, Interrupted: 0, Failed: 0},
		interruptions: map[string]uint64{}, rules: map[int]uint64{}, steps: map[string]*histogram{},
	}
}

// Finished counts a transaction with the rules that it matched.
func (m *Metrics) Finished(result Result, phase string, rules []int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.transactions[result]++
	if result == Interrupted {
		m.interruptions[phase]++
	}
	for _, rule := range rules {
		if _, known := m.rules[rule]; known || len(m.rules) < maxRules {
			m.rules[rule]++
		} else {
			m.otherRules++
		}
	}
}

// Step counts the time that a phase took.
func (m *Metrics) Step(phase string, took time.Duration) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	h := m.steps[phase]
	if h == nil {
		h = &histogram{}
		m.steps[phase] = h
	}
	h.observe(took.Seconds())
}

// Compiled counts a compilation.
func (m *Metrics) Compiled(took time.Duration, err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.compiled.observe(took.Seconds())
	if err != nil {
		m.invalid++
	}
}

// Write writes all series.
func (m *Metrics) Write(w io.Writer) {
	var out strings.Builder
	m.mutex.Lock()
	family(&out, "transactions_total", "counter", "Transactions by how they ended.")
	for _, result := range []Result{Passed, Interrupted, Failed} {
		fmt.Fprintf(&out, "fairway_waf_transactions_total{result=%q} %d\n", result, m.transactions[result])
	}
	family(&out, "interruptions_total", "counter", "Requests that rules interrupted, by phase.")
	for _, phase := range sorted(m.interruptions) {
		fmt.Fprintf(&out, "fairway_waf_interruptions_total{phase=%q} %d\n", phase, m.interruptions[phase])
	}
	family(&out, "rule_matches_total", "counter", "Matches of rules that log, by rule; those of rules beyond the first 512 as other.")
	for _, rule := range sorted(m.rules) {
		fmt.Fprintf(&out, "fairway_waf_rule_matches_total{rule=\"%d\"} %d\n", rule, m.rules[rule])
	}
	fmt.Fprintf(&out, "fairway_waf_rule_matches_total{rule=\"other\"} %d\n", m.otherRules)
	family(&out, "phase_duration_seconds", "histogram", "Time that the phases of a transaction took.")
	for _, phase := range sorted(m.steps) {
		m.steps[phase].write(&out, "phase_duration_seconds", "phase="+strconv.Quote(phase))
	}
	family(&out, "compile_duration_seconds", "histogram", "Time that compiling a configuration took.")
	m.compiled.write(&out, "compile_duration_seconds", "")
	family(&out, "invalid_configurations_total", "counter", "Configurations that could not be compiled.")
	fmt.Fprintf(&out, "fairway_waf_invalid_configurations_total %d\n", m.invalid)
	m.mutex.Unlock()
	family(&out, "configurations", "gauge", "Configurations that are kept compiled.")
	fmt.Fprintf(&out, "fairway_waf_configurations %d\n", m.Cached())
	family(&out, "transactions_in_flight", "gauge", "Transactions now.")
	fmt.Fprintf(&out, "fairway_waf_transactions_in_flight %d\n", m.InFlight.Load())
	family(&out, "transactions_rejected_total", "counter", "Streams refused because a limit was reached.")
	fmt.Fprintf(&out, "fairway_waf_transactions_rejected_total %d\n", m.Rejected.Load())
	family(&out, "buffered_bytes", "gauge", "Bytes reserved for the bodies of transactions now.")
	fmt.Fprintf(&out, "fairway_waf_buffered_bytes %d\n", m.Buffered())
	family(&out, "audit_lines_total", "counter", "Lines of the audit log.")
	fmt.Fprintf(&out, "fairway_waf_audit_lines_total %d\n", m.AuditWritten())
	family(&out, "audit_lines_dropped_total", "counter", "Lines of the audit log that were lost.")
	fmt.Fprintf(&out, "fairway_waf_audit_lines_dropped_total %d\n", m.AuditDropped())
	_, _ = io.WriteString(w, out.String())
}

func family(out *strings.Builder, name, kind, help string) {
	fmt.Fprintf(out, "# HELP fairway_waf_%s %s\n# TYPE fairway_waf_%s %s\n", name, help, name, kind)
}

func (h *histogram) write(out *strings.Builder, name, label string) {
	separator, labels := "", ""
	if label != "" {
		separator, labels = ",", "{"+label+"}"
	}
	var sum uint64
	for i, bound := range bounds {
		if h.buckets != nil {
			sum += h.buckets[i]
		}
		fmt.Fprintf(out, "fairway_waf_%s_bucket{%s%sle=\"%g\"} %d\n", name, label, separator, bound, sum)
	}
	fmt.Fprintf(out, "fairway_waf_%s_bucket{%s%sle=\"+Inf\"} %d\n", name, label, separator, h.count)
	fmt.Fprintf(out, "fairway_waf_%s_sum%s %g\nfairway_waf_%s_count%s %d\n", name, labels, h.sum, name, labels, h.count)
}

func sorted[K int | string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
