package traffic

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
)

// Decision is a client's sampling decision.
type Decision int

// The decisions.
const (
	// Undecided leaves it to Fairway.
	Undecided Decision = iota
	// Sampled asks for spans.
	Sampled
	// Unsampled asks for none.
	Unsampled
)

// Parent is the context of a client's span.
type Parent struct {
	// Trace and Span are its ids, empty where the client sent a decision alone.
	Trace, Span string
	// Decision is the decision of the trace's origin.
	Decision Decision
	// State is its tracestate in one line.
	State string
}

// Carried is the trace context of a request, and its meaning by the specifications.
type Carried struct {
	// Header has the headers as they are sent.
	Header http.Header
	// W3C is what `traceparent` and `tracestate` say; nil where they say nothing valid.
	W3C *Parent
	// B3 is the meaning of the B3 headers; nil if they are invalid.
	B3 *Parent
	// HasMalformedState means that `traceparent` is valid and `tracestate` is not.
	HasMalformedState bool
	// IsOnlyHTTP means that gRPC's client refuses to send these headers.
	IsOnlyHTTP bool
}

// Context is a way in which requests carry a trace.
type Context struct {
	Name   string
	Weight int
	Make   func(*rand.Rand) Carried
}

// The ids of the context that many requests repeat.
const (
	repeatedTrace = "5ca1ab1e0000000000000000c0ffee01"
	repeatedSpan  = "00000000deadbeef"
)

// maxBaggage is the size of a baggage header that the W3C asks everybody to pass on.
const maxBaggage = 8192

// Contexts are all ways, with how often each is used compared with the others.
func Contexts() []Context {
	contexts := []Context{{"none", 40, func(*rand.Rand) Carried { return Carried{Header: http.Header{}} }}}
	contexts = append(contexts, w3cContexts()...)
	contexts = append(contexts, b3Contexts()...)
	for _, malformed := range malformedParents {
		contexts = append(contexts, Context{"malformed traceparent: " + malformed.name, 1, func(random *rand.Rand) Carried {
			carried := Carried{Header: http.Header{}, IsOnlyHTTP: malformed.isOnlyHTTP}
			for _, value := range malformed.make(traceID(random), spanID(random)) {
				carried.Header.Add("Traceparent", value)
			}
			// Without a valid parent it means nothing, and must not get another parent.
			carried.Header.Set("Tracestate", "orphan=1")
			return carried
		}})
	}
	for _, malformed := range malformedB3 {
		contexts = append(contexts, Context{"malformed b3: " + malformed.name, 1, func(random *rand.Rand) Carried {
			return Carried{Header: malformed.make(traceID(random), spanID(random))}
		}})
	}
	return contexts
}

func w3cContexts() []Context {
	parent := func(flags string, decision Decision, more ...string) func(*rand.Rand) Carried {
		return func(random *rand.Rand) Carried {
			trace, span := traceID(random), spanID(random)
			carried := w3c("00-"+trace+"-"+span+"-"+flags, &Parent{Trace: trace, Span: span, Decision: decision})
			for index := 0; index < len(more); index += 2 {
				carried.Header.Add(more[index], more[index+1])
			}
			carried.W3C.State = strings.Join(carried.Header.Values("Tracestate"), ",")
			return carried
		}
	}
	future := func(rest string) func(*rand.Rand) Carried {
		return func(random *rand.Rand) Carried {
			trace, span := traceID(random), spanID(random)
			return w3c("cc-"+trace+"-"+span+rest, &Parent{Trace: trace, Span: span, Decision: Sampled})
		}
	}
	repeated := func(flags string, decision Decision) func(*rand.Rand) Carried {
		return func(*rand.Rand) Carried {
			value := "00-" + repeatedTrace + "-" + repeatedSpan + "-" + flags
			return w3c(value, &Parent{Trace: repeatedTrace, Span: repeatedSpan, Decision: decision})
		}
	}
	badState := func(state string) func(*rand.Rand) Carried {
		return func(random *rand.Rand) Carried {
			carried := parent("01", Sampled, "Tracestate", state)(random)
			carried.HasMalformedState = true
			return carried
		}
	}
	baggage := largeBaggage()
	return []Context{
		{"sampled", 10, parent("01", Sampled)},
		{"not sampled", 8, parent("00", Unsampled)},
		{"sampled, random", 2, parent("03", Sampled)},
		{"not sampled, random", 2, parent("02", Unsampled)},
		{"all flags", 1, parent("ff", Sampled)},
		{"with state", 4, parent("01", Sampled, "Tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE,x@vendor=1:2")},
		{"with state, not sampled", 2, parent("00", Unsampled, "Tracestate", "congo=t61rcWkgMzE")},
		{"with state in two headers", 2, parent("01", Sampled, "Tracestate", "rojo=1", "Tracestate", "congo=2")},
		{"with 32 members of state", 1, parent("01", Sampled, "Tracestate", members(32))},
		{"with 33 members of state", 1, badState(members(33))},
		{"with malformed state", 1, badState("=,;no state at all")},
		{"with small baggage", 3, parent("01", Sampled, "Baggage", "user=1,region=eu;ttl=3")},
		{"with 8 KiB of baggage", 2, parent("01", Sampled, "Baggage", baggage)},
		{"8 KiB of baggage alone", 2, func(*rand.Rand) Carried {
			return Carried{Header: http.Header{"Baggage": {baggage}}}
		}},
		{"future version", 1, future("-01")},
		{"future version with more", 1, future("-01-what-the-future-will-be-like")},
		{"repeated", 4, repeated("01", Sampled)},
		{"repeated, not sampled", 2, repeated("00", Unsampled)},
	}
}

func w3c(value string, parent *Parent) Carried {
	return Carried{Header: http.Header{"Traceparent": {value}}, W3C: parent}
}

func b3Contexts() []Context {
	single := func(suffix string, decision Decision) func(*rand.Rand) Carried {
		return func(random *rand.Rand) Carried {
			trace, span := traceID(random), spanID(random)
			return Carried{Header: http.Header{"B3": {trace + "-" + span + suffix}}, B3: &Parent{Trace: trace, Span: span, Decision: decision}}
		}
	}
	several := func(decision Decision, more ...string) func(*rand.Rand) Carried {
		return func(random *rand.Rand) Carried {
			trace, span := traceID(random), spanID(random)
			header := http.Header{"X-B3-Traceid": {trace}, "X-B3-Spanid": {span}}
			for index := 0; index < len(more); index += 2 {
				header.Set(more[index], more[index+1])
			}
			return Carried{Header: header, B3: &Parent{Trace: trace, Span: span, Decision: decision}}
		}
	}
	return []Context{
		{"b3 sampled", 3, single("-1", Sampled)},
		{"b3 not sampled", 2, single("-0", Unsampled)},
		{"b3 for debugging", 1, single("-d", Sampled)},
		{"b3 undecided", 1, single("", Undecided)},
		{"b3 with a parent", 1, single("-1-05e3ac9a4f6e3b90", Sampled)},
		{"b3 with 64 bits", 1, func(random *rand.Rand) Carried {
			trace, span := spanID(random), spanID(random)
			parent := &Parent{Trace: strings.Repeat("0", 16) + trace, Span: span, Decision: Sampled}
			return Carried{Header: http.Header{"B3": {trace + "-" + span + "-1"}}, B3: parent}
		}},
		{"b3 denies", 1, func(*rand.Rand) Carried {
			return Carried{Header: http.Header{"B3": {"0"}}, B3: &Parent{Decision: Unsampled}}
		}},
		{"b3 in several headers, sampled", 2, several(Sampled, "X-B3-Sampled", "1")},
		{"b3 in several headers, not sampled", 1, several(Unsampled, "X-B3-Sampled", "0")},
		{"b3 in several headers, for debugging", 1, several(Sampled, "X-B3-Flags", "1")},
		{"b3 in several headers, with a parent", 1, several(Sampled, "X-B3-Sampled", "1", "X-B3-Parentspanid", "05e3ac9a4f6e3b90")},
		{"b3 beside traceparent", 1, func(random *rand.Rand) Carried {
			carried := single("-0", Unsampled)(random)
			trace, span := traceID(random), spanID(random)
			carried.Header.Set("Traceparent", "00-"+trace+"-"+span+"-01")
			carried.W3C = &Parent{Trace: trace, Span: span, Decision: Sampled}
			return carried
		}},
	}
}

// malformedParents are values of `traceparent` that begin no trace (W3C Trace Context §3.2).
var malformedParents = []struct {
	name       string
	make       func(trace, span string) []string
	isOnlyHTTP bool
}{
	{name: "empty", make: func(string, string) []string { return []string{""} }},
	{name: "version alone", make: func(string, string) []string { return []string{"00"} }},
	{name: "version ff", make: func(trace, span string) []string { return []string{"ff-" + trace + "-" + span + "-01"} }},
	{name: "version of one digit", make: func(trace, span string) []string { return []string{"0-" + trace + "-" + span + "-01"} }},
	{name: "upper case", make: func(_, span string) []string { return []string{"00-" + strings.Repeat("AB", 16) + "-" + span + "-01"} }},
	{name: "trace of zeros", make: func(_, span string) []string { return []string{"00-" + strings.Repeat("0", 32) + "-" + span + "-01"} }},
	{name: "span of zeros", make: func(trace, _ string) []string { return []string{"00-" + trace + "-" + strings.Repeat("0", 16) + "-01"} }},
	{name: "short trace", make: func(trace, span string) []string { return []string{"00-" + trace[1:] + "-" + span + "-01"} }},
	{name: "long trace", make: func(trace, span string) []string { return []string{"00-" + trace + "a-" + span + "-01"} }},
	{name: "no flags", make: func(trace, span string) []string { return []string{"00-" + trace + "-" + span} }},
	{name: "one flag digit", make: func(trace, span string) []string { return []string{"00-" + trace + "-" + span + "-1"} }},
	{name: "flags that are no number", make: func(trace, span string) []string { return []string{"00-" + trace + "-" + span + "-0x"} }},
	{name: "more in version 00", make: func(trace, span string) []string { return []string{"00-" + trace + "-" + span + "-01-more"} }},
	{name: "future without a dash", make: func(trace, span string) []string { return []string{"cc-" + trace + "-" + span + "-01more"} }},
	{name: "other digits", make: func(_, span string) []string { return []string{"00-" + strings.Repeat("g", 32) + "-" + span + "-01"} }},
	{name: "underscores", make: func(trace, span string) []string { return []string{"00_" + trace + "_" + span + "_01"} }},
	{name: "spaces", make: func(trace, span string) []string { return []string{"00 " + trace + " " + span + " 01"} }},
	{name: "two in one header", make: func(trace, span string) []string {
		return []string{"00-" + trace + "-" + span + "-01,00-" + trace + "-" + span + "-01"}
	}},
	{name: "two headers", make: func(trace, span string) []string {
		return []string{"00-" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-01"}
	}},
	{name: "8 KiB", make: func(trace, span string) []string {
		return []string{"00-" + trace + "-" + span + "-01" + strings.Repeat("0", 8192)}
	}},
	{name: "other bytes", isOnlyHTTP: true, make: func(trace, _ string) []string { return []string{"00-" + trace + "-\xff\xfe\xc3\x28-01"} }},
}

// malformedB3 are headers of B3 that begin no trace.
var malformedB3 = []struct {
	name string
	make func(trace, span string) http.Header
}{
	{"no ids", func(string, string) http.Header { return http.Header{"B3": {"not-a-trace"}} }},
	{"trace of zeros", func(_, span string) http.Header {
		return http.Header{"B3": {strings.Repeat("0", 32) + "-" + span + "-1"}}
	}},
	{"span of zeros", func(trace, _ string) http.Header { return http.Header{"B3": {trace + "-0000000000000000-1"}} }},
	{"trace of 31 digits", func(trace, span string) http.Header { return http.Header{"B3": {trace[1:] + "-" + span + "-1"}} }},
	{"trace without a span", func(trace, _ string) http.Header { return http.Header{"X-B3-Traceid": {trace}} }},
	{"8 KiB", func(trace, span string) http.Header {
		return http.Header{"B3": {trace + "-" + span + "-1-" + strings.Repeat("0", 8192)}}
	}},
}

func traceID(random *rand.Rand) string {
	return fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64()|1)
}

func spanID(random *rand.Rand) string { return fmt.Sprintf("%016x", random.Uint64()|1) }

func members(count int) string {
	list := make([]string, count)
	for index := range list {
		list[index] = fmt.Sprintf("vendor%d=%d", index, index)
	}
	return strings.Join(list, ",")
}

// largeBaggage is a valid list of exactly maxBaggage bytes.
func largeBaggage() string {
	var text strings.Builder
	for index := 0; text.Len() < maxBaggage-200; index++ {
		fmt.Fprintf(&text, "key%d=%s,", index, strings.Repeat("v", 100))
	}
	text.WriteString("last=")
	return text.String() + strings.Repeat("v", maxBaggage-text.Len())
}
