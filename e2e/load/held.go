package load

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// Holding keeps streams of gRPC open, one after the other: half of them have messages in one direction, half in both.
type Holding struct {
	plan    Plan
	stop    context.CancelFunc
	holders sync.WaitGroup

	lock sync.Mutex
	held Held
}

// Held are the outcomes of the streams.
type Held struct {
	// Streams that have an outcome, Completed those that had all of their messages and a good end.
	Streams, Completed int
	Messages           int
	// Events are the others.
	Events []Event
}

const (
	// beat is the time between two messages, and beats how many a stream has.
	beat  = 100 * time.Millisecond
	beats = 80
	// StreamLength is how long a stream lasts that nothing ends.
	StreamLength = beats * beat
	// stillness is how long a stream may be silent before it counts as hanging: far beyond what a busy machine costs.
	stillness = 20 * time.Second
)

// Hanging is a stream that neither continues nor ends.
const Hanging Class = "hanging"

// Hold begins; of the plan address, host, TLS, ports and the number of clients count.
func Hold(plan Plan) *Holding {
	ctx, stop := context.WithCancel(context.Background())
	h := &Holding{plan: plan.withDefaults(), stop: stop}
	for number := range plan.Clients {
		h.holders.Go(func() { h.run(ctx, number) })
	}
	return h
}

// Stop waits until all streams have ended and says what became of them.
func (h *Holding) Stop() Held {
	h.stop()
	h.holders.Wait()
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.held
}

func (h *Holding) run(ctx context.Context, number int) {
	conn := h.plan.dial()
	defer conn.Close()
	for ctx.Err() == nil {
		event := Event{Method: "POST", Begin: time.Now()}
		event.Opened, event.Connected = event.Begin, event.Begin
		hold := serverStream
		if number%2 == 1 {
			hold = bothWays
		}
		got, err := watched(conn, hold)
		event.End = time.Now()
		h.note(event, got, err)
	}
}

func (h *Holding) note(event Event, got int, err error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.held.Streams++
	h.held.Messages += got
	switch {
	case err == nil && got == beats:
		h.held.Completed++
		return
	case err == nil:
		event.Class, event.Detail = Truncated, "a good end, but messages are missing"
	case errors.Is(err, errHanging):
		event.Class = Hanging
	default:
		failed := failureOf(err)
		event.Class, event.Reason, event.Detail = failed.class, failed.reason, err.Error()
	}
	event.Exchange = got
	h.held.Events = append(h.held.Events, event)
}

var errHanging = errors.New("no message and no end")

// watched runs a stream, and cancels it when it is still.
func watched(conn *grpc.ClientConn, hold func(context.Context, testgrpc.TestServiceClient, func()) error) (int, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	still := time.AfterFunc(stillness, func() { cancel(errHanging) })
	defer still.Stop()
	got := 0
	err := hold(ctx, testgrpc.NewTestServiceClient(conn), func() {
		got++
		still.Reset(stillness)
	})
	if cause := context.Cause(ctx); cause != nil {
		return got, cause
	}
	return got, err
}

func parameters(count int) []*testgrpc.ResponseParameters {
	var all []*testgrpc.ResponseParameters
	for range count {
		all = append(all, &testgrpc.ResponseParameters{Size: 100, IntervalUs: int32(beat.Microseconds())})
	}
	return all
}

func serverStream(ctx context.Context, client testgrpc.TestServiceClient, got func()) error {
	stream, err := client.StreamingOutputCall(ctx, &testgrpc.StreamingOutputCallRequest{ResponseParameters: parameters(beats)})
	if err != nil {
		return err
	}
	return received(stream.Recv, got)
}

func bothWays(ctx context.Context, client testgrpc.TestServiceClient, got func()) error {
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	for range beats {
		err := stream.Send(&testgrpc.StreamingOutputCallRequest{ResponseParameters: parameters(1)})
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// The receiving side reports the end of a stream.
		if _, err := stream.Recv(); err != nil {
			return endError(err)
		}
		got()
		time.Sleep(beat)
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return received(stream.Recv, got)
}

func received(receive func() (*testgrpc.StreamingOutputCallResponse, error), got func()) error {
	for {
		if _, err := receive(); err != nil {
			return endError(err)
		}
		got()
	}
}

// endError is nil if the stream ended as expected.
func endError(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
