package main

import (
	"context"
	"io"
	"log"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// grpc-go compresses all messages of a call or none, so the cases of streams ask for one kind in each call, and both kinds
// in turn.
var switches = []bool{true, false}

type sawCompressed struct{}

// watcher remembers for each call whether its last received message was compressed.
type watcher struct{}

func (watcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	if ctx.Value(sawCompressed{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, sawCompressed{}, new(atomic.Bool))
}

func (watcher) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if message, ok := event.(*stats.InPayload); ok {
		ctx.Value(sawCompressed{}).(*atomic.Bool).Store(message.CompressedLength != message.Length)
	}
}

func (watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (watcher) HandleConn(context.Context, stats.ConnStats) {}

func wasCompressed(ctx context.Context) bool {
	return ctx.Value(sawCompressed{}).(*atomic.Bool).Load()
}

// compressing is grpc-go's test server with what it lacks: the fields that ask for compression.
type compressing struct {
	testgrpc.TestServiceServer
}

func expect(ctx context.Context, expected *testpb.BoolValue) error {
	if expected.GetValue() && !wasCompressed(ctx) {
		return status.Error(codes.InvalidArgument, "the message is not compressed")
	}
	return nil
}

func compress(ctx context.Context, asked *testpb.BoolValue) error {
	if asked.GetValue() {
		return grpc.SetSendCompressor(ctx, gzip.Name)
	}
	return nil
}

func (s compressing) UnaryCall(ctx context.Context, request *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if err := expect(ctx, request.GetExpectCompressed()); err != nil {
		return nil, err
	}
	if err := compress(ctx, request.GetResponseCompressed()); err != nil {
		return nil, err
	}
	return s.TestServiceServer.UnaryCall(ctx, request)
}

func (s compressing) StreamingOutputCall(
	request *testpb.StreamingOutputCallRequest, stream testgrpc.TestService_StreamingOutputCallServer,
) error {
	for _, parameters := range request.GetResponseParameters() {
		if err := compress(stream.Context(), parameters.GetCompressed()); err != nil {
			return err
		}
	}
	return s.TestServiceServer.StreamingOutputCall(request, stream)
}

func (s compressing) StreamingInputCall(stream testgrpc.TestService_StreamingInputCallServer) error {
	return s.TestServiceServer.StreamingInputCall(expecting{stream})
}

// expecting refuses messages that are not compressed as they say.
type expecting struct {
	testgrpc.TestService_StreamingInputCallServer
}

func (s expecting) Recv() (*testpb.StreamingInputCallRequest, error) {
	request, err := s.TestService_StreamingInputCallServer.Recv()
	if err == nil {
		err = expect(s.Context(), request.GetExpectCompressed())
	}
	return request, err
}

func usingGzip(on bool) []grpc.CallOption {
	if on {
		return []grpc.CallOption{grpc.UseCompressor(gzip.Name)}
	}
	return nil
}

func yes(on bool) *testpb.BoolValue { return &testpb.BoolValue{Value: on} }

func payload() *testpb.Payload {
	return interop.ClientNewPayload(testpb.PayloadType_COMPRESSABLE, 271828)
}

func clientCompressedUnary(ctx context.Context, client testgrpc.TestServiceClient, _ ...grpc.CallOption) {
	request := &testpb.SimpleRequest{ExpectCompressed: yes(true), ResponseSize: 314159, Payload: payload()}
	if _, err := client.UnaryCall(ctx, request); status.Code(err) != codes.InvalidArgument {
		log.Fatalf("the server does not notice that a message is not compressed: %v", err)
	}
	for _, on := range switches {
		request.ExpectCompressed = yes(on)
		response, err := client.UnaryCall(ctx, request, usingGzip(on)...)
		if err != nil || len(response.GetPayload().GetBody()) != 314159 {
			log.Fatalf("compressed %v: %d bytes, %v", on, len(response.GetPayload().GetBody()), err)
		}
	}
}

func clientCompressedStreaming(ctx context.Context, client testgrpc.TestServiceClient, _ ...grpc.CallOption) {
	send := func(on, expected bool) (*testpb.StreamingInputCallResponse, error) {
		stream, err := client.StreamingInputCall(ctx, usingGzip(on)...)
		if err != nil {
			log.Fatal(err)
		}
		for _, size := range []int{27182, 45904} {
			body := interop.ClientNewPayload(testpb.PayloadType_COMPRESSABLE, size)
			err := stream.Send(&testpb.StreamingInputCallRequest{ExpectCompressed: yes(expected), Payload: body})
			if err != nil && err != io.EOF {
				log.Fatal(err)
			}
		}
		return stream.CloseAndRecv()
	}
	if _, err := send(false, true); status.Code(err) != codes.InvalidArgument {
		log.Fatalf("the server does not notice that a message is not compressed: %v", err)
	}
	for _, on := range switches {
		if response, err := send(on, on); err != nil || response.GetAggregatedPayloadSize() != 27182+45904 {
			log.Fatalf("compressed %v: %v, %v", on, response, err)
		}
	}
}

func serverCompressedUnary(ctx context.Context, client testgrpc.TestServiceClient, _ ...grpc.CallOption) {
	for _, on := range switches {
		ctx := watcher{}.TagRPC(ctx, nil)
		request := &testpb.SimpleRequest{ResponseCompressed: yes(on), ResponseSize: 314159, Payload: payload()}
		response, err := client.UnaryCall(ctx, request)
		if err != nil || len(response.GetPayload().GetBody()) != 314159 || wasCompressed(ctx) != on {
			log.Fatalf("compressed %v, should be %v: %v", wasCompressed(ctx), on, err)
		}
	}
}

func serverCompressedStreaming(ctx context.Context, client testgrpc.TestServiceClient, _ ...grpc.CallOption) {
	for _, on := range switches {
		ctx := watcher{}.TagRPC(ctx, nil)
		sizes := []int32{31415, 92653}
		request := &testpb.StreamingOutputCallRequest{}
		for _, size := range sizes {
			one := &testpb.ResponseParameters{Compressed: yes(on), Size: size}
			request.ResponseParameters = append(request.ResponseParameters, one)
		}
		stream, err := client.StreamingOutputCall(ctx, request)
		if err != nil {
			log.Fatal(err)
		}
		for _, size := range sizes {
			response, err := stream.Recv()
			// tonic's server cannot leave a stream uncompressed once it may compress.
			if err != nil || len(response.GetPayload().GetBody()) != int(size) || on && !wasCompressed(ctx) {
				log.Fatalf("compressed %v, should be %v: %v", wasCompressed(ctx), on, err)
			}
		}
		if _, err := stream.Recv(); err != io.EOF {
			log.Fatal("no end: ", err)
		}
	}
}
