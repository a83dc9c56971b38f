package tree

import (
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"fairway.dev/conformance/otel/backend"
	"fairway.dev/conformance/otel/sink"
	"fairway.dev/conformance/otel/traffic"
)

// The attributes that are checked (OpenTelemetry semantic conventions for HTTP).
const (
	method      = "http.request.method"
	statusCode  = "http.response.status_code"
	resendCount = "http.request.resend_count"
	errorType   = "error.type"
)

// server checks the server span.
func (check *checker) server(one *Exchange, span *sink.Span, contexts []context) {
	sent, kind := one.Outcome.Case, one.Outcome.Case.Kind
	parent := check.settings.Parent(sent.Carried)
	wantParent, wantState := "", ""
	if parent != nil {
		wantParent, wantState = parent.Span, parent.State
	}
	switch {
	case parent != nil && span.Trace != parent.Trace:
		check.problem(one, "the server span is in the trace %s, and the client's in %s", span.Trace, parent.Trace)
	case len(contexts) > 0 && span.Trace != contexts[0].trace:
		check.problem(one, "the server span is in the trace %s, and its endpoint got %s", span.Trace, contexts[0].trace)
	case span.Parent != wantParent:
		check.problem(one, "the parent of the server span is %q and not %q", span.Parent, wantParent)
	case list([]string{span.State}) != wantState && !(sent.Carried.HasMalformedState && span.State == ""):
		check.problem(one, "the state of the server span is %q and not %q", span.State, wantState)
	}
	wants := map[string]string{method: methodOf(kind), "url.scheme": "http", "server.address": sent.Host}
	if kind.Entry == traffic.H2TLS {
		wants["url.scheme"] = "https"
	}
	wants["network.protocol.version"] = "2"
	if kind.Entry == traffic.HTTP1 || kind.Entry == traffic.GatewayHTTP1 {
		wants["network.protocol.version"] = "1.1"
	}
	for name, want := range wants {
		if got := span.Text(name); got != want {
			check.problem(one, "the server span has %s=%q and not %q", name, got, want)
		}
	}
	if len(contexts) > 0 && span.Text("http.route") == "" {
		check.problem(one, "the server span has no http.route")
	}
	if !one.Outcome.HasLeft {
		check.outcome(one, span, one.Outcome.Status, false)
	} else if span.Text(errorType) == "" {
		check.problem(one, "the server span has no error.type, and its client has left")
	}
	if span.Start.Before(one.Outcome.Sent.Add(-skew)) || span.Start.After(one.Outcome.Done.Add(skew)) {
		check.problem(one, "the server span begins at %s, and the client sent at %s", clock(span.Start), clock(one.Outcome.Sent))
	}
}

func methodOf(kind *traffic.Kind) string {
	switch {
	case kind.Entry == traffic.GRPC:
		return http.MethodPost
	case kind.Method == "":
		return http.MethodGet
	}
	return kind.Method
}

// outcome checks how a span says that a request ended.
func (check *checker) outcome(one *Exchange, span *sink.Span, status int, isClient bool) {
	isError := status >= 500 || (isClient && (status >= 400 || status == 0))
	got, has := span.Attributes[statusCode]
	switch {
	case status == 0 && has:
		check.problem(one, "the %s span has the status %v, and there was no response", span.Kind, got)
	case status != 0 && span.Number(statusCode) != status:
		check.problem(one, "the %s span has the status %v and not %d", span.Kind, got, status)
	case isError && span.Text(errorType) == "":
		check.problem(one, "the %s span has no error.type, and its status is %d", span.Kind, status)
	case isError != (span.Status == ptrace.StatusCodeError) && one.Outcome.RPC <= 0:
		check.problem(one, "the %s span is %s, and its status is %d", span.Kind, span.Status, status)
	}
}

// guard checks the spans between the server span and the attempts.
func (check *checker) guard(one *Exchange, internals, clients []*sink.Span) {
	switch {
	case one.Outcome.Case.Kind.IsGuarded && len(internals) == 0:
		check.problem(one, "there is no span for the authentication service")
	case !one.Outcome.Case.Kind.IsGuarded && len(internals) > 0:
		check.problem(one, "there is a span %q, and no authentication service", internals[0].Name)
	}
	for _, span := range internals {
		if len(clients) > 0 && span.End.After(clients[0].Start.Add(resolution)) {
			check.problem(one, "the span %q ends after the first attempt has begun", span.Name)
		}
	}
}

// attempts checks that each attempt that an endpoint saw has its client span, and that each further one says why no endpoint saw it.
func (check *checker) attempts(one *Exchange, server *sink.Span, clients []*sink.Span, contexts []context) {
	known := map[string]*sink.Span{}
	for index, span := range clients {
		known[span.ID] = span
		if got := span.Number(resendCount); got != index {
			check.problem(one, "attempt %d has %s=%d", index, resendCount, got)
		}
		if index > 0 && span.Start.Before(clients[index-1].End.Add(-resolution)) {
			check.problem(one, "attempt %d begins %s before the one before it ends", index, clients[index-1].End.Sub(span.Start))
		}
		check.client(one, span)
	}
	seen := map[string]bool{}
	for index := range one.Sights {
		sight, told := &one.Sights[index], contexts[index]
		if sight.Role == backend.Guard {
			if told.span != server.ID && !check.isBelow(server, told.span) {
				check.problem(one, "the authentication service got the parent %s, which is no span of the exchange", told.span)
			}
			continue
		}
		span := known[told.span]
		switch {
		case span == nil:
			check.problem(one, "an endpoint got the parent %s, which is no client span of the exchange", told.span)
			continue
		case seen[told.span]:
			check.problem(one, "two attempts have the client span %s", told.span)
		}
		seen[told.span] = true
		if !one.Outcome.HasLeft {
			check.outcome(one, span, sight.Status, true)
		}
		if sight.Received.Before(span.Start.Add(-skew)) || sight.Received.After(span.End.Add(skew)) {
			check.problem(one, "the endpoint got the attempt at %s, and its span is %s to %s", clock(sight.Received), clock(span.Start), clock(span.End))
		}
	}
	for _, span := range clients {
		if !seen[span.ID] && (span.Text(errorType) == "" || span.Number(statusCode) != 0) {
			check.problem(one, "the client span %s is no attempt that an endpoint saw, and has no error", span.ID)
		}
	}
	check.logged(one, clients)
}

// client checks what every attempt has.
func (check *checker) client(one *Exchange, span *sink.Span) {
	if got := span.Text(method); got != methodOf(one.Outcome.Case.Kind) {
		check.problem(one, "an attempt has %s=%q", method, got)
	}
	if span.Text("server.address") == "" || span.Number("server.port") == 0 {
		check.problem(one, "an attempt has the endpoint %q:%d", span.Text("server.address"), span.Number("server.port"))
	}
	if len(check.children[span.ID]) > 0 && span.End.Sub(span.Start) == time.Duration(0) {
		check.problem(one, "an attempt with a connect takes no time")
	}
}

// logged compares the attempts with the line of the access log.
func (check *checker) logged(one *Exchange, clients []*sink.Span) {
	if one.Line == nil || one.Line.Upstream == nil {
		return
	}
	if got, want := len(clients), one.Line.Upstream.Attempts; got != want {
		check.problem(one, "it has %d client spans, and the access log says %d attempts", got, want)
		return
	}
	if len(clients) == 0 {
		return
	}
	connects := 0
	for _, child := range check.children[clients[len(clients)-1].ID] {
		if strings.Contains(strings.ToLower(child.Name), "connect") {
			connects++
		}
	}
	isNew := one.Line.Upstream.ConnectUS > 0
	if isNew && connects == 0 && one.Line.Upstream.Status != 0 {
		check.problem(one, "its last attempt opened a connection and has no span for that")
	}
	if !isNew && connects > 0 && one.Line.Upstream.Status != 0 {
		check.problem(one, "its last attempt used an open connection and has a span for a connect")
	}
}

// isBelow says whether a span with this id is below another.
func (check *checker) isBelow(span *sink.Span, id string) bool {
	for _, child := range check.children[span.ID] {
		if child.ID == id || check.isBelow(child, id) {
			return true
		}
	}
	return false
}
