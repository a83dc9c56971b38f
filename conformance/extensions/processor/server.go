package processor

// This file owns the service: the calls of proxies, and the steps that are more than a response.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"fairway.dev/conformance/extensions/connections"
)

const (
	// duplexPiece is how much of a full duplex body the service sends back at once: not what it got at once.
	duplexPiece = 24_000
	// duplexPause is how long it takes for a piece: its own pace.
	duplexPause = 200 * time.Microsecond
	// silence bounds how long a service that never responds waits for the end of its call.
	silence = 30 * time.Second
)

// Server is the service.
type Server struct {
	extproc.UnimplementedExternalProcessorServer
	// Port is where it listens.
	Port     int
	listener *connections.Listener
	grpc     *grpc.Server
	record   record
}

// raw is a message as it stands on the wire.
type raw []byte

// codec lets scripts send bytes that are no message.
type codec struct{}

func (codec) Name() string { return "proto" }
func (codec) Marshal(value any) ([]byte, error) {
	if bytes, isRaw := value.(raw); isRaw {
		return bytes, nil
	}
	return proto.Marshal(value.(proto.Message))
}
func (codec) Unmarshal(data []byte, value any) error {
	return proto.Unmarshal(data, value.(proto.Message))
}

// Start starts the service on the loopback.
func Start() (*Server, error) {
	listener, err := connections.Listen()
	if err != nil {
		return nil, err
	}
	server := &Server{Port: listener.Port(), listener: listener, record: record{sights: map[string]*Sight{}}}
	server.grpc = grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32))
	extproc.RegisterExternalProcessorServer(server.grpc, server)
	go func() { _ = server.grpc.Serve(listener) }()
	return server, nil
}

// Close ends the service.
func (server *Server) Close() { server.grpc.Stop() }

// call is one call of a proxy: one exchange.
type call struct {
	server *Server
	stream extproc.ExternalProcessor_ProcessServer
	name   string
	script Script
	// duplex says which bodies are full duplex.
	duplex map[Phase]bool
	held   map[Phase][]byte
}

// errEnded ends a call without a status.
var errEnded = errors.New("the script ends the call")

// DuplexHeader says which bodies are full duplex, by the names of their phases.
const DuplexHeader = "x-duplex"

// Process serves an exchange.
func (server *Server) Process(stream extproc.ExternalProcessor_ProcessServer) error {
	one := &call{server: server, stream: stream, held: map[Phase][]byte{}, duplex: map[Phase]bool{}}
	server.record.mutex.Lock()
	server.record.streams++
	server.record.mutex.Unlock()
	defer func() {
		server.record.mutex.Lock()
		server.record.streams--
		server.record.mutex.Unlock()
	}()
	for isFirst := true; ; isFirst = false {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		phase := phaseOf(message)
		if isFirst {
			if err := one.begin(message); err != nil {
				return err
			}
		}
		server.record.note(one.name, func(sight *Sight) {
			if isFirst {
				sight.Streams++
			}
			sight.add(phase, message)
		})
		if err := one.serve(phase, message); errors.Is(err, errEnded) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// begin reads the script from the headers of the request. A stream that does not begin with them is forwarded unchanged.
func (one *call) begin(message *extproc.ProcessingRequest) error {
	for _, header := range message.GetRequestHeaders().GetHeaders().GetHeaders() {
		switch header.GetKey() {
		case CaseHeader:
			one.name = value(header)
		case ScriptHeader:
			script, err := Parse(value(header))
			if err != nil {
				return status.Error(codes.InvalidArgument, err.Error())
			}
			one.script = script
		case DuplexHeader:
			for _, phase := range strings.Split(value(header), ",") {
				one.duplex[Phase(phase)] = true
			}
		}
	}
	return nil
}

// serve responds to a message.
func (one *call) serve(phase Phase, message *extproc.ProcessingRequest) error {
	steps := one.script.stepsOf(phase)
	for _, step := range steps {
		if err := one.misbehave(step); err != nil {
			return err
		}
	}
	if one.duplex[phase] {
		return one.duplexBody(phase, bodyOf(message), steps)
	}
	if err := one.flush(phase); err != nil {
		return err
	}
	response := answer(phase, steps, bodyOf(message))
	for _, step := range steps {
		if step.Action == "early" {
			if err := one.stream.Send(wrap(Phase(step.text(0)), &extproc.CommonResponse{})); err != nil {
				return err
			}
		}
	}
	if err := one.stream.Send(response); err != nil || !steps.has("twice") {
		return err
	}
	return one.stream.Send(response)
}

// misbehave runs a step that ends or delays a response.
func (one *call) misbehave(step Step) error {
	switch step.Action {
	case "delay":
		return pause(one.stream.Context(), step.delay())
	case "silent":
		_ = pause(one.stream.Context(), silence)
		return errEnded
	case "error":
		return status.Error(codes.Code(step.number(0)), "as the script says")
	case "end":
		return errEnded
	case "malformed":
		return one.stream.SendMsg(raw("\xff\xff\xff\xff this is no message"))
	case "reset", "hangup":
		caller, _ := peer.FromContext(one.stream.Context())
		if step.Action == "reset" {
			one.server.listener.Reset(caller.Addr.String())
		} else {
			one.server.listener.Hangup(caller.Addr.String())
		}
		return errEnded
	}
	return nil
}

// duplexBody takes a piece of a full duplex body, and sends pieces of its own.
func (one *call) duplexBody(phase Phase, body *extproc.HttpBody, steps Script) error {
	text := body.GetBody()
	if steps.has("upper") {
		text = bytes.ToUpper(text)
	}
	held := append(one.held[phase], text...)
	for len(held) >= duplexPiece {
		if err := pause(one.stream.Context(), duplexPause); err != nil {
			return err
		}
		if err := one.stream.Send(piece(phase, held[:duplexPiece], false)); err != nil {
			return err
		}
		held = held[duplexPiece:]
	}
	one.held[phase] = bytes.Clone(held)
	if !body.GetEndOfStream() {
		return nil
	}
	one.held[phase] = nil
	if err := one.stream.Send(piece(phase, held, true)); err != nil || !steps.has("reopen") {
		return err
	}
	return one.stream.Send(piece(phase, []byte("after the end"), false))
}

// flush sends the rest of a full duplex body before the response to its trailers.
func (one *call) flush(phase Phase) error {
	body := RequestBody
	if phase == ResponseTrailers {
		body = ResponseBody
	}
	held := one.held[body]
	if !phase.isTrailers() || len(held) == 0 {
		return nil
	}
	one.held[body] = nil
	return one.stream.Send(piece(body, held, false))
}

// pause lets the time pass, or returns when the call is over.
func pause(context context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-context.Done():
		return context.Err()
	}
}
