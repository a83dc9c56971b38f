package load

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// calls is a channel of grpc-go, which keeps its connection itself. It sends a call again only where the server has not begun it.
type calls struct {
	plan *Plan
	conn *grpc.ClientConn
}

func newCalls(plan *Plan) *calls { return &calls{plan: plan, conn: plan.dial()} }

// dial makes the channel; it connects with the first call.
func (p *Plan) dial() *grpc.ClientConn {
	dialer := net.Dialer{Timeout: p.ConnectTimeout, KeepAlive: -1}
	conn, err := grpc.NewClient("passthrough:///"+p.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(p.TLS)), grpc.WithAuthority(p.Host), grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return p.Ports.dial(ctx, dialer, address) }))
	if err != nil {
		// Nothing is connected yet: only options that contradict each other fail.
		panic(fmt.Sprintf("a channel to %s: %v", p.Address, err))
	}
	return conn
}

func (c *calls) ask(event *Event) (string, *failure) {
	ctx, cancel := context.WithTimeout(context.Background(), c.plan.AnswerTimeout)
	defer cancel()
	event.Opened, event.Connected = event.Begin, event.Begin
	ctx = metadata.AppendToOutgoingContext(ctx, "id", event.ID, "delay", c.plan.Delay.String())
	answer, err := testgrpc.NewTestServiceClient(c.conn).UnaryCall(ctx, &testgrpc.SimpleRequest{})
	if err != nil {
		return "", failureOf(err)
	}
	if answer.GetOauthScope() != event.ID || answer.GetUsername() == "" {
		return "", fail(WrongBody, fmt.Errorf("answered %v", answer))
	}
	return answer.GetUsername(), nil
}

// failureOf is a status with Fairway's reason, as in "502 Bad Gateway: upstream_closed" or "upstream_truncated".
func failureOf(err error) *failure {
	found := status.Convert(err)
	reason := found.Message()
	if _, after, cut := strings.Cut(reason, ": "); cut && reason[0] >= '4' && reason[0] <= '5' {
		reason = after
	}
	return &failure{class: Class("grpc " + found.Code().String()), reason: reason[:min(len(reason), 60)], cause: err}
}

// close cannot fail in a way that matters: all calls have an outcome.
func (c *calls) close() { _ = c.conn.Close() }

// Call makes one call and returns its outcome.
func Call(plan Plan) Sight {
	plan = plan.withDefaults()
	c := newCalls(&plan)
	defer c.close()
	event := Event{ID: "probe", Begin: time.Now()}
	pod, failed := c.ask(&event)
	if failed != nil {
		return Sight{Class: failed.class, Reason: failed.reason, At: time.Now()}
	}
	return Sight{Class: OK, Pod: pod, At: time.Now()}
}
