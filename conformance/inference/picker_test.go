package main

import (
	"context"
	"net"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"
)

// open begins a stream to a picker of these endpoints.
func open(t *testing.T, endpoints ...string) extproc.ExternalProcessor_ProcessClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := serverOf(&Picker{endpoints: endpoints}, false)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	stream, err := extproc.NewExternalProcessorClient(connection).Process(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func headers(ends bool, fields ...string) *extproc.ProcessingRequest {
	all := &core.HeaderMap{}
	for at := 0; at < len(fields); at += 2 {
		header := &core.HeaderValue{Key: fields[at], RawValue: []byte(fields[at+1])}
		all.Headers = append(all.Headers, header)
	}
	return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extproc.HttpHeaders{Headers: all, EndOfStream: ends},
	}}
}

func ask(t *testing.T, stream extproc.ExternalProcessor_ProcessClient, message *extproc.ProcessingRequest) *extproc.ProcessingResponse {
	t.Helper()
	if err := stream.Send(message); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func picked(answer *extproc.ProcessingResponse) (header, metadata string) {
	for _, set := range answer.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		header = string(set.GetHeader().GetRawValue())
	}
	return header, answer.GetDynamicMetadata().GetFields()[namespace].GetStructValue().GetFields()[destination].GetStringValue()
}

func TestAPickIsInTheHeaderAndInTheMetadata(t *testing.T) {
	header, metadata := picked(ask(t, open(t, "10.0.0.1:80"), headers(true)))
	if header != "10.0.0.1:80" || metadata != header {
		t.Errorf("%q, %q", header, metadata)
	}
	header, metadata = picked(ask(t, open(t), headers(true, selection, "10.0.0.2:80,10.0.0.3:80", conduct, "metadata")))
	if header != "" || metadata != "10.0.0.2:80,10.0.0.3:80" {
		t.Errorf("%q, %q", header, metadata)
	}
}

func TestABodyComesBackWholeBehindTheHeaders(t *testing.T) {
	stream := open(t, "10.0.0.1:80")
	if err := stream.Send(headers(false)); err != nil {
		t.Fatal(err)
	}
	body := &extproc.HttpBody{Body: make([]byte, maxChunk+1), EndOfStream: true}
	answer := ask(t, stream, &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: body}})
	if header, _ := picked(answer); header != "10.0.0.1:80" {
		t.Errorf("%v", answer)
	}
	bytes, ends := 0, false
	for !ends {
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		piece := answer.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		bytes, ends = bytes+len(piece.GetBody()), piece.GetEndOfStream()
	}
	if bytes != maxChunk+1 {
		t.Errorf("%d bytes", bytes)
	}
}

func TestWithoutAnEndpointTheAnswerIs503AndShedRequestsGet429(t *testing.T) {
	message := headers(true)
	hint, err := structpb.NewStruct(map[string]any{subset: []any{"10.0.0.9:80"}})
	if err != nil {
		t.Fatal(err)
	}
	message.MetadataContext = &core.Metadata{FilterMetadata: map[string]*structpb.Struct{subsetNamespace: hint}}
	answer := ask(t, open(t, "10.0.0.1:80"), message)
	if code := answer.GetImmediateResponse().GetStatus().GetCode(); code != 503 {
		t.Errorf("%v", answer)
	}
	answer = ask(t, open(t, "10.0.0.1:80"), headers(true, conduct, "shed"))
	if code := answer.GetImmediateResponse().GetStatus().GetCode(); code != 429 {
		t.Errorf("%v", answer)
	}
}

func TestResponsesSayWhoServedThem(t *testing.T) {
	message := &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extproc.HttpHeaders{},
	}}
	by, err := structpb.NewStruct(map[string]any{served: "10.0.0.1:80"})
	if err != nil {
		t.Fatal(err)
	}
	message.MetadataContext = &core.Metadata{FilterMetadata: map[string]*structpb.Struct{namespace: by}}
	answer := ask(t, open(t, "10.0.0.1:80"), message)
	set := answer.GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders()
	if len(set) != 1 || set[0].GetHeader().GetKey() != result || string(set[0].GetHeader().GetRawValue()) != "10.0.0.1:80" {
		t.Errorf("%v", answer)
	}
}
