// Package sink is the server behind the collector's exporter, and records everything that arrives.
package sink

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// Counts are items that arrived, those that arrived twice included.
type Counts struct {
	Traces, Metrics, Logs int
}

// Log has the parts of a log record that tests check.
type Log struct {
	Trace, Span string
	Body        string
	Attributes  map[string]any
}

// Metric is the newest value of a metric, as the sum over its points.
type Metric struct {
	Type string
	Sum  float64
}

// Sink receives the collector's exports.
type Sink struct {
	// URL is what the exporter sends to, without the path of a signal.
	URL    string
	server *http.Server

	mutex    sync.Mutex
	received Counts
	// repeated are spans that arrived again.
	repeated int
	spans    map[string]*Span
	logs     []Log
	metrics  map[string]Metric
}

// Start starts a sink on a port of its own.
func Start() (*Sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	sink := &Sink{URL: "http://" + listener.Addr().String()}
	sink.Forget()
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/traces", take(sink.takeSpans))
	routes.HandleFunc("POST /v1/metrics", take(sink.takeMetrics))
	routes.HandleFunc("POST /v1/logs", take(sink.takeLogs))
	sink.server = &http.Server{Handler: routes}
	go func() { _ = sink.server.Serve(listener) }()
	return sink, nil
}

// Close ends the server.
func (sink *Sink) Close() { _ = sink.server.Close() }

// Forget drops what arrived so far.
func (sink *Sink) Forget() {
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	sink.received, sink.repeated = Counts{}, 0
	sink.spans, sink.logs, sink.metrics = map[string]*Span{}, nil, map[string]Metric{}
}

// Received counts what arrived so far.
func (sink *Sink) Received() Counts {
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	return sink.received
}

// Repeated counts the spans that arrived again after they had arrived.
func (sink *Sink) Repeated() int {
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	return sink.repeated
}

// Logs are all log records that arrived.
func (sink *Sink) Logs() []Log {
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	return append([]Log(nil), sink.logs...)
}

// Metrics are the metrics that arrived last, by name.
func (sink *Sink) Metrics() map[string]Metric {
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	all := make(map[string]Metric, len(sink.metrics))
	for name, metric := range sink.metrics {
		all[name] = metric
	}
	return all
}

func take(handle func([]byte) ([]byte, error)) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err == nil && !isProtobuf(request) {
			err = fmt.Errorf("content type %q", request.Header.Get("Content-Type"))
		}
		var response []byte
		if err == nil {
			response, err = handle(body)
		}
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		writer.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = writer.Write(response)
	}
}

func (sink *Sink) takeLogs(body []byte) ([]byte, error) {
	request := plogotlp.NewExportRequest()
	if err := request.UnmarshalProto(body); err != nil {
		return nil, err
	}
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	sink.received.Logs += request.Logs().LogRecordCount()
	for _, resource := range request.Logs().ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				sink.logs = append(sink.logs, Log{
					Trace:      traceID(record.TraceID()),
					Span:       spanID(record.SpanID()),
					Body:       record.Body().AsString(),
					Attributes: record.Attributes().AsRaw(),
				})
			}
		}
	}
	return plogotlp.NewExportResponse().MarshalProto()
}

func (sink *Sink) takeMetrics(body []byte) ([]byte, error) {
	request := pmetricotlp.NewExportRequest()
	if err := request.UnmarshalProto(body); err != nil {
		return nil, err
	}
	// A message has a metric once, or once for each set of labels.
	newest := map[string]Metric{}
	for _, resource := range request.Metrics().ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				sum := newest[metric.Name()].Sum + sumOf(metric)
				newest[metric.Name()] = Metric{Type: metric.Type().String(), Sum: sum}
			}
		}
	}
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	sink.received.Metrics += request.Metrics().DataPointCount()
	for name, metric := range newest {
		sink.metrics[name] = metric
	}
	return pmetricotlp.NewExportResponse().MarshalProto()
}

// sumOf is the sum over the points of a metric: of their values, or of their counts.
func sumOf(metric pmetric.Metric) float64 {
	var sum float64
	number := func(points pmetric.NumberDataPointSlice) {
		for _, point := range points.All() {
			if point.ValueType() == pmetric.NumberDataPointValueTypeInt {
				sum += float64(point.IntValue())
			} else {
				sum += point.DoubleValue()
			}
		}
	}
	switch metric.Type() {
	case pmetric.MetricTypeGauge:
		number(metric.Gauge().DataPoints())
	case pmetric.MetricTypeSum:
		number(metric.Sum().DataPoints())
	case pmetric.MetricTypeHistogram:
		for _, point := range metric.Histogram().DataPoints().All() {
			sum += float64(point.Count())
		}
	case pmetric.MetricTypeSummary:
		for _, point := range metric.Summary().DataPoints().All() {
			sum += float64(point.Count())
		}
	}
	return sum
}
