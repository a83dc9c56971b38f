package main

// This file owns how a case of the group `hostile` is run: its steps are written to a connection of its own, and what the server does
// is compared with what the RFC wants.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"fairway.dev/conformance/http3/wire"
)

const (
	// silence is how long a server may take to do what it should.
	silence = 2 * time.Second
	// streamTimeout is how long a stream of the server is waited for.
	streamTimeout = 500 * time.Millisecond
)

// Streams of a case. Names that begin with "request" are bidirectional, others unidirectional.
const (
	control, request1 = "control", "request"
	encoder, decoder  = "encoder", "decoder"
)

// step is something that a client does.
type step struct {
	// stream is opened by the first step that names it.
	stream string
	bytes  []byte
	// then is done to the stream after that.
	then action
	// code is that of a reset or stop.
	code uint64
	// server is the type of a server stream that is asked to stop.
	server uint64
}

type action int

const (
	goOn action = iota
	finish
	reset
	// await waits for the whole response on the stream.
	await
	// stop asks for the end of what the server sends on the stream.
	stop
	// stopServer does that with a unidirectional stream of the server.
	stopServer
	// bytewise writes the bytes one by one, each in a packet of its own if possible.
	bytewise
)

// outcome is the server's reaction.
type outcome struct {
	kind outcomeKind
	code uint64
	// status is that of a response.
	status string
	detail string
}

type outcomeKind string

const (
	// connectionError is a close with a code of HTTP/3 or QPACK.
	connectionError outcomeKind = "connection error"
	// streamError is a reset of the request's stream, or a request to stop sending on it.
	streamError outcomeKind = "stream error"
	// response is a whole response.
	response outcomeKind = "response"
	// open is a connection that continues: another request on it is served.
	open outcomeKind = "goes on"
	// absent is a server stream that does not exist.
	absent outcomeKind = "no such stream"
	// broken is everything else.
	broken outcomeKind = "broken"
)

func (outcome outcome) String() string {
	switch outcome.kind {
	case connectionError, streamError:
		return string(outcome.kind) + " " + codeName(outcome.code)
	case response:
		return "response " + outcome.status
	case broken:
		return "broken: " + outcome.detail
	}
	return string(outcome.kind)
}

// is compares with an expectation, where a status may be a class, such as "4xx".
func (outcome outcome) is(wanted outcome) bool {
	if outcome.kind != wanted.kind || outcome.code != wanted.code {
		return false
	}
	return wanted.kind != response || outcome.status == wanted.status ||
		len(outcome.status) == 3 && strings.HasSuffix(wanted.status, "xx") && outcome.status[0] == wanted.status[0]
}

func joinOutcomes(outcomes []outcome) string {
	var all []string
	for _, one := range outcomes {
		all = append(all, one.String())
	}
	return strings.Join(all, " or ")
}

// hostileCase is a row of the table.
type hostileCase struct {
	area, name, rule string
	steps            []step
	// wants are the outcomes that the rule allows.
	wants []outcome
}

// run is the progress of a case on a connection.
type run struct {
	*link
	streams map[string]*quic.Stream
	sending map[string]*quic.SendStream
	// responses are the outcomes of ended streams.
	responses map[string]chan outcome
	first     string
}

func hostile(lab *laboratory) error {
	for _, one := range hostileCases(lab.results.Settings["QPACK_MAX_TABLE_CAPACITY"], lab.results.Settings["QPACK_BLOCKED_STREAMS"]) {
		if lab.skips(one.name) {
			continue
		}
		began := time.Now()
		got := lab.try(one)
		found := result{Group: "hostile", Area: one.area, Name: one.name, Rule: one.rule, Want: joinOutcomes(one.wants), Got: got.String()}
		isRight := slices.ContainsFunc(one.wants, got.is)
		if !isRight {
			found.Problems = append(found.Problems, fmt.Sprintf("%s and not %s (%s)", found.Got, found.Want, one.rule))
		}
		if !lab.isOtherServed() {
			found.Problems = append(found.Problems, "another connection is not served afterwards")
		}
		found.Seconds = time.Since(began).Seconds()
		if err := lab.add(found, !isRight); err != nil {
			return err
		}
	}
	return nil
}

// try runs a case on a connection of its own.
func (lab *laboratory) try(one hostileCase) outcome {
	opened, err := lab.dial()
	if err != nil {
		return outcome{kind: broken, detail: err.Error()}
	}
	defer opened.end()
	run := &run{link: opened, streams: map[string]*quic.Stream{}, sending: map[string]*quic.SendStream{}, responses: map[string]chan outcome{}}
	for _, step := range one.steps {
		if isThere, err := run.do(step); !isThere {
			return outcome{kind: absent}
		} else if err != nil {
			break // What the server did about it is seen below.
		}
	}
	return run.observe(one.wants)
}

// do does a step. An error means that the server has ended the stream.
func (run *run) do(step step) (isThere bool, err error) {
	ctx, cancel := context.WithTimeout(run.Context(), silence)
	defer cancel()
	if step.then == stopServer {
		var stream *quic.ReceiveStream
		if !until(streamTimeout, func() bool {
			return run.seen(func() bool { stream = run.link.streams[step.server]; return stream != nil })
		}) {
			return false, nil
		}
		stream.CancelRead(quic.StreamErrorCode(step.code))
		return true, nil
	}
	stream, err := run.stream(ctx, step.stream)
	if err != nil {
		return true, err
	}
	if step.then == bytewise {
		for index := range step.bytes {
			if _, err := stream.Write(step.bytes[index : index+1]); err != nil {
				return true, err
			}
			time.Sleep(time.Millisecond)
		}
		return true, nil
	}
	if _, err := stream.Write(step.bytes); err != nil {
		return true, err
	}
	switch step.then {
	case finish:
		return true, stream.Close()
	case reset:
		stream.CancelWrite(quic.StreamErrorCode(step.code))
	case stop:
		run.streams[step.stream].CancelRead(quic.StreamErrorCode(step.code))
	case await:
		if err := stream.Close(); err != nil {
			return true, err
		}
		select {
		case <-run.responses[step.stream]:
			delete(run.responses, step.stream)
		case <-ctx.Done():
		}
	}
	return true, nil
}

type sendStream interface {
	Write([]byte) (int, error)
	Close() error
	CancelWrite(quic.StreamErrorCode)
}

func (run *run) stream(ctx context.Context, name string) (sendStream, error) {
	if !strings.HasPrefix(name, request1) {
		if run.sending[name] == nil {
			stream, err := run.OpenUniStreamSync(ctx)
			if err != nil {
				return nil, err
			}
			_ = stream.SetWriteDeadline(time.Now().Add(deadline))
			run.sending[name] = stream
		}
		return run.sending[name], nil
	}
	if run.streams[name] == nil {
		stream, err := run.OpenStreamSync(ctx)
		if err != nil {
			return nil, err
		}
		_ = stream.SetDeadline(time.Now().Add(deadline))
		ended := make(chan outcome, 1)
		run.streams[name], run.responses[name] = stream, ended
		if run.first == "" {
			run.first = name
		}
		go func() { ended <- readOutcome(stream) }()
	}
	return run.streams[name], nil
}

// readOutcome reads a request's stream to its end.
func readOutcome(stream *quic.Stream) outcome {
	read, err := wire.ReadResponse(stream)
	var failed *quic.StreamError
	switch {
	case errors.As(err, &failed) && failed.Remote:
		return outcome{kind: streamError, code: uint64(failed.ErrorCode)}
	case errors.As(err, &failed):
		return outcome{kind: open} // This side has stopped it.
	case err != nil:
		return outcome{kind: broken, detail: err.Error()}
	case read.Status == "":
		return outcome{kind: broken, detail: "a stream without a response"}
	}
	return outcome{kind: response, status: read.Status}
}

// observe waits for an expected outcome, and otherwise returns the current one after a timeout.
func (run *run) observe(wants []outcome) outcome {
	kinds := map[outcomeKind]bool{}
	for _, want := range wants {
		kinds[want.kind] = true
	}
	last := outcome{kind: open}
	ended, timer := run.responses[run.first], time.After(silence)
	isSettled := kinds[open] && ended == nil || kinds[open] && len(kinds) == 1
	for !isSettled {
		select {
		case <-run.Context().Done():
			return run.closed()
		case last = <-ended:
			ended = nil
			isSettled = slices.ContainsFunc(wants, last.is)
		case <-timer:
			isSettled = true
		}
	}
	// A stream's error must leave the connection as it is.
	if !run.isServed() {
		if !until(silence, func() bool { return run.Context().Err() != nil }) {
			return outcome{kind: broken, detail: "the connection serves nothing more, and is open"}
		}
		return run.closed()
	}
	return last
}

// closed is why the connection has ended.
func (run *run) closed() outcome {
	cause := context.Cause(run.Context())
	var failed *quic.ApplicationError
	if errors.As(cause, &failed) && failed.Remote {
		return outcome{kind: connectionError, code: uint64(failed.ErrorCode)}
	}
	return outcome{kind: broken, detail: cause.Error()}
}
