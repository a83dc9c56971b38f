package processor

import (
	"net/http"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modes "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/corazawaf/coraza/v3/types"
)

// continueRequestHeaders lets a request pass, and selects the later parts of it and its response to be shown.
func continueRequestHeaders(body modes.ProcessingMode_BodySendMode, response bool) *extproc.ProcessingResponse {
	headers := modes.ProcessingMode_SKIP
	if response {
		headers = modes.ProcessingMode_SEND
	}
	return &extproc.ProcessingResponse{
		Response:     &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{}},
		ModeOverride: override(body, headers, modes.ProcessingMode_NONE),
	}
}

func continueResponseHeaders(body modes.ProcessingMode_BodySendMode) *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{
		Response:     &extproc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extproc.HeadersResponse{}},
		ModeOverride: override(modes.ProcessingMode_NONE, modes.ProcessingMode_SEND, body),
	}
}

func override(request modes.ProcessingMode_BodySendMode, headers modes.ProcessingMode_HeaderSendMode,
	response modes.ProcessingMode_BodySendMode) *modes.ProcessingMode {
	return &modes.ProcessingMode{
		RequestHeaderMode: modes.ProcessingMode_SEND, ResponseHeaderMode: headers,
		RequestBodyMode: request, ResponseBodyMode: response,
		RequestTrailerMode: modes.ProcessingMode_SKIP, ResponseTrailerMode: modes.ProcessingMode_SKIP,
	}
}

func continueRequestBody() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{}}}
}

func continueResponseBody() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseBody{ResponseBody: &extproc.BodyResponse{}}}
}

func continueRequestTrailers() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: &extproc.TrailersResponse{}}}
}

func continueResponseTrailers() *extproc.ProcessingResponse {
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extproc.TrailersResponse{}}}
}

// interruptionStatus is what the client of an interrupted request gets. `drop` cannot close its connection, and refuses it as `deny` does.
func interruptionStatus(in *types.Interruption) int {
	code := in.Status
	switch in.Action {
	case "redirect":
		if code < 300 || code > 399 {
			code = http.StatusFound
		}
	case "deny":
		if code < 200 || code > 599 {
			code = http.StatusForbidden
		}
	default:
		code = http.StatusForbidden
	}
	if _, known := envoytype.StatusCode_name[int32(code)]; !known {
		code = http.StatusForbidden
	}
	return code
}

// interrupt responds to a request in place of its endpoint. The deciding rule is for the log, not for the client.
func interrupt(in *types.Interruption, details string) *extproc.ProcessingResponse {
	code := interruptionStatus(in)
	reply := &extproc.ImmediateResponse{
		Status:  &envoytype.HttpStatus{Code: envoytype.StatusCode(code)},
		Headers: &extproc.HeaderMutation{SetHeaders: []*core.HeaderValueOption{setHeader("content-type", "text/plain; charset=utf-8")}},
		Body:    []byte(http.StatusText(code) + "\n"),
		Details: details,
	}
	if in.Action == "redirect" {
		reply.Headers.SetHeaders = append(reply.Headers.SetHeaders, setHeader("location", in.Data))
	}
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{ImmediateResponse: reply}}
}

func setHeader(name, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{
		Header:       &core.HeaderValue{Key: name, RawValue: []byte(value)},
		AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
