package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// calls is the service of gRPC's interoperability tests as far as streams of calls need it, on the same port as HTTP.
type calls struct {
	testgrpc.UnimplementedTestServiceServer
	*answering
}

// either is a handler for both: calls are recognised by their content type.
func either(a *answering) http.Handler {
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, calls{answering: a})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			server.ServeHTTP(w, r)
			return
		}
		a.ServeHTTP(w, r)
	})
}

// UnaryCall is recorded, waits as long as its metadata says, and returns its pod and id.
func (c calls) UnaryCall(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	id := one(ctx, "id")
	if err := c.notes.write(id); err != nil {
		log.Printf("backend: note call %s: %v", id, err)
	}
	if delay, err := time.ParseDuration(one(ctx, "delay")); err == nil {
		time.Sleep(delay)
	}
	return &testgrpc.SimpleResponse{Username: c.pod, OauthScope: id}, nil
}

// StreamingOutputCall sends messages at the requested times.
func (c calls) StreamingOutputCall(request *testgrpc.StreamingOutputCallRequest, stream testgrpc.TestService_StreamingOutputCallServer) error {
	for _, wanted := range request.GetResponseParameters() {
		time.Sleep(time.Duration(wanted.GetIntervalUs()) * time.Microsecond)
		if err := stream.Send(message(wanted.GetSize())); err != nil {
			return err
		}
	}
	return nil
}

// FullDuplexCall responds to each message with the requested ones.
func (c calls) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, wanted := range request.GetResponseParameters() {
			if err := stream.Send(message(wanted.GetSize())); err != nil {
				return err
			}
		}
	}
}

func message(size int32) *testgrpc.StreamingOutputCallResponse {
	return &testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, size)}}
}

func one(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}
