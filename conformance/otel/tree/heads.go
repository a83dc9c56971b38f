package tree

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"fairway.dev/conformance/otel/backend"
	"fairway.dev/conformance/otel/traffic"
)

// context is the trace context of an endpoint's request.
type context struct {
	trace, span string
	// isSampled means that Fairway records the exchange: the parent is a span of its own, and sampled.
	isSampled bool
}

// readParent reads a traceparent as a reader of version 00 does (W3C Trace Context §3.2).
func readParent(value string) (found context, flags uint64, isValid bool) {
	if len(value) < 55 || value[2] != '-' || value[35] != '-' || value[52] != '-' || value[:2] == "ff" {
		return context{}, 0, false
	}
	if len(value) > 55 && (value[:2] == "00" || value[55] != '-') {
		return context{}, 0, false
	}
	found = context{trace: value[3:35], span: value[36:52]}
	flags, err := strconv.ParseUint(value[53:55], 16, 8)
	isValid = err == nil && isID(value[:2]+"1") && isID(found.trace) && isID(found.span)
	return found, flags, isValid
}

// isID says whether a text consists of lower-case hexadecimal digits that are not all zero.
func isID(text string) bool {
	return strings.Trim(text, "0123456789abcdef") == "" && strings.Trim(text, "0") != ""
}

// context reads the trace context of an endpoint's request, and checks every header of it.
func (check *checker) context(one *Exchange, sight *backend.Sight) (context, bool) {
	carried := one.Outcome.Case.Carried
	parent := check.settings.Parent(carried)
	values := sight.Header["Traceparent"]
	if len(values) != 1 {
		check.problem(one, "an endpoint got %d headers traceparent", len(values))
		return context{}, false
	}
	found, flags, isValid := readParent(values[0])
	if !isValid || (values[0][:2] != "00" && !slices.Equal(values, carried.Header["Traceparent"])) {
		check.problem(one, "an endpoint got the traceparent %q", values[0])
		return context{}, false
	}
	found.isSampled = flags&1 == 1 && (parent == nil || found.span != parent.Span)
	switch {
	case parent == nil && mentions(carried.Header, found.trace):
		check.problem(one, "an endpoint got the trace of a client that is not believed, or whose header is malformed")
	case parent != nil && found.trace != parent.Trace:
		check.problem(one, "an endpoint got the trace %s and not that of the client, %s", found.trace, parent.Trace)
	case parent != nil && found.span != parent.Span && !found.isSampled:
		check.problem(one, "an endpoint got a parent that is not sampled, in place of the client's span")
	}
	check.state(one, sight, parent)
	check.b3(one, sight, found)
	baggage := carried.Header["Baggage"]
	if check.settings.TrustsIncoming && !slices.Equal(sight.Header["Baggage"], baggage) {
		check.problem(one, "an endpoint got other baggage than the client sent")
	}
	return found, true
}

// list is a header with a list, in one line and without the spaces between its members.
func list(values []string) string {
	members := strings.Split(strings.Join(values, ","), ",")
	for index := range members {
		members[index] = strings.TrimSpace(members[index])
	}
	return strings.Join(members, ",")
}

func (check *checker) state(one *Exchange, sight *backend.Sight, parent *traffic.Parent) {
	got, carried := list(sight.Header["Tracestate"]), one.Outcome.Case.Carried
	want := ""
	if parent != nil {
		want = list([]string{parent.State})
	}
	if carried.HasMalformedState && got == "" {
		return
	}
	if got != want {
		check.problem(one, "an endpoint got the tracestate %q and not %q", got, want)
	}
}

// b3 checks that B3 headers agree with traceparent.
func (check *checker) b3(one *Exchange, sight *backend.Sight, found context) {
	carried := one.Outcome.Case.Carried.Header
	if !check.settings.HasB3 {
		for _, name := range b3Headers {
			want := carried[name]
			if !check.settings.TrustsIncoming {
				want = nil
			}
			if !slices.Equal(sight.Header[name], want) {
				check.problem(one, "an endpoint got %s: %q and not %q", name, sight.Header[name], want)
			}
		}
		return
	}
	if isUntouched(sight.Header, carried) {
		return
	}
	several := sight.Header["X-B3-Spanid"]
	if several != nil && !slices.Equal(several, []string{found.span}) {
		check.problem(one, "an endpoint got X-B3-SpanId: %q beside the span %s", several, found.span)
	}
	value := strings.Join(sight.Header["B3"], " ")
	if value == "" && several != nil {
		return
	}
	parts := strings.Split(value, "-")
	if len(parts) < 2 || !strings.HasSuffix(found.trace, parts[0]) || parts[1] != found.span {
		check.problem(one, "an endpoint got b3: %q beside the trace %s and the span %s", value, found.trace, found.span)
		return
	}
	if len(parts) > 2 && (parts[2] == "1" || parts[2] == "d") != found.isSampled {
		check.problem(one, "an endpoint got b3: %q, and traceparent says otherwise", value)
	}
}

// mentions says whether a client sent this trace in any header.
func mentions(sent http.Header, trace string) bool {
	for _, values := range sent {
		if strings.Contains(strings.Join(values, " "), trace) {
			return true
		}
	}
	return false
}

var b3Headers = []string{"B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid", "X-B3-Sampled", "X-B3-Flags"}

// isUntouched says whether an endpoint got headers of traces exactly as the client sent them.
func isUntouched(got, sent http.Header) bool {
	for _, name := range append([]string{"Traceparent", "Tracestate", "Baggage"}, b3Headers...) {
		if !slices.Equal(got[name], sent[name]) {
			return false
		}
	}
	return true
}
