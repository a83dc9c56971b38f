package processor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/corazawaf/coraza/v3/types"
	modes "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway.dev/waf/audit"
	"fairway.dev/waf/configuration"
	"fairway.dev/waf/metrics"
)

// part is a part of an exchange that the caller may show next.
type part int

const (
	requestHeaders part = iota
	requestBody
	responseHeaders
	responseBody
	nothing
)

// Names of phases in metrics, logs and details.
const (
	phaseRequestHeaders  = "request_headers"
	phaseRequestBody     = "request_body"
	phaseResponseHeaders = "response_headers"
	phaseResponseBody    = "response_body"
	phaseLogging         = "logging"
)

// exchange is a request and its response.
type exchange struct {
	server *Server
	request
	waf  *configuration.WAF
	tx   types.Transaction // nil before the request headers, and after it was given back
	next part
	// Bytes of bodies that Coraza holds.
	reserved int64
	// Whether a part of the body that is shown now was shown before.
	bodySeen bool

	method, path, host string
	status             int
	interruptedIn      string
}

// reserve takes from the memory for bodies. It is called with a received piece: announced data costs nothing.
func (x *exchange) reserve(piece *extproc.HttpBody) error {
	bytes := int64(len(piece.GetBody()))
	if !x.server.buffered.take(bytes) {
		x.server.metrics.Rejected.Add(1)
		return status.Error(codes.ResourceExhausted, "bodies take as much memory as --max-buffered-bytes allows")
	}
	x.reserved += bytes
	return nil
}

// handle shows a message to the WAF.
func (x *exchange) handle(ctx context.Context, message *extproc.ProcessingRequest) (*extproc.ProcessingResponse, error) {
	if (x.next == requestHeaders) != (message.GetRequestHeaders() != nil) {
		return nil, status.Error(codes.InvalidArgument, "a stream begins with the headers of its request, and has them once")
	}
	switch part := message.GetRequest().(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		return x.requestHeaders(ctx, message, part.RequestHeaders)
	case *extproc.ProcessingRequest_RequestBody:
		return x.requestBody(part.RequestBody)
	case *extproc.ProcessingRequest_RequestTrailers:
		return x.or(continueRequestTrailers(), x.endRequest)
	case *extproc.ProcessingRequest_ResponseHeaders:
		if reply, err := x.or(nil, x.endRequest); reply != nil || err != nil {
			return reply, err
		}
		return x.responseHeaders(part.ResponseHeaders)
	case *extproc.ProcessingRequest_ResponseBody:
		return x.responseBody(part.ResponseBody)
	case *extproc.ProcessingRequest_ResponseTrailers:
		return x.or(continueResponseTrailers(), x.endResponse)
	}
	return nil, status.Error(codes.InvalidArgument, "a message of a kind that is not known")
}

// or is the reply if a step lets the exchange pass, else the interruption.
func (x *exchange) or(pass *extproc.ProcessingResponse, step func() (*types.Interruption, error)) (*extproc.ProcessingResponse, error) {
	in, err := step()
	if err != nil {
		return nil, err
	}
	if in != nil {
		return x.interrupt(in), nil
	}
	return pass, nil
}

func (x *exchange) interrupt(in *types.Interruption) *extproc.ProcessingResponse {
	x.next = nothing
	x.status = interruptionStatus(in)
	details := fmt.Sprintf("waf_rule_%d_%s", in.RuleID, x.interruptedIn)
	if in.RuleID == 0 {
		details = "waf_body_limit_" + x.interruptedIn
	}
	return interrupt(in, details)
}

// step runs a phase and notes which one interrupted.
func (x *exchange) step(phase string, run func() (*types.Interruption, error)) (*types.Interruption, error) {
	begin := time.Now()
	in, err := run()
	x.server.metrics.Step(phase, time.Since(begin))
	if err != nil {
		x.server.log.Error("a phase failed", "configuration", x.name, "transaction", x.id, "phase", phase, "error", err)
		return nil, status.Errorf(codes.Internal, "%s: the phase %s failed", x.name, phase)
	}
	if in != nil && x.interruptedIn == "" {
		x.interruptedIn = phase
	}
	return in, nil
}

func (x *exchange) requestHeaders(ctx context.Context, message *extproc.ProcessingRequest, shown *extproc.HttpHeaders) (
	*extproc.ProcessingResponse, error) {
	var err error
	if x.request, err = readRequest(message); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	const duplex = modes.ProcessingMode_FULL_DUPLEX_STREAMED
	if x.modes.GetRequestBodyMode() == duplex || x.modes.GetResponseBodyMode() == duplex {
		return nil, status.Error(codes.InvalidArgument, "FULL_DUPLEX_STREAMED is not supported; use BUFFERED or NONE with mode_override")
	}
	if x.waf, err = x.server.waf(ctx, x.request); err != nil {
		return nil, err
	}
	if x.id == "" {
		x.tx = x.waf.NewTransaction()
		x.id = x.tx.ID()
	} else {
		x.tx = x.waf.NewTransactionWithID(x.id)
	}
	if x.tx.IsRuleEngineOff() {
		x.next = nothing
		return continueRequestHeaders(modes.ProcessingMode_NONE, false), nil
	}
	x.showRequest(headers(shown.GetHeaders()), !shown.GetEndOfStream())
	in, err := x.step(phaseRequestHeaders, func() (*types.Interruption, error) { return x.tx.ProcessRequestHeaders(), nil })
	if err != nil || in != nil {
		return x.or(nil, func() (*types.Interruption, error) { return in, err })
	}
	if x.tx.IsRuleEngineOff() {
		x.next = nothing // A rule says so.
		return continueRequestHeaders(modes.ProcessingMode_NONE, false), nil
	}
	x.next = requestBody
	body := modes.ProcessingMode_NONE
	if shown.GetEndOfStream() || !x.tx.IsRequestBodyAccessible() {
		if in, err := x.endRequest(); in != nil || err != nil {
			return x.or(nil, func() (*types.Interruption, error) { return in, err })
		}
	} else {
		body = bodyMode(x.waf.PartialRequest)
	}
	return continueRequestHeaders(body, true), nil
}

// bodyMode asks for a body as far as the WAF examines it: whole, or its first bytes.
func bodyMode(partial bool) modes.ProcessingMode_BodySendMode {
	if partial {
		return modes.ProcessingMode_BUFFERED_PARTIAL
	}
	return modes.ProcessingMode_BUFFERED
}

// showRequest gives the request line and the headers to the transaction.
func (x *exchange) showRequest(list []header, hasBody bool) {
	hosts, authority, framed := 0, false, false
	for _, each := range list {
		switch each.name {
		case ":method":
			x.method = each.value
		case ":path":
			x.path = each.value
		case ":authority":
			x.host, authority = each.value, true
		case "content-length", "transfer-encoding":
			framed = true
		case "host":
			hosts++
			if x.host == "" {
				x.host = each.value
			}
		}
	}
	x.tx.ProcessConnection(x.client, x.clientPort, x.request.server, x.serverPort)
	x.tx.ProcessURI(x.path, x.method, x.protocol)
	for _, each := range list {
		if !strings.HasPrefix(each.name, ":") {
			x.tx.AddRequestHeader(each.name, each.value)
		}
	}
	if hosts == 0 && authority { // An empty one is not the same as none.
		x.tx.AddRequestHeader("Host", x.host)
	}
	// Proxies do not show it. Rules look for it where a body has no length, and in HTTP/1.1 there is no other way to send one.
	if hasBody && !framed && x.protocol == "HTTP/1.1" {
		x.tx.AddRequestHeader("Transfer-Encoding", "chunked")
	}
	x.tx.SetServerName(x.host)
}

func (x *exchange) requestBody(piece *extproc.HttpBody) (*extproc.ProcessingResponse, error) {
	if x.next != requestBody {
		if err := x.excess(piece, x.next == responseHeaders && x.tx.IsRequestBodyAccessible() && x.bodySeen); err != nil {
			return nil, err
		}
		return continueRequestBody(), nil
	}
	if err := x.reserve(piece); err != nil {
		return nil, err
	}
	in, err := x.step(phaseRequestBody, func() (*types.Interruption, error) {
		in, _, err := x.tx.WriteRequestBody(piece.GetBody())
		return in, err
	})
	x.bodySeen = true
	if in == nil && err == nil && x.isWhole(piece, x.modes.GetRequestBodyMode()) {
		in, err = x.endRequest()
	}
	return x.or(continueRequestBody(), func() (*types.Interruption, error) { return in, err })
}

// isWhole reports whether the rest of a body will not be shown, or must not pass unseen.
func (x *exchange) isWhole(piece *extproc.HttpBody, mode modes.ProcessingMode_BodySendMode) bool {
	return piece.GetEndOfStream() || x.waf.Blocking ||
		mode == modes.ProcessingMode_BUFFERED || mode == modes.ProcessingMode_BUFFERED_PARTIAL
}

// excess is a piece of a body after the verdict on that body. A caller that shows bodies piece by piece would let an attack in the second
// piece pass, unless nothing is blocked anyway.
func (x *exchange) excess(piece *extproc.HttpBody, examined bool) error {
	if !examined || !x.waf.Blocking || len(piece.GetBody()) == 0 {
		return nil
	}
	return status.Error(codes.FailedPrecondition, "a body came in pieces; a WAF that blocks needs BUFFERED bodies, or allow_mode_override")
}

// endRequest runs phase 2, if it has not run.
func (x *exchange) endRequest() (*types.Interruption, error) {
	if x.next != requestBody {
		return nil, nil
	}
	x.next = responseHeaders
	return x.step(phaseRequestBody, x.tx.ProcessRequestBody)
}

func (x *exchange) responseHeaders(shown *extproc.HttpHeaders) (*extproc.ProcessingResponse, error) {
	if x.next != responseHeaders {
		return nil, status.Error(codes.InvalidArgument, "the headers of a response came twice")
	}
	for _, each := range headers(shown.GetHeaders()) {
		switch {
		case each.name == ":status":
			x.status, _ = strconv.Atoi(each.value)
		case !strings.HasPrefix(each.name, ":"):
			x.tx.AddResponseHeader(each.name, each.value)
		}
	}
	in, err := x.step(phaseResponseHeaders, func() (*types.Interruption, error) {
		return x.tx.ProcessResponseHeaders(x.status, x.protocol), nil
	})
	if err != nil || in != nil {
		return x.or(nil, func() (*types.Interruption, error) { return in, err })
	}
	x.next, x.bodySeen = responseBody, false
	if shown.GetEndOfStream() || !x.tx.IsResponseBodyAccessible() || !x.tx.IsResponseBodyProcessable() {
		return x.or(continueResponseHeaders(modes.ProcessingMode_NONE), x.endResponse)
	}
	return continueResponseHeaders(bodyMode(x.waf.PartialResponse)), nil
}

func (x *exchange) responseBody(piece *extproc.HttpBody) (*extproc.ProcessingResponse, error) {
	if x.next != responseBody {
		return nil, status.Error(codes.InvalidArgument, "the body of a response came before its headers")
	}
	if err := x.reserve(piece); err != nil {
		return nil, err
	}
	in, err := x.step(phaseResponseBody, func() (*types.Interruption, error) {
		in, _, err := x.tx.WriteResponseBody(piece.GetBody())
		return in, err
	})
	if in == nil && err == nil && x.isWhole(piece, x.modes.GetResponseBodyMode()) {
		in, err = x.endResponse()
	}
	return x.or(continueResponseBody(), func() (*types.Interruption, error) { return in, err })
}

// endResponse runs phase 4, after which nothing of the exchange is of interest: the stream ends.
func (x *exchange) endResponse() (*types.Interruption, error) {
	if x.next != responseBody {
		return nil, nil
	}
	x.next = nothing
	return x.step(phaseResponseBody, x.tx.ProcessResponseBody)
}

// finish runs phase 5, writes the audit log and gives the transaction back. It is called once, however the stream ended.
func (x *exchange) finish(err error) {
	defer x.release()
	if x.tx == nil {
		if err != nil {
			x.server.metrics.Finished(metrics.Failed, "", nil)
		}
		return
	}
	_, _ = x.step(phaseLogging, func() (*types.Interruption, error) {
		x.tx.ProcessLogging()
		return nil, nil
	})
	result := metrics.Passed
	switch {
	case err != nil:
		result = metrics.Failed
	case x.tx.IsInterrupted():
		result = metrics.Interrupted
	}
	entry := x.entry()
	matched := entry.Describe(x.tx.MatchedRules())
	if (matched || entry.Interrupted) && x.waf.Audit && x.server.audit != nil {
		x.server.audit.Write(entry)
	}
	x.server.metrics.Finished(result, x.interruptedIn, entry.RuleIDs)
	if err := x.tx.Close(); err != nil {
		x.server.log.Warn("a transaction was not closed", "transaction", x.id, "error", err)
	}
	x.tx = nil
}

// abandon counts an exchange whose transaction cannot be used.
func (x *exchange) abandon() {
	x.release()
	x.server.metrics.Finished(metrics.Failed, "", nil)
}

func (x *exchange) release() {
	x.server.buffered.give(x.reserved)
	x.reserved = 0
}

func (x *exchange) entry() *audit.Entry {
	path, _, _ := strings.Cut(x.path, "?")
	entry := &audit.Entry{
		Time: time.Now().UTC(), ID: x.id, Configuration: x.name, Mode: string(x.waf.Mode), Client: x.client, Host: x.host,
		Method: x.method, Path: path, Protocol: x.protocol, Status: x.status,
	}
	in := x.tx.Interruption()
	entry.Interrupted = in != nil
	if detecting, ok := x.tx.(interface{ DetectionOnlyInterruption() *types.Interruption }); ok && in == nil {
		in = detecting.DetectionOnlyInterruption()
	}
	if in != nil {
		entry.Interruption = &audit.Decision{Rule: in.RuleID, Action: in.Action, Status: interruptionStatus(in), Phase: x.interruptedIn}
	}
	return entry
}
