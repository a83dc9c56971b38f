package collector_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"fairway.dev/conformance/otel/collector"
	"fairway.dev/conformance/otel/sink"
	"fairway.dev/conformance/otel/wait"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == collector.Argument {
		if err := collector.Main(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// export is a message with one span.
func export(id byte) ptraceotlp.ExportRequest {
	traces := ptrace.NewTraces()
	resource := traces.ResourceSpans().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "a test")
	span := resource.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetTraceID(pcommon.TraceID{15: 7})
	span.SetSpanID(pcommon.SpanID{7: id})
	span.SetKind(ptrace.SpanKindServer)
	span.SetStartTimestamp(pcommon.NewTimestampFromTime(time.Unix(1, 2000)))
	span.Attributes().PutInt("http.response.status_code", 200)
	span.Attributes().PutStr("url.path", "/a")
	return ptraceotlp.NewExportRequestFromTraces(traces)
}

func TestWhatACollectorConfirmsIsInTheSink(t *testing.T) {
	received, err := sink.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer received.Close()
	addresses := collector.Addresses{GRPC: wait.FreeAddress(), HTTP: wait.FreeAddress(), Sink: received.URL}
	process, err := collector.Start(addresses, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(addresses.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	client := ptraceotlp.NewGRPCClient(connection)
	if _, err := client.Export(context.Background(), export(1)); err != nil {
		t.Fatal(err)
	}
	if status := post(t, addresses, export(2)); status != http.StatusOK {
		t.Fatal(status)
	}
	if !received.Has("0000000000000001") || !received.Has("0000000000000002") || received.Received().Traces != 2 {
		t.Fatal(received.Spans())
	}
	for _, span := range received.Spans() {
		if span.Service != "a test" || span.Number("http.response.status_code") != 200 || span.Text("url.path") != "/a" || span.Start.Nanosecond() != 2000 {
			t.Errorf("%+v", span)
		}
	}

	process.Kill()
	if _, err := client.Export(context.Background(), export(3)); err == nil {
		t.Fatal("a collector that was killed confirms")
	}
	if process, err = collector.Start(addresses, os.Stderr); err != nil {
		t.Fatal(err)
	}
	defer process.Kill()
	// The collector confirms only items that its sink accepts.
	received.Close()
	if status := post(t, addresses, export(4)); status == http.StatusOK {
		t.Fatal("a collector without its sink confirms")
	}
}

func post(t *testing.T, addresses collector.Addresses, request ptraceotlp.ExportRequest) int {
	t.Helper()
	body, err := request.MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post("http://"+addresses.HTTP+"/v1/traces", "application/x-protobuf", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}
