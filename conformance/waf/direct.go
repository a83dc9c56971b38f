package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modes "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway.dev/waf/configuration"
)

// direct asks fairway-waf by ext_proc, in the place of a proxy.
type direct struct {
	connection *grpc.ClientConn
	client     extproc.ExternalProcessorClient
}

func dialDirect(address string) (*direct, error) {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &direct{connection, extproc.NewExternalProcessorClient(connection)}, nil
}

// send plays an exchange, and returns the status that its client would get.
func (d *direct) send(m *message, id string, mode configuration.Mode) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream, err := d.client.Process(ctx)
	if err != nil {
		return 0, err
	}
	ask := func(message *extproc.ProcessingRequest) (*extproc.ProcessingResponse, error) {
		if err := stream.Send(message); err != nil {
			_, err = stream.Recv() // It has the status.
			return nil, err
		}
		return stream.Recv()
	}
	first, err := firstMessage(m, id, mode)
	if err != nil {
		return 0, err
	}
	reply, err := ask(first)
	if err == nil && reply.GetImmediateResponse() == nil && reply.GetModeOverride().GetRequestBodyMode() != modes.ProcessingMode_NONE {
		reply, err = ask(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{
			RequestBody: &extproc.HttpBody{Body: m.Body, EndOfStream: true}}})
	}
	if err != nil || reply.GetImmediateResponse() != nil {
		return int(reply.GetImmediateResponse().GetStatus().GetCode()), err
	}
	answer := respond(m.Method, m.Target, m.Body)
	list := []*core.HeaderValue{headerValue(":status", strconv.Itoa(answer.Status))}
	for _, each := range answer.Headers {
		list = append(list, headerValue(strings.ToLower(each.Name), each.Value))
	}
	reply, err = ask(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{
		Headers: &core.HeaderMap{Headers: list}, EndOfStream: len(answer.Body) == 0}}})
	if err == nil && reply.GetImmediateResponse() == nil && reply.GetModeOverride().GetResponseBodyMode() != modes.ProcessingMode_NONE {
		reply, err = ask(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{
			ResponseBody: &extproc.HttpBody{Body: answer.Body, EndOfStream: true}}})
	}
	if err != nil {
		return 0, err
	}
	if immediate := reply.GetImmediateResponse(); immediate != nil {
		return int(immediate.GetStatus().GetCode()), nil
	}
	return answer.Status, nil
}

func firstMessage(m *message, id string, mode configuration.Mode) (*extproc.ProcessingRequest, error) {
	metadata, err := structpb.NewStruct(map[string]any{
		"mode": string(mode), "core_rule_set": true, "directives": directives, "name": "conformance",
	})
	if err != nil {
		return nil, err
	}
	attributes, err := structpb.NewStruct(map[string]any{
		"source.address": clientAddress, "source.port": fmt.Sprint(clientPort), "destination.port": fmt.Sprint(serverPort),
		"request.protocol": m.Protocol, "waf.transaction_id": id,
	})
	if err != nil {
		return nil, err
	}
	list := []*core.HeaderValue{headerValue(":method", m.Method), headerValue(":path", m.Target), headerValue(":scheme", "http")}
	for _, each := range m.Headers {
		name := strings.ToLower(each.Name)
		if name == "host" {
			name = ":authority"
		}
		list = append(list, headerValue(name, each.Value))
	}
	return &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{
			Headers: &core.HeaderMap{Headers: list}, EndOfStream: len(m.Body) == 0}},
		MetadataContext: &core.Metadata{FilterMetadata: map[string]*structpb.Struct{"fairway.waf": metadata}},
		Attributes:      map[string]*structpb.Struct{"envoy.filters.http.ext_proc": attributes},
		ProtocolConfig:  &extproc.ProtocolConfiguration{},
	}, nil
}

func headerValue(name, value string) *core.HeaderValue {
	return &core.HeaderValue{Key: name, RawValue: []byte(value)}
}
