package sink

import (
	"net/http"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// Span is what a test looks at of a span. Ids are lower-case hexadecimal, and empty where the span has none.
type Span struct {
	Trace, ID, Parent string
	State             string
	Name              string
	Kind              ptrace.SpanKind
	Start, End        time.Time
	Status            ptrace.StatusCode
	Attributes        map[string]any
	// Service is the attribute service.name of its resource.
	Service string
}

// Text is an attribute as text, and empty where the span does not have it or it is no text.
func (span *Span) Text(name string) string {
	text, _ := span.Attributes[name].(string)
	return text
}

// Number is an attribute as a number, and 0 where the span does not have it or it is no number.
func (span *Span) Number(name string) int {
	number, _ := span.Attributes[name].(int64)
	return int(number)
}

func (sink *Sink) takeSpans(body []byte) ([]byte, error) {
	request := ptraceotlp.NewExportRequest()
	if err := request.UnmarshalProto(body); err != nil {
		return nil, err
	}
	spans := readSpans(request.Traces())
	sink.mutex.Lock()
	for _, span := range spans {
		if _, isKnown := sink.spans[span.ID]; isKnown {
			sink.repeated++
		}
		sink.spans[span.ID] = span
	}
	sink.received.Traces += len(spans)
	sink.mutex.Unlock()
	return ptraceotlp.NewExportResponse().MarshalProto()
}

func readSpans(traces ptrace.Traces) []*Span {
	var found []*Span
	for _, resource := range traces.ResourceSpans().All() {
		service, _ := resource.Resource().Attributes().AsRaw()["service.name"].(string)
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				found = append(found, readSpan(span, service))
			}
		}
	}
	return found
}

func readSpan(span ptrace.Span, service string) *Span {
	return &Span{
		Trace:      traceID(span.TraceID()),
		ID:         spanID(span.SpanID()),
		Parent:     spanID(span.ParentSpanID()),
		State:      span.TraceState().AsRaw(),
		Name:       span.Name(),
		Kind:       span.Kind(),
		Start:      span.StartTimestamp().AsTime(),
		End:        span.EndTimestamp().AsTime(),
		Status:     span.Status().Code(),
		Attributes: span.Attributes().AsRaw(),
		Service:    service,
	}
}

func traceID(id pcommon.TraceID) string {
	if id.IsEmpty() {
		return ""
	}
	return id.String()
}

func spanID(id pcommon.SpanID) string {
	if id.IsEmpty() {
		return ""
	}
	return id.String()
}

// Spans are all that arrived so far, each once.
func (sink *Sink) Spans() []*Span {
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	all := make([]*Span, 0, len(sink.spans))
	for _, span := range sink.spans {
		all = append(all, span)
	}
	return all
}

// Has says whether the span with this id arrived.
func (sink *Sink) Has(id string) bool {
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	return sink.spans[id] != nil
}

// isProtobuf reports whether a request has the encoding that the collector is configured for.
func isProtobuf(request *http.Request) bool {
	return request.Header.Get("Content-Type") == "application/x-protobuf"
}
