package main

// This file owns the group `smuggling`: requests that are malformed or ambiguous, and what the recorders behind the server saw of them.

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"fairway.dev/conformance/http3/backend"
	"fairway.dev/conformance/http3/peer"
	"fairway.dev/conformance/http3/wire"
)

// verdict is what should become of a request.
type verdict string

const (
	// refused requests reach no endpoint as a whole.
	refused verdict = "refused"
	// forwarded requests reach the endpoint, as one whole request.
	forwarded verdict = "forwarded"
	// cut requests may reach the endpoint up to their announced length, because later bytes are only read then. The client must
	// not take that for success.
	cut verdict = "refused, at the latest at its length"
	// free are requests about which the rules leave the choice.
	free verdict = "refused or forwarded"
)

// smuggledCase is a row of the table.
type smuggledCase struct {
	name, rule string
	// fields are all of the head; HOST stands for the host.
	fields []wire.Field
	// frames come after it.
	frames []byte
	want   verdict
	// body is what an endpoint may have read of a request that is forwarded.
	body string
}

// marker is the path of a request after that of each case: what it meets at the endpoint is what the case has left there.
const marker = "/marker"

func smuggling(lab *laboratory) error {
	for _, to := range []struct {
		host, area string
		recorder   *backend.Recorder
	}{{peer.RawHost, "to HTTP/1.1", lab.recorder}, {peer.RawH2CHost, "to HTTP/2", lab.recorderH2C}} {
		for _, one := range smuggledCases() {
			if lab.skips(one.name) {
				continue
			}
			began := time.Now()
			found := result{Group: "smuggling", Area: to.area, Name: one.name, Rule: one.rule, Want: string(one.want)}
			found.Got, found.Problems = lab.smuggle(one, to.host, to.recorder)
			if !lab.isOtherServed() {
				found.Problems = append(found.Problems, "another connection is not served afterwards")
			}
			found.Seconds = time.Since(began).Seconds()
			if err := lab.add(found, len(found.Problems) > 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// smuggle sends a case and then a request that is right, and looks at what the recorder got.
func (lab *laboratory) smuggle(one smuggledCase, host string, recorder *backend.Recorder) (string, []string) {
	opened, err := lab.open()
	if err != nil {
		return "broken", []string{err.Error()}
	}
	defer opened.end()
	recorder.Take()
	answer := opened.sendCase(one, host)
	if opened.Context().Err() != nil {
		again, err := lab.open()
		if err != nil {
			return answer, []string{err.Error()}
		}
		defer again.end()
		opened = again
	}
	marked, err := opened.exchange(host, marker)
	if err != nil || marked.Status != "200" {
		return answer, []string{fmt.Sprintf("the next request is not served: %v", err)}
	}
	return answer, judge(one, host, answer, recorder.Take())
}

// sendCase sends the request and describes the response.
func (link *link) sendCase(one smuggledCase, host string) string {
	stream, err := link.OpenStream()
	if err != nil {
		return err.Error()
	}
	_ = stream.SetDeadline(time.Now().Add(silence))
	fields := slices.Clone(one.fields)
	for index := range fields {
		fields[index].Value = strings.ReplaceAll(fields[index].Value, "HOST", host)
	}
	_, err = stream.Write(wire.Join(wire.Frame(wire.Headers, wire.Fields(fields...)), one.frames))
	if err == nil {
		_ = stream.Close()
	}
	read, err := wire.ReadResponse(stream)
	var reset *quic.StreamError
	var closed *quic.ApplicationError
	switch {
	case errors.As(err, &reset):
		return "stream error " + codeName(uint64(reset.ErrorCode))
	case errors.As(err, &closed):
		return "connection error " + codeName(uint64(closed.ErrorCode))
	case err != nil:
		return err.Error()
	}
	return read.Status
}

// judge compares what an endpoint received with what it may receive.
func judge(one smuggledCase, host, answer string, seen []backend.Recorded) []string {
	var problems []string
	var whole []backend.Recorded
	hasMarker := false
	for _, request := range seen {
		for _, problem := range request.Problems {
			problems = append(problems, "the endpoint got a malformed request: "+problem)
		}
		switch {
		case !request.IsWhole:
			// A body that is cut off is visible as that.
		case request.Target == marker && !hasMarker && len(request.Body) == 0:
			hasMarker = true
		default:
			whole = append(whole, request)
		}
	}
	if !hasMarker {
		problems = append(problems, "the request after it did not reach the endpoint as it was sent")
	}
	isAnswered := answer == "200"
	switch {
	case len(whole) > 1:
		problems = append(problems, fmt.Sprintf("the endpoint got %d requests", len(whole)))
	case one.want == refused && (len(whole) > 0 || isAnswered):
		problems = append(problems, fmt.Sprintf("it was forwarded (%s): %s", one.rule, answer))
	case one.want == forwarded && (len(whole) == 0 || !isAnswered):
		problems = append(problems, fmt.Sprintf("it was not forwarded (%s): %s", one.rule, answer))
	case one.want == cut && isAnswered:
		problems = append(problems, fmt.Sprintf("it was answered (%s): %s", one.rule, answer))
	case isAnswered != (len(whole) == 1) && (one.want == forwarded || one.want == free):
		problems = append(problems, fmt.Sprintf("the endpoint got %d whole requests, and the client %s", len(whole), answer))
	}
	for _, request := range whole {
		problems = append(problems, compare(one, host, request)...)
	}
	return problems
}

// compare looks at a request that was forwarded: it must be the one that the client's fields say, and no other.
func compare(one smuggledCase, host string, got backend.Recorded) []string {
	var problems []string
	sent := map[string]string{}
	for _, field := range one.fields {
		if _, isThere := sent[field.Name]; !isThere {
			sent[field.Name] = strings.ReplaceAll(field.Value, "HOST", host)
		}
	}
	authority := sent[":authority"]
	if authority == "" {
		authority = sent["host"]
	}
	if got.Method != sent[":method"] || !strings.EqualFold(got.Authority, authority) {
		problems = append(problems, fmt.Sprintf("%s %s to %s became %s to %s", sent[":method"], sent[":path"], authority, got.Method, got.Authority))
	}
	target := sent[":path"]
	// Where the rules leave the choice, characters may be written as %XX.
	unescaped, err := url.PathUnescape(got.Target)
	if got.Target != target && (one.want != free || err != nil || unescaped != target) {
		problems = append(problems, fmt.Sprintf("the target %q became %q", target, got.Target))
	}
	if string(got.Body) != one.body {
		problems = append(problems, fmt.Sprintf("the body %q became %q", one.body, got.Body))
	}
	for _, name := range []string{"connection-secret", "smuggled"} {
		if got.Has(name) {
			problems = append(problems, "the endpoint got the header "+name)
		}
	}
	return problems
}
