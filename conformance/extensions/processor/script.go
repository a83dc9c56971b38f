// Package processor owns an ext_proc service that does what each request asks it to do, right and wrong, and counts what it saw.
package processor

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Phase is what a message of the proxy is about.
type Phase string

// The phases, in the order of an exchange.
const (
	RequestHeaders   Phase = "request-headers"
	RequestBody      Phase = "request-body"
	RequestTrailers  Phase = "request-trailers"
	ResponseHeaders  Phase = "response-headers"
	ResponseBody     Phase = "response-body"
	ResponseTrailers Phase = "response-trailers"
	anyPhase         Phase = "any"
)

// Phases are all of them, in the order of an exchange.
var Phases = []Phase{RequestHeaders, RequestBody, RequestTrailers, ResponseHeaders, ResponseBody, ResponseTrailers}

// isBody says whether messages of the phase have pieces of a body.
func (phase Phase) isBody() bool { return phase == RequestBody || phase == ResponseBody }

// isTrailers says whether the phase is that of trailers.
func (phase Phase) isTrailers() bool { return phase == RequestTrailers || phase == ResponseTrailers }

// ScriptHeader is the request header with the script. CaseHeader has a name for what the service and the endpoint see.
const (
	ScriptHeader = "x-script"
	CaseHeader   = "x-case"
)

// arguments are the actions, each with how many arguments it has at least.
var arguments = map[string]int{
	"set":       2, // a header, or a trailer, in the place of those that there are
	"append":    2, // one more header
	"default":   2, // a header if there is none
	"remove":    1,
	"large":     1, // a header of so many bytes
	"body":      1, // another body, or piece
	"suffix":    1, // more of a body, or piece
	"size":      1, // a body of so many bytes
	"upper":     0, // each piece in upper case
	"clear":     0,
	"immediate": 1, // a status, and a text
	"delay":     1, // milliseconds before the answer
	"error":     1, // ends the stream with a status of gRPC
	"end":       0, // ends the stream as if all were well
	"reset":     0, // ends the connection with RST
	"hangup":    0, // ends the connection with FIN
	"silent":    0, // never answers
	"twice":     0, // answers two times
	"early":     1, // answers this other phase as well, before the proxy has sent it
	"as":        1, // answers another phase than the one that was sent
	"empty":     0, // an answer that says nothing
	"unknown":   0, // fields that no version of the protocol has
	"malformed": 0, // bytes that are no message
	"override":  1, // modes: request-body=Streamed,response-trailers=Skip
	"streamed":  1, // a piece as in full duplex, in a mode that is not
	"replace":   0, // CONTINUE_AND_REPLACE
	"reroute":   0, // clear_route_cache
	"reopen":    0, // one more piece after the last one of a full duplex body
	"metadata":  2, // dynamic metadata
}

// Step is something that the service does in a phase.
type Step struct {
	Phase     Phase
	Action    string
	Arguments []string
}

// Script are all that it does in an exchange.
type Script []Step

// EncodedPrefix begins a script in hexadecimal, which may have letters that no header can have.
const EncodedPrefix = "hex:"

// Parse reads `PHASE ACTION ARGUMENT...; ...`. The last argument of an action may have spaces.
func Parse(text string) (Script, error) {
	var script Script
	if encoded, isEncoded := strings.CutPrefix(text, EncodedPrefix); isEncoded {
		plain, err := hex.DecodeString(encoded)
		if err != nil {
			return nil, err
		}
		text = string(plain)
	}
	for _, part := range strings.Split(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" || part == "identity" {
			continue
		}
		words := strings.SplitN(part, " ", 2)
		phase := Phase(words[0])
		if (phase != anyPhase && !slices.Contains(Phases, phase)) || len(words) == 1 {
			return nil, fmt.Errorf("%q begins with no phase", part)
		}
		action, rest, _ := strings.Cut(words[1], " ")
		least, isKnown := arguments[action]
		if !isKnown {
			return nil, fmt.Errorf("%q has no action %q", part, action)
		}
		step := Step{Phase: phase, Action: action}
		if rest != "" {
			step.Arguments = strings.SplitN(rest, " ", max(least, 1))
		}
		if action == "immediate" && rest != "" {
			step.Arguments = strings.SplitN(rest, " ", 2)
		}
		if len(step.Arguments) < least {
			return nil, fmt.Errorf("%q needs %d arguments", part, least)
		}
		script = append(script, step)
	}
	return script, nil
}

// stepsOf returns the steps of a phase.
func (script Script) stepsOf(phase Phase) Script {
	var found Script
	for _, step := range script {
		if step.Phase == phase || step.Phase == anyPhase {
			found = append(found, step)
		}
	}
	return found
}

// has says whether there is such an action.
func (script Script) has(action string) bool {
	return slices.ContainsFunc(script, func(step Step) bool { return step.Action == action })
}

// number is an argument that is a number; 0 if it is none.
func (step Step) number(index int) int {
	if index >= len(step.Arguments) {
		return 0
	}
	number, _ := strconv.Atoi(step.Arguments[index])
	return number
}

// text is an argument, or nothing.
func (step Step) text(index int) string {
	if index >= len(step.Arguments) {
		return ""
	}
	return step.Arguments[index]
}

func (step Step) delay() time.Duration { return time.Duration(step.number(0)) * time.Millisecond }
