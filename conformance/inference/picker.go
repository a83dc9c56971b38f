package main

import (
	"io"
	"slices"
	"strings"
	"sync/atomic"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// The names of the protocol, and those of its conformance tests.
const (
	namespace       = "envoy.lb"
	subsetNamespace = "envoy.lb.subset_hint"
	destination     = "x-gateway-destination-endpoint"
	subset          = "x-gateway-destination-endpoint-subset"
	served          = "x-gateway-destination-endpoint-served"
	selection       = "test-epp-endpoint-selection"
	result          = "x-conformance-test-served-endpoint"
	// How the picker is to behave.
	conduct = "x-test-picker"
)

// maxChunk is the most that a piece of a body should have (ext_proc.proto, StreamedBodyResponse).
const maxChunk = 62 * 1024

// Picker picks endpoints.
type Picker struct {
	extproc.UnimplementedExternalProcessorServer
	endpoints []string
	next      atomic.Uint64
}

// exchange is one request and its response.
type exchange struct {
	stream  extproc.ExternalProcessor_ProcessServer
	headers map[string]string
	hint    []string
	hinted  bool
	body    []byte
}

// Process serves a stream.
func (p *Picker) Process(stream extproc.ExternalProcessor_ProcessServer) error {
	one := exchange{stream: stream}
	for {
		message, err := stream.Recv()
		if err == io.EOF || status.Code(err) == codes.Canceled {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.answer(&one, message); err != nil {
			return err
		}
	}
}

func (p *Picker) answer(one *exchange, message *extproc.ProcessingRequest) error {
	switch it := message.Request.(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		one.headers = valuesOf(it.RequestHeaders.GetHeaders())
		one.hint, one.hinted = hintOf(message.GetMetadataContext())
		if it.RequestHeaders.EndOfStream {
			return p.pick(one, nil)
		}
		// The body may decide, so that the headers wait for it.
		return nil
	case *extproc.ProcessingRequest_RequestBody:
		one.body = append(one.body, it.RequestBody.GetBody()...)
		if it.RequestBody.EndOfStream {
			return p.pick(one, one.bodyBack(true))
		}
		return nil
	case *extproc.ProcessingRequest_RequestTrailers:
		if err := p.pick(one, one.bodyBack(false)); err != nil {
			return err
		}
		return one.stream.Send(&extproc.ProcessingResponse{
			Response: &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: &extproc.TrailersResponse{}},
		})
	case *extproc.ProcessingRequest_ResponseHeaders:
		return one.stream.Send(responseHeaders(servedOf(message.GetMetadataContext())))
	case *extproc.ProcessingRequest_ResponseBody:
		return one.stream.Send(&extproc.ProcessingResponse{
			Response: &extproc.ProcessingResponse_ResponseBody{
				ResponseBody: streamed(it.ResponseBody.GetBody(), it.ResponseBody.EndOfStream),
			},
		})
	case *extproc.ProcessingRequest_ResponseTrailers:
		return one.stream.Send(&extproc.ProcessingResponse{
			Response: &extproc.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extproc.TrailersResponse{}},
		})
	}
	return status.Error(codes.InvalidArgument, "a message of no known kind")
}

// pick responds to the headers of a request, and sends its body back.
func (p *Picker) pick(one *exchange, body []*extproc.ProcessingResponse) error {
	asked := one.headers[conduct]
	switch asked {
	case "hang":
		<-one.stream.Context().Done()
		return nil
	case "die":
		return status.Error(codes.Internal, "as asked")
	case "shed":
		return one.stream.Send(immediate(kind.StatusCode_TooManyRequests, "the pool has no capacity"))
	}
	endpoint := p.choice(one)
	if endpoint == "" && asked != "nothing" {
		return one.stream.Send(immediate(kind.StatusCode_ServiceUnavailable, "no endpoint is ready"))
	}
	if err := one.stream.Send(requestHeaders(endpoint, asked)); err != nil {
		return err
	}
	for _, piece := range body {
		if err := one.stream.Send(piece); err != nil {
			return err
		}
	}
	return nil
}

// choice is the list of endpoints for a request; empty where there is none.
func (p *Picker) choice(one *exchange) string {
	if one.headers[conduct] == "nothing" {
		return ""
	}
	if asked := one.headers[selection]; asked != "" {
		return asked
	}
	all := p.endpoints
	if one.hinted {
		all = slices.DeleteFunc(slices.Clone(all), func(endpoint string) bool {
			return !slices.Contains(one.hint, endpoint)
		})
	}
	if len(all) == 0 {
		return ""
	}
	return all[(p.next.Add(1)-1)%uint64(len(all))]
}

// bodyBack is the body in pieces; the last one ends it where it has no trailers.
func (one *exchange) bodyBack(ends bool) []*extproc.ProcessingResponse {
	var pieces []*extproc.ProcessingResponse
	for chunk := range slices.Chunk(one.body, maxChunk) {
		pieces = append(pieces, requestBody(chunk, false))
	}
	if ends {
		pieces = append(pieces, requestBody(nil, true))
	}
	return pieces
}

func requestBody(chunk []byte, ends bool) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{
		Response: &extproc.ProcessingResponse_RequestBody{RequestBody: streamed(chunk, ends)},
	}
}

func streamed(chunk []byte, ends bool) *extproc.BodyResponse {
	return &extproc.BodyResponse{Response: &extproc.CommonResponse{
		BodyMutation: &extproc.BodyMutation{Mutation: &extproc.BodyMutation_StreamedResponse{
			StreamedResponse: &extproc.StreamedBodyResponse{Body: chunk, EndOfStream: ends},
		}},
	}}
}

func requestHeaders(endpoint, asked string) *extproc.ProcessingResponse {
	response := &extproc.ProcessingResponse{
		Response: &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{
			Response: &extproc.CommonResponse{},
		}},
	}
	if endpoint == "" {
		return response
	}
	if asked != "metadata" {
		response.GetRequestHeaders().Response.HeaderMutation = setHeader(destination, endpoint)
	}
	if asked != "header" {
		response.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			namespace: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				destination: structpb.NewStringValue(endpoint),
			}}),
		}}
	}
	return response
}

func responseHeaders(endpoint string) *extproc.ProcessingResponse {
	response := &extproc.CommonResponse{}
	if endpoint != "" {
		response.HeaderMutation = setHeader(result, endpoint)
	}
	return &extproc.ProcessingResponse{
		Response: &extproc.ProcessingResponse_ResponseHeaders{
			ResponseHeaders: &extproc.HeadersResponse{Response: response},
		},
	}
}

func setHeader(name, value string) *extproc.HeaderMutation {
	return &extproc.HeaderMutation{SetHeaders: []*core.HeaderValueOption{{
		Header:       &core.HeaderValue{Key: name, RawValue: []byte(value)},
		AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}}
}

func immediate(code kind.StatusCode, body string) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{
		Response: &extproc.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extproc.ImmediateResponse{
			Status: &kind.HttpStatus{Code: code},
			Body:   []byte(body),
		}},
	}
}

func valuesOf(headers *core.HeaderMap) map[string]string {
	values := map[string]string{}
	for _, header := range headers.GetHeaders() {
		value := string(header.GetRawValue())
		if value == "" {
			value = header.GetValue()
		}
		values[strings.ToLower(header.GetKey())] = value
	}
	return values
}

// hintOf is the subset of endpoints that the proxy names; whether it names one.
func hintOf(metadata *core.Metadata) ([]string, bool) {
	field, ok := metadata.GetFilterMetadata()[subsetNamespace].GetFields()[subset]
	if !ok {
		return nil, false
	}
	var hint []string
	for _, value := range field.GetListValue().GetValues() {
		hint = append(hint, value.GetStringValue())
	}
	return hint, true
}

// servedOf is the endpoint that served a response.
func servedOf(metadata *core.Metadata) string {
	return metadata.GetFilterMetadata()[namespace].GetFields()[served].GetStringValue()
}
