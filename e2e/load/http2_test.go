package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// failing responds to calls as Fairway does when a pod dies: every tenth call fails, and every stream after a message.
type failing struct {
	testgrpc.UnimplementedTestServiceServer
}

func (failing) UnaryCall(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	id := metadata.ValueFromIncomingContext(ctx, "id")[0]
	if strings.HasSuffix(id, "0") {
		return nil, status.Error(codes.Unavailable, "502 Bad Gateway: upstream_closed")
	}
	return &testgrpc.SimpleResponse{Username: "pod", OauthScope: id}, nil
}

func (failing) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, stream testgrpc.TestService_StreamingOutputCallServer) error {
	if err := stream.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "upstream_truncated")
}

// tlsPlan starts a server of HTTP/2 over TLS for requests and calls, and a plan of its clients.
func tlsPlan(t *testing.T) Plan {
	t.Helper()
	calls := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(calls, failing{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
			calls.ServeHTTP(w, r)
		case r.ProtoMajor != 2:
			http.Error(w, "HTTP/2 was to be spoken", http.StatusHTTPVersionNotSupported)
		default:
			fmt.Fprintf(w, "pod=pod id=%s method=%s\n", r.URL.Query().Get("id"), r.Method)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	return Plan{
		Name: "n", Address: server.Listener.Addr().String(), Host: "example.com", Rate: 400, Clients: 6, Sharing: 3,
		TLS: &tls.Config{RootCAs: trusted, ServerName: "example.com"},
	}
}

func outcome(t *testing.T, plan Plan, count int) Report {
	t.Helper()
	stream := Start(plan)
	defer stream.Stop()
	if err := stream.AwaitRequests(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	return stream.Stop()
}

func TestClientsOfHTTP2ShareConnections(t *testing.T) {
	plan := tlsPlan(t)
	plan.Protocol, plan.PostEvery = HTTP2, 5
	got := outcome(t, plan, 120).Counts
	if got.OK != got.Requests || got.Posts < 20 || got.Connections != 2 {
		t.Fatalf("%+v", got)
	}
}

func TestCallsAreClassedByTheirStatusAndReason(t *testing.T) {
	plan := tlsPlan(t)
	plan.Protocol = GRPC
	got := outcome(t, plan, 120).Counts
	lost := got.Failed["grpc Unavailable upstream_closed"]
	if lost < 6 || got.OK+lost != got.Requests || got.Posts != got.Requests {
		t.Fatalf("%+v", got)
	}
}

func TestAStreamThatEndsEarlyIsNotCompleted(t *testing.T) {
	plan := tlsPlan(t)
	plan.Clients = 1
	var held Held
	for held.Streams == 0 {
		// One that is stopped before it begins has none.
		held = Hold(plan).Stop()
	}
	event := held.Events[0]
	if held.Completed != 0 || event.Class != "grpc Unavailable" || event.Reason != "upstream_truncated" || event.Exchange != 1 {
		t.Fatalf("%+v", held)
	}
}
