package processor

// This file owns how messages of the proxy are read, and the responses to them.

import (
	"bytes"
	"slices"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	mode "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	status "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unknownField is a number that no version of the protocol uses.
const unknownField = 12_345

func phaseOf(message *extproc.ProcessingRequest) Phase {
	switch message.GetRequest().(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		return RequestHeaders
	case *extproc.ProcessingRequest_RequestBody:
		return RequestBody
	case *extproc.ProcessingRequest_RequestTrailers:
		return RequestTrailers
	case *extproc.ProcessingRequest_ResponseHeaders:
		return ResponseHeaders
	case *extproc.ProcessingRequest_ResponseBody:
		return ResponseBody
	case *extproc.ProcessingRequest_ResponseTrailers:
		return ResponseTrailers
	}
	return ""
}

// headersOf are the headers or trailers of a message, if it has some.
func headersOf(message *extproc.ProcessingRequest) *core.HeaderMap {
	switch one := message.GetRequest().(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		return one.RequestHeaders.GetHeaders()
	case *extproc.ProcessingRequest_ResponseHeaders:
		return one.ResponseHeaders.GetHeaders()
	case *extproc.ProcessingRequest_RequestTrailers:
		return one.RequestTrailers.GetTrailers()
	case *extproc.ProcessingRequest_ResponseTrailers:
		return one.ResponseTrailers.GetTrailers()
	}
	return nil
}

// bodyOf is the piece of a body in a message.
func bodyOf(message *extproc.ProcessingRequest) *extproc.HttpBody {
	if body := message.GetRequestBody(); body != nil {
		return body
	}
	return message.GetResponseBody()
}

func value(header *core.HeaderValue) string {
	if len(header.GetRawValue()) > 0 {
		return string(header.GetRawValue())
	}
	return header.GetValue()
}

// answer builds the response to a message from the steps of its phase.
func answer(phase Phase, steps Script, piece *extproc.HttpBody) *extproc.ProcessingResponse {
	common := &extproc.CommonResponse{}
	for _, step := range steps {
		change(common, step, piece)
	}
	response := wrap(phase, common)
	for _, step := range steps {
		switch step.Action {
		case "as":
			response = wrap(Phase(step.text(0)), common)
		case "empty":
			response = &extproc.ProcessingResponse{}
		case "immediate":
			response = immediate(step)
		}
	}
	for _, step := range steps {
		switch step.Action {
		case "override":
			response.ModeOverride = modes(step.text(0))
		case "unknown":
			unknown := protowire.AppendTag(nil, unknownField, protowire.BytesType)
			response.ProtoReflect().SetUnknown(protowire.AppendBytes(unknown, []byte("from a later version")))
		case "metadata":
			response.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{
				step.text(0): structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"value": structpb.NewStringValue(step.text(1))}}),
			}}
		}
	}
	return response
}

// change makes one change of a script.
func change(common *extproc.CommonResponse, step Step, piece *extproc.HttpBody) {
	headers := func() *extproc.HeaderMutation {
		if common.HeaderMutation == nil {
			common.HeaderMutation = &extproc.HeaderMutation{}
		}
		return common.HeaderMutation
	}
	set := func(action core.HeaderValueOption_HeaderAppendAction) {
		headers().SetHeaders = append(headers().SetHeaders, &core.HeaderValueOption{
			Header:       &core.HeaderValue{Key: step.text(0), RawValue: []byte(step.text(1))},
			AppendAction: action,
			// Envoy looks at this one alone.
			Append: wrapperspb.Bool(action == core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD),
		})
	}
	body := func(text []byte) {
		common.BodyMutation = &extproc.BodyMutation{Mutation: &extproc.BodyMutation_Body{Body: text}}
	}
	switch step.Action {
	case "set":
		set(core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	case "append":
		set(core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	case "default":
		set(core.HeaderValueOption_ADD_IF_ABSENT)
	case "large":
		step.Arguments = []string{"x-large", strings.Repeat("x", step.number(0))}
		set(core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	case "remove":
		headers().RemoveHeaders = append(headers().RemoveHeaders, step.text(0))
	case "body":
		body([]byte(step.text(0)))
	case "suffix":
		body(append(slices.Clone(piece.GetBody()), step.text(0)...))
	case "size":
		body(bytes.Repeat([]byte("x"), step.number(0)))
	case "upper":
		body(bytes.ToUpper(piece.GetBody()))
	case "clear":
		common.BodyMutation = &extproc.BodyMutation{Mutation: &extproc.BodyMutation_ClearBody{ClearBody: true}}
	case "streamed":
		streamed := &extproc.StreamedBodyResponse{Body: []byte(step.text(0)), EndOfStream: piece.GetEndOfStream()}
		common.BodyMutation = &extproc.BodyMutation{Mutation: &extproc.BodyMutation_StreamedResponse{StreamedResponse: streamed}}
	case "replace":
		common.Status = extproc.CommonResponse_CONTINUE_AND_REPLACE
	case "reroute":
		common.ClearRouteCache = true
	}
}

// wrap makes it the response to a phase.
func wrap(phase Phase, common *extproc.CommonResponse) *extproc.ProcessingResponse {
	response := &extproc.ProcessingResponse{}
	switch phase {
	case RequestHeaders:
		response.Response = &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{Response: common}}
	case ResponseHeaders:
		response.Response = &extproc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extproc.HeadersResponse{Response: common}}
	case RequestBody:
		response.Response = &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{Response: common}}
	case ResponseBody:
		response.Response = &extproc.ProcessingResponse_ResponseBody{ResponseBody: &extproc.BodyResponse{Response: common}}
	case RequestTrailers:
		trailers := &extproc.TrailersResponse{HeaderMutation: common.GetHeaderMutation()}
		response.Response = &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: trailers}
	case ResponseTrailers:
		trailers := &extproc.TrailersResponse{HeaderMutation: common.GetHeaderMutation()}
		response.Response = &extproc.ProcessingResponse_ResponseTrailers{ResponseTrailers: trailers}
	}
	return response
}

// piece is a part of a full duplex body.
func piece(phase Phase, body []byte, isLast bool) *extproc.ProcessingResponse {
	streamed := &extproc.StreamedBodyResponse{Body: body, EndOfStream: isLast}
	return wrap(phase, &extproc.CommonResponse{BodyMutation: &extproc.BodyMutation{
		Mutation: &extproc.BodyMutation_StreamedResponse{StreamedResponse: streamed}}})
}

func immediate(step Step) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extproc.ImmediateResponse{
		Status: &status.HttpStatus{Code: status.StatusCode(step.number(0))},
		Headers: &extproc.HeaderMutation{SetHeaders: []*core.HeaderValueOption{{
			Header: &core.HeaderValue{Key: "x-immediate", RawValue: []byte("yes")}}}},
		Body:    []byte(step.text(1)),
		Details: "as_the_script_says",
	}}}
}

// modes reads `request-body=Streamed,response-trailers=Skip`.
func modes(text string) *mode.ProcessingMode {
	bodies := map[string]mode.ProcessingMode_BodySendMode{"None": mode.ProcessingMode_NONE, "Streamed": mode.ProcessingMode_STREAMED,
		"Buffered": mode.ProcessingMode_BUFFERED, "BufferedPartial": mode.ProcessingMode_BUFFERED_PARTIAL,
		"FullDuplexStreamed": mode.ProcessingMode_FULL_DUPLEX_STREAMED}
	headers := map[string]mode.ProcessingMode_HeaderSendMode{"Send": mode.ProcessingMode_SEND, "Skip": mode.ProcessingMode_SKIP}
	chosen := &mode.ProcessingMode{ResponseHeaderMode: mode.ProcessingMode_SEND}
	for _, part := range strings.Split(text, ",") {
		name, setting, _ := strings.Cut(part, "=")
		switch Phase(name) {
		case RequestBody:
			chosen.RequestBodyMode = bodies[setting]
		case ResponseBody:
			chosen.ResponseBodyMode = bodies[setting]
		case ResponseHeaders:
			chosen.ResponseHeaderMode = headers[setting]
		case RequestTrailers:
			chosen.RequestTrailerMode = headers[setting]
		case ResponseTrailers:
			chosen.ResponseTrailerMode = headers[setting]
		}
	}
	return chosen
}
