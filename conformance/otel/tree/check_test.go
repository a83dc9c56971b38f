package tree

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"fairway.dev/conformance/otel/backend"
	"fairway.dev/conformance/otel/sink"
	"fairway.dev/conformance/otel/traffic"
)

const (
	trace   = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00f067aa0ba902b7"
	service = "tested"
)

var options = Options{Settings: traffic.Settings{Ratio: 0.5, IsParentBased: true, TrustsIncoming: true}, Service: service}

// at is a moment of the exchange, in milliseconds.
func at(millisecond int) time.Time {
	return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Add(time.Duration(millisecond) * time.Millisecond)
}

// retried is a request that was sampled by its client, was reset once, and has the right spans.
func retried() (Exchange, []*sink.Span) {
	kind := &traffic.Kind{Name: "retry", Entry: traffic.HTTP1, Attempts: 2}
	header := http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01"}, "Tracestate": {"a=1,b=2"}}
	carried := traffic.Carried{Header: header, W3C: &traffic.Parent{Trace: trace, Span: parent, Decision: traffic.Sampled, State: "a=1,b=2"}}
	sight := func(span string, status, received int) backend.Sight {
		got := http.Header{"Traceparent": {"00-" + trace + "-" + span + "-01"}, "Tracestate": {"a=1,b=2"}}
		return backend.Sight{Header: got, Received: at(received), Answered: at(received), Status: status, RPC: -1}
	}
	exchange := Exchange{
		Outcome: &traffic.Outcome{
			Case: &traffic.Case{Path: "/a/1", Kind: kind, Host: "plain.test", Context: "sampled", Carried: carried},
			Sent: at(0), Done: at(100), Status: 200, RPC: -1,
		},
		Sights: []backend.Sight{sight("00000000000000a1", 0, 20), sight("00000000000000a2", 200, 60)},
	}
	span := func(id, above string, kind ptrace.SpanKind, from, to int) *sink.Span {
		return &sink.Span{Trace: trace, ID: id, Parent: above, State: "a=1,b=2", Name: "GET", Kind: kind, Start: at(from), End: at(to), Service: service,
			Attributes: map[string]any{method: "GET", "server.address": "127.0.0.1", "server.port": int64(80)}}
	}
	server := span("00000000000000a0", parent, ptrace.SpanKindServer, 1, 99)
	for name, value := range map[string]any{"url.path": "/a/1", "url.scheme": "http", "server.address": "plain.test", "http.route": "/",
		"network.protocol.version": "1.1", statusCode: int64(200)} {
		server.Attributes[name] = value
	}
	first := span("00000000000000a1", server.ID, ptrace.SpanKindClient, 10, 40)
	first.Status, first.Attributes[errorType] = ptrace.StatusCodeError, "upstream_closed"
	second := span("00000000000000a2", server.ID, ptrace.SpanKindClient, 40, 90)
	second.Attributes[statusCode], second.Attributes[resendCount] = int64(200), int64(1)
	connect := span("00000000000000a3", second.ID, ptrace.SpanKindInternal, 40, 50)
	return exchange, []*sink.Span{server, first, second, connect}
}

func TestARightTreeHasNoProblem(t *testing.T) {
	exchange, spans := retried()
	result := Check(options, []Exchange{exchange}, spans)
	if len(result.Problems) > 0 {
		t.Fatal(result.Problems)
	}
	if row := result.Rows["retry"]; *row != (Row{Requests: 1, Sampled: 1, Attempts: 2, Spans: 4}) {
		t.Fatalf("%+v", row)
	}
}

func TestEveryPlantedFaultIsFound(t *testing.T) {
	faults := map[string]func(*Exchange, []*sink.Span) []*sink.Span{
		"no server span": func(_ *Exchange, spans []*sink.Span) []*sink.Span { return spans[1:] },
		"has 2 server spans": func(_ *Exchange, spans []*sink.Span) []*sink.Span {
			other := *spans[0]
			other.ID = "00000000000000b0"
			return append(spans, &other)
		},
		"the parent of the server span": func(_ *Exchange, spans []*sink.Span) []*sink.Span { spans[0].Parent = ""; return spans },
		"the server span is in the trace": func(_ *Exchange, spans []*sink.Span) []*sink.Span {
			spans[0].Trace = strings.Repeat("1", 32)
			return spans
		},
		"the state of the server span": func(_ *Exchange, spans []*sink.Span) []*sink.Span { spans[0].State = ""; return spans },
		"of the service":               func(_ *Exchange, spans []*sink.Span) []*sink.Span { spans[2].Service = "other"; return spans },
		"which is no client span":      func(_ *Exchange, spans []*sink.Span) []*sink.Span { return append(spans[:1], spans[2:]...) },
		"no attempt that an endpoint saw": func(_ *Exchange, spans []*sink.Span) []*sink.Span {
			other := *spans[2]
			other.ID, other.Start, other.End = "00000000000000b2", at(91), at(92)
			return append(spans, &other)
		},
		"attempt 1 has http.request.resend_count=0": func(_ *Exchange, spans []*sink.Span) []*sink.Span {
			delete(spans[2].Attributes, resendCount)
			return spans
		},
		"before the one before it ends": func(_ *Exchange, spans []*sink.Span) []*sink.Span { spans[1].End = at(45); return spans },
		"is not within its parent":      func(_ *Exchange, spans []*sink.Span) []*sink.Span { spans[2].End = at(120); return spans },
		"before it begins":              func(_ *Exchange, spans []*sink.Span) []*sink.Span { spans[3].End = at(39); return spans },
		"and its span is":               func(_ *Exchange, spans []*sink.Span) []*sink.Span { spans[2].End = at(41); return spans[:3] },
		"and the client sent at":        func(one *Exchange, spans []*sink.Span) []*sink.Span { one.Outcome.Sent = at(20); return spans },
		"has the status 500": func(_ *Exchange, spans []*sink.Span) []*sink.Span {
			spans[0].Attributes[statusCode] = int64(500)
			return spans
		},
		"has no error.type": func(_ *Exchange, spans []*sink.Span) []*sink.Span {
			delete(spans[1].Attributes, errorType)
			return spans
		},
		"has no http.route": func(_ *Exchange, spans []*sink.Span) []*sink.Span {
			delete(spans[0].Attributes, "http.route")
			return spans
		},
		"belongs to no exchange": func(_ *Exchange, spans []*sink.Span) []*sink.Span {
			other := *spans[3]
			other.ID, other.Parent = "00000000000000b3", "00000000000000ff"
			return append(spans, &other)
		},
		"not sampled": func(one *Exchange, spans []*sink.Span) []*sink.Span {
			one.Outcome.Case.Carried.W3C.Decision = traffic.Unsampled
			for index := range one.Sights {
				one.Sights[index].Header["Traceparent"] = []string{"00-" + trace + "-" + parent + "-00"}
			}
			return spans
		},
		"sampled is false and should be true": func(one *Exchange, _ []*sink.Span) []*sink.Span {
			for index := range one.Sights {
				one.Sights[index].Header["Traceparent"] = []string{"00-" + trace + "-" + parent + "-00"}
			}
			return nil
		},
		"not that of the client": func(one *Exchange, spans []*sink.Span) []*sink.Span {
			for index := range one.Sights {
				one.Sights[index].Header["Traceparent"] = []string{"00-" + strings.Repeat("1", 32) + "-00000000000000a1-01"}
			}
			return spans
		},
		"2 headers traceparent": func(one *Exchange, spans []*sink.Span) []*sink.Span {
			values := one.Sights[0].Header["Traceparent"]
			one.Sights[0].Header["Traceparent"] = append(values, values[0])
			return spans
		},
		"got the tracestate": func(one *Exchange, spans []*sink.Span) []*sink.Span {
			delete(one.Sights[1].Header, "Tracestate")
			return spans
		},
		"other baggage": func(one *Exchange, spans []*sink.Span) []*sink.Span {
			one.Sights[1].Header["Baggage"] = []string{"a=1"}
			return spans
		},
		"the kind Producer": func(_ *Exchange, spans []*sink.Span) []*sink.Span {
			spans[3].Kind = ptrace.SpanKindProducer
			return spans
		},
		"attempts reached an": func(one *Exchange, spans []*sink.Span) []*sink.Span { one.Sights = one.Sights[:1]; return spans },
		"there is a span":     func(_ *Exchange, spans []*sink.Span) []*sink.Span { spans[3].Parent = spans[0].ID; return spans },
		"different decisions": func(one *Exchange, spans []*sink.Span) []*sink.Span {
			one.Sights[1].Header["Traceparent"] = []string{"00-" + trace + "-" + parent + "-00"}
			return spans
		},
	}
	for want, plant := range faults {
		t.Run(want, func(t *testing.T) {
			exchange, spans := retried()
			result := Check(options, []Exchange{exchange}, plant(&exchange, spans))
			checkFinds(t, result, want)
		})
	}
}

func checkFinds(t *testing.T, result *Result, want string) {
	t.Helper()
	for _, problem := range result.Problems {
		if strings.Contains(problem.Text, want) {
			return
		}
	}
	t.Fatalf("%q is not among %v", want, result.Problems)
}

func TestAMalformedTraceIsNotContinued(t *testing.T) {
	exchange, _ := retried()
	exchange.Outcome.Case.Carried = traffic.Carried{Header: http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-1"}}}
	result := Check(options, []Exchange{exchange}, nil)
	checkFinds(t, result, "whose header is malformed")
}

func TestHeadersOfB3SayWhatTraceparentSays(t *testing.T) {
	withB3 := options
	withB3.Settings.HasB3 = true
	for value, want := range map[string]string{
		"4bf92f3577b34da6a3ce929d0e0e4736-00000000000000a1-1": "",
		"a3ce929d0e0e4736-00000000000000a1-d":                 "",
		"4bf92f3577b34da6a3ce929d0e0e4736-00000000000000a1-0": "traceparent says otherwise",
		"4bf92f3577b34da6a3ce929d0e0e4736-00000000000000b1-1": "beside the trace",
		"": "beside the trace",
	} {
		exchange, spans := retried()
		for index, id := range []string{"00000000000000a1", "00000000000000a2"} {
			exchange.Sights[index].Header["B3"] = []string{strings.ReplaceAll(value, "00000000000000a1", id)}
		}
		result := Check(withB3, []Exchange{exchange}, spans)
		if want != "" {
			checkFinds(t, result, want)
		} else if len(result.Problems) > 0 {
			t.Error(value, result.Problems)
		}
	}
}

func TestWithoutTracesHeadersPassAsTheyCome(t *testing.T) {
	exchange, _ := retried()
	checkFinds(t, Untouched([]Exchange{exchange}, nil), "traces are off")
	for index := range exchange.Sights {
		exchange.Sights[index].Header = exchange.Outcome.Case.Carried.Header.Clone()
	}
	if result := Untouched([]Exchange{exchange}, nil); len(result.Problems) > 0 {
		t.Fatal(result.Problems)
	}
}

func TestAnIntervalHoldsItsConfidence(t *testing.T) {
	for _, one := range []struct {
		trials    int
		ratio     float64
		low, high int
	}{{0, 0.5, 0, 0}, {100, 0, 0, 0}, {100, 1, 100, 100}, {1, 0.5, 0, 1}, {100, 0.5, 34, 66}, {10_000, 0.25, 2358, 2643}} {
		if low, high := Interval(one.trials, one.ratio); low != one.low || high != one.high {
			t.Errorf("%d trials with %g: %d to %d and not %d to %d", one.trials, one.ratio, low, high, one.low, one.high)
		}
	}
}

func TestContextsAreWhatTheySay(t *testing.T) {
	for _, context := range traffic.Contexts() {
		carried := context.Make(rand.New(rand.NewPCG(1, 2)))
		values := carried.Header["Traceparent"]
		isValid := false
		if len(values) == 1 {
			_, _, isValid = readParent(values[0])
		}
		if isValid != (carried.W3C != nil) {
			t.Errorf("%s: %q is valid: %t", context.Name, values, isValid)
		}
	}
}
