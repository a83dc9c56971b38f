// Package authorizer owns an ext_authz service that decides as each request asks it to.
package authorizer

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway.dev/conformance/extensions/connections"
)

// ScriptHeader is the request header with `ACTION ARGUMENT...; ...`: what the service does with the request. CaseHeader names it.
const (
	ScriptHeader = "x-script"
	CaseHeader   = "x-case"
	silence      = 30 * time.Second
)

// Server is the service.
type Server struct {
	auth.UnimplementedAuthorizationServer
	// Port is where it listens.
	Port     int
	listener *connections.Listener
	grpc     *grpc.Server
	mutex    sync.Mutex
	asked    map[string][]*auth.AttributeContext
}

// codec writes a message that is none where the script asks for it.
type codec struct{}

func (codec) Name() string { return "proto" }
func (codec) Marshal(value any) ([]byte, error) {
	if response, isResponse := value.(*auth.CheckResponse); isResponse && response.GetStatus().GetMessage() == malformedMark {
		return []byte("\xff\xff\xff\xff this is no message"), nil
	}
	return proto.Marshal(value.(proto.Message))
}
func (codec) Unmarshal(data []byte, value any) error {
	return proto.Unmarshal(data, value.(proto.Message))
}

// malformedMark is the message of a response that goes out as no message.
const malformedMark = "malformed"

// Start starts it on the loopback.
func Start() (*Server, error) {
	listener, err := connections.Listen()
	if err != nil {
		return nil, err
	}
	server := &Server{Port: listener.Port(), listener: listener, asked: map[string][]*auth.AttributeContext{}}
	server.grpc = grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32))
	auth.RegisterAuthorizationServer(server.grpc, server)
	go func() { _ = server.grpc.Serve(listener) }()
	return server, nil
}

// Close ends it.
func (server *Server) Close() { server.grpc.Stop() }

// Asked are the CheckRequests of a case.
func (server *Server) Asked(name string) []*auth.AttributeContext {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	return server.asked[name]
}

// HeadersOf are the headers of a question, by their names in lower case.
func HeadersOf(question *auth.AttributeContext) map[string]string {
	found := map[string]string{}
	for name, value := range question.GetRequest().GetHttp().GetHeaders() {
		found[strings.ToLower(name)] = value
	}
	for _, header := range question.GetRequest().GetHttp().GetHeaderMap().GetHeaders() {
		value := header.GetValue()
		if len(header.GetRawValue()) > 0 {
			value = string(header.GetRawValue())
		}
		found[strings.ToLower(header.GetKey())] = value
	}
	return found
}

// Check decides about a request.
func (server *Server) Check(context context.Context, request *auth.CheckRequest) (*auth.CheckResponse, error) {
	headers := HeadersOf(request.GetAttributes())
	server.mutex.Lock()
	server.asked[headers[CaseHeader]] = append(server.asked[headers[CaseHeader]], request.GetAttributes())
	server.mutex.Unlock()
	answer := &answer{ok: &auth.OkHttpResponse{}, denied: &auth.DeniedHttpResponse{}}
	for _, part := range strings.Split(headers[ScriptHeader], ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		action, rest, _ := strings.Cut(part, " ")
		if err := server.act(context, answer, action, rest); err != nil {
			return nil, err
		}
	}
	return answer.response(), nil
}

// answer is the response that the script has built.
type answer struct {
	code             codes.Code
	message          string
	isDenied, isBoth bool
	isBare           bool
	ok               *auth.OkHttpResponse
	denied           *auth.DeniedHttpResponse
}

func option(text string, action core.HeaderValueOption_HeaderAppendAction) *core.HeaderValueOption {
	name, value, _ := strings.Cut(text, " ")
	return &core.HeaderValueOption{Header: &core.HeaderValue{Key: name, Value: value}, AppendAction: action,
		// Envoy looks at this one alone.
		Append: wrapperspb.Bool(action == core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)}
}

// act does one step of a script.
func (server *Server) act(context context.Context, answer *answer, action, rest string) error {
	const replace, add = core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD, core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	number, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	switch action {
	case "allow":
	case "set":
		answer.ok.Headers = append(answer.ok.Headers, option(rest, replace))
	case "append":
		answer.ok.Headers = append(answer.ok.Headers, option(rest, add))
	case "remove":
		answer.ok.HeadersToRemove = append(answer.ok.HeadersToRemove, rest)
	case "respond": // a header of the response to the client
		answer.ok.ResponseHeadersToAdd = append(answer.ok.ResponseHeadersToAdd, option(rest, replace))
	case "query":
		name, value, _ := strings.Cut(rest, " ")
		answer.ok.QueryParametersToSet = append(answer.ok.QueryParametersToSet, &core.QueryParameter{Key: name, Value: value})
	case "unquery":
		answer.ok.QueryParametersToRemove = append(answer.ok.QueryParametersToRemove, rest)
	case "deny": // STATUS TEXT
		_, text, _ := strings.Cut(rest, " ")
		answer.isDenied, answer.code, answer.denied.Body = true, codes.PermissionDenied, text
		if number != 0 {
			answer.denied.Status = &types.HttpStatus{Code: types.StatusCode(number)}
		}
	case "with": // a header of the denial
		answer.denied.Headers = append(answer.denied.Headers, option(rest, replace))
	case "both": // allows and denies
		answer.isBoth = true
	case "code": // a status without a response
		answer.isBare, answer.code = true, codes.Code(number)
	case "error":
		return status.Error(codes.Code(number), "as the script says")
	case "malformed":
		answer.isBare, answer.message = true, malformedMark
	case "delay":
		return pause(context, time.Duration(number)*time.Millisecond)
	case "silent":
		return pause(context, silence)
	case "size": // a message of so many bytes
		answer.ok.ResponseHeadersToAdd = append(answer.ok.ResponseHeadersToAdd, option("x-large "+strings.Repeat("x", number), replace))
	case "reset", "hangup":
		caller, _ := peer.FromContext(context)
		if action == "reset" {
			server.listener.Reset(caller.Addr.String())
		} else {
			server.listener.Hangup(caller.Addr.String())
		}
		return status.Error(codes.Aborted, "the connection is gone")
	default:
		return status.Error(codes.InvalidArgument, fmt.Sprintf("no action %q", action))
	}
	return nil
}

func (answer *answer) response() *auth.CheckResponse {
	response := &auth.CheckResponse{Status: &rpc.Status{Code: int32(answer.code), Message: answer.message}}
	switch {
	case answer.isBare:
	case answer.isBoth:
		response.Status.Code = int32(codes.OK)
		response.HttpResponse = &auth.CheckResponse_DeniedResponse{DeniedResponse: answer.denied}
	case answer.isDenied:
		response.HttpResponse = &auth.CheckResponse_DeniedResponse{DeniedResponse: answer.denied}
	default:
		response.HttpResponse = &auth.CheckResponse_OkResponse{OkResponse: answer.ok}
	}
	return response
}

func pause(context context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-context.Done():
		return status.FromContextError(context.Err()).Err()
	}
}
