// Package tree owns the expectations: the headers of endpoints, the exchanges with spans, and the shape of their tree. It
// compares the collector's output with the records of clients and endpoints.
package tree

import (
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"fairway.dev/conformance/otel/backend"
	"fairway.dev/conformance/otel/fairway"
	"fairway.dev/conformance/otel/sink"
	"fairway.dev/conformance/otel/traffic"
)

const (
	// resolution is that of the times in spans: they are sums of whole microseconds.
	resolution = 2 * time.Microsecond
	// skew is how far times of different processes may differ. They have one clock, but Fairway reads it when the exchange is over,
	// and counts back; it may be interrupted between the two. Less than a hedged connect waits, so that a span without that wait is seen.
	skew = 10 * time.Millisecond
)

// Exchange is a request with everything that is known of it.
type Exchange struct {
	Outcome *traffic.Outcome
	// Sights are what endpoints saw, in order.
	Sights []backend.Sight
	// Line is the line of the access log, if there is one.
	Line *fairway.Line
}

// targets are the attempts that reached an endpoint.
func (one *Exchange) targets() []*backend.Sight {
	var found []*backend.Sight
	for index := range one.Sights {
		if one.Sights[index].Role == backend.Target {
			found = append(found, &one.Sights[index])
		}
	}
	return found
}

// Problem is something that is not right.
type Problem struct {
	Path, Kind, Context, Text string
}

func (problem Problem) String() string {
	return fmt.Sprintf("%s (%s; %s): %s", problem.Path, problem.Kind, problem.Context, problem.Text)
}

// Row counts a kind of request.
type Row struct {
	Requests int `json:"requests"`
	Sampled  int `json:"sampled"`
	Attempts int `json:"attempts"`
	Hedged   int `json:"hedged"`
	Spans    int `json:"spans"`
	Problems int `json:"problems"`
}

// Result is the result of a run.
type Result struct {
	// Rows are by the name of the kind.
	Rows map[string]*Row
	// Contexts counts requests by their trace context.
	Contexts map[string]int
	// Chance counts requests whose sampling was left to chance and that an endpoint saw.
	Chance Row
	// Spans are by the kind of span.
	Spans map[string]int
	// Problems are all.
	Problems []Problem
}

// Options describe a run.
type Options struct {
	Settings traffic.Settings
	// Service is --otlp-service-name.
	Service string
}

type checker struct {
	settings traffic.Settings
	service  string
	result   *Result
	// servers are server spans by their path.
	servers map[string][]*sink.Span
	// children are spans by the id of their parent.
	children map[string][]*sink.Span
	claimed  map[string]bool
}

// Check compares exchanges with all spans that arrived while they ran.
func Check(options Options, exchanges []Exchange, spans []*sink.Span) *Result {
	check := &checker{
		settings: options.Settings,
		service:  options.Service,
		result:   &Result{Rows: map[string]*Row{}, Contexts: map[string]int{}, Spans: map[string]int{}},
		servers:  map[string][]*sink.Span{},
		children: map[string][]*sink.Span{},
		claimed:  map[string]bool{},
	}
	for _, span := range spans {
		check.result.Spans[span.Kind.String()]++
		if span.Kind == ptrace.SpanKindServer {
			check.servers[span.Text("url.path")] = append(check.servers[span.Text("url.path")], span)
		} else {
			check.children[span.Parent] = append(check.children[span.Parent], span)
		}
	}
	for index := range exchanges {
		check.exchange(&exchanges[index])
	}
	for _, span := range spans {
		if !check.claimed[span.ID] {
			check.add(Problem{Path: span.Text("url.path"), Kind: "none", Context: "none",
				Text: fmt.Sprintf("the %s span %q (%s in %s) belongs to no exchange that is sampled", span.Kind, span.Name, span.ID, span.Trace)})
		}
	}
	return check.result
}

// Untouched checks a run without traces: endpoints get the headers of clients unchanged, and there are no spans.
func Untouched(exchanges []Exchange, spans []*sink.Span) *Result {
	check := &checker{result: &Result{Rows: map[string]*Row{}, Contexts: map[string]int{}, Spans: map[string]int{}}}
	for index := range exchanges {
		one := &exchanges[index]
		check.countRow(one)
		for _, sight := range one.Sights {
			if !isUntouched(sight.Header, one.Outcome.Case.Carried.Header) {
				check.problem(one, "an endpoint got %v, and traces are off", sight.Header)
			}
		}
	}
	for _, span := range spans {
		check.add(Problem{Path: span.Text("url.path"), Text: "there is a span, and traces are off"})
	}
	return check.result
}

func (check *checker) add(problem Problem) {
	check.result.Problems = append(check.result.Problems, problem)
}

func (check *checker) problem(one *Exchange, format string, values ...any) {
	sent := one.Outcome.Case
	check.result.Rows[sent.Kind.Name].Problems++
	check.add(Problem{Path: sent.Path, Kind: sent.Kind.Name, Context: sent.Context, Text: fmt.Sprintf(format, values...)})
}

// countRow counts a request, and checks that the expected events happened.
func (check *checker) countRow(one *Exchange) *Row {
	sent := one.Outcome.Case
	check.result.Contexts[sent.Context]++
	row := check.result.Rows[sent.Kind.Name]
	if row == nil {
		row = &Row{}
		check.result.Rows[sent.Kind.Name] = row
	}
	row.Requests++
	row.Attempts += len(one.targets())
	if one.Line != nil && one.Line.Upstream != nil && one.Line.Upstream.Hedged {
		row.Hedged++
	}
	if one.Outcome.Err != nil {
		check.problem(one, "the client got %v", one.Outcome.Err)
	}
	if want := sent.Kind.Attempts; len(one.targets()) != want {
		check.problem(one, "%d attempts reached an endpoint, and not %d", len(one.targets()), want)
	}
	return row
}

func (check *checker) exchange(one *Exchange) {
	row := check.countRow(one)
	contexts := make([]context, 0, len(one.Sights))
	for index := range one.Sights {
		if found, isReadable := check.context(one, &one.Sights[index]); isReadable {
			contexts = append(contexts, found)
		}
	}
	if len(contexts) < len(one.Sights) {
		return
	}
	for _, other := range contexts {
		if other.trace != contexts[0].trace || other.isSampled != contexts[0].isSampled {
			check.problem(one, "its endpoints got different traces, or different decisions")
			return
		}
	}
	isSampled, isKnown := check.decision(one, contexts)
	servers := check.servers[one.Outcome.Case.Path]
	switch {
	case len(servers) == 0 && isSampled && isKnown:
		check.problem(one, "it is sampled and has no server span")
	case len(servers) > 1:
		check.problem(one, "it has %d server spans", len(servers))
	case len(servers) == 1 && !isSampled && isKnown:
		check.problem(one, "it is not sampled and has a server span")
	case len(servers) == 1:
		row.Sampled++
		row.Spans += check.tree(one, servers[0], contexts)
	}
}

// decision says whether the exchange is sampled, if that can be known, and checks it.
func (check *checker) decision(one *Exchange, contexts []context) (isSampled, isKnown bool) {
	rule, decision := check.settings.Rule(one.Outcome.Case.Carried)
	want := decision == traffic.Sampled
	if len(contexts) == 0 {
		return want, rule != traffic.ByChance
	}
	got := contexts[0].isSampled
	if rule != traffic.ByChance {
		if got != want {
			check.problem(one, "sampled is %t and should be %t", got, want)
		}
		return got, true
	}
	check.result.Chance.Requests++
	if got {
		check.result.Chance.Sampled++
	}
	if !check.settings.Agrees(contexts[0].trace, got) {
		check.problem(one, "sampled is %t, and the ratio says otherwise of the trace %s", got, contexts[0].trace)
	}
	return got, true
}

// tree checks the spans of a sampled exchange, and returns how many it has.
func (check *checker) tree(one *Exchange, server *sink.Span, contexts []context) int {
	check.server(one, server, contexts)
	count := check.claim(one, server, server)
	var clients, internals []*sink.Span
	for _, child := range check.children[server.ID] {
		switch child.Kind {
		case ptrace.SpanKindClient:
			clients = append(clients, child)
		case ptrace.SpanKindInternal:
			internals = append(internals, child)
		}
	}
	slices.SortFunc(clients, func(one, other *sink.Span) int { return one.Start.Compare(other.Start) })
	check.guard(one, internals, clients)
	check.attempts(one, server, clients, contexts)
	return count
}

// claim takes a span and everything below it for the exchange, and checks what holds for every span of a tree. It returns how many
// spans there are.
func (check *checker) claim(one *Exchange, span, server *sink.Span) int {
	if check.claimed[span.ID] {
		check.problem(one, "the span %s (%q) is there twice", span.ID, span.Name)
		return 0
	}
	check.claimed[span.ID] = true
	switch {
	case span.Trace != server.Trace:
		check.problem(one, "the span %q is in the trace %s, and its parent in %s", span.Name, span.Trace, server.Trace)
	case span.Service != check.service:
		check.problem(one, "the span %q is of the service %q", span.Name, span.Service)
	case span.Name == "":
		check.problem(one, "a %s span has no name", span.Kind)
	case span.End.Before(span.Start):
		check.problem(one, "the span %q ends %s before it begins", span.Name, span.Start.Sub(span.End))
	}
	count := 1
	for _, child := range check.children[span.ID] {
		if child.Start.Before(span.Start.Add(-resolution)) || child.End.After(span.End.Add(resolution)) {
			check.problem(one, "the span %q (%s to %s) is not within its parent %q (%s to %s)", child.Name, clock(child.Start), clock(child.End),
				span.Name, clock(span.Start), clock(span.End))
		}
		if child.Kind != ptrace.SpanKindClient && child.Kind != ptrace.SpanKindInternal {
			check.problem(one, "the span %q is of the kind %s", child.Name, child.Kind)
		}
		count += check.claim(one, child, server)
	}
	return count
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05.000000") }
