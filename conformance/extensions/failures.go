package main

// This file owns the part `failures`: a service that fails in every way at every message.

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"fairway.dev/conformance/extensions/backend"
	"fairway.dev/conformance/extensions/liar"
	"fairway.dev/conformance/extensions/processor"
	"fairway.dev/conformance/extensions/proxy"
)

// failuresTimeout is the message timeout of cases in which messages time out.
const failuresTimeout = 500 * time.Millisecond

// failureModes are the bodies of the routes of this part.
var failureModes = []string{proxy.Streamed, proxy.Buffered, proxy.FullDuplex}

func failureRoutes() []proxy.Route {
	var routes []proxy.Route
	for _, mode := range failureModes {
		for _, isOpen := range []bool{false, true} {
			for _, isHTTP2 := range []bool{false, true} {
				message := proxy.Message{Body: mode, Trailers: true}
				routes = append(routes, proxy.Route{
					Name: fmt.Sprintf("f-%s-%s-%s", strings.ToLower(mode), openness(isOpen), protocol(isHTTP2)), HTTP2: isHTTP2,
					Extension: &proxy.Extension{Service: script, IsOpen: isOpen, Request: message, Response: message,
						MaxBuffered: modesBuffer, Timeout: failuresTimeout},
				})
			}
		}
	}
	return routes
}

func openness(isOpen bool) string {
	if isOpen {
		return "open"
	}
	return "closed"
}

// failure is a way to fail, in a phase.
type failure struct {
	name, action string
	// isGraceful reports whether the protocol allows this end of the stream: the exchange continues without the service.
	isGraceful bool
	// isLate may come when nothing is left to fail.
	isLate bool
}

var failureKinds = []failure{
	{name: "resets the connection", action: "reset"},
	{name: "closes the connection", action: "hangup"},
	{name: "ends with INTERNAL", action: "error 13"},
	{name: "ends with UNAVAILABLE", action: "error 14"},
	{name: "ends the stream", action: "end", isGraceful: true},
	{name: "never answers", action: "silent"},
	{name: "answers no message", action: "malformed"},
	{name: "answers nothing", action: "empty"},
	{name: "answers twice", action: "twice", isLate: true},
	{name: "answers another phase", action: ""},
	{name: "answers a phase too early", action: "early", isLate: true},
	{name: "is slow, and in time", action: "delay 200"},
}

// wrongPhase is one that a phase is taken for.
var wrongPhase = map[processor.Phase]processor.Phase{
	processor.RequestHeaders: processor.ResponseHeaders, processor.RequestBody: processor.ResponseBody,
	processor.RequestTrailers: processor.RequestHeaders, processor.ResponseHeaders: processor.RequestHeaders,
	processor.ResponseBody: processor.RequestBody, processor.ResponseTrailers: processor.ResponseHeaders,
}

func failures(lab *laboratory) error {
	for _, route := range failureRoutes() {
		for _, kind := range failureKinds {
			for _, phase := range processor.Phases {
				action := kind.action
				switch {
				case action == "":
					action = "as " + string(wrongPhase[phase])
				case action == "early":
					action = "early " + string(wrongPhase[phase])
				}
				asked := exchange{route: route, isHTTP2: route.HTTP2, size: 100_000, reply: 90_000, chunked: true, trailers: true,
					script: string(phase) + " " + action}
				asked.name = fmt.Sprintf("%s/%s/%s/%s: %s", route.Extension.Request.Body, openness(route.Extension.IsOpen), protocol(route.HTTP2), phase, kind.name)
				if lab.skips(asked.name) {
					continue
				}
				found := lab.run(asked)
				lab.add("failures", found, verifyFailure(found, kind, phase), found.torn(original(found)))
			}
		}
		probe := exchange{route: route, isHTTP2: route.HTTP2, size: 1_000, reply: 900, script: "identity"}
		probe.name = fmt.Sprintf("%s: works again", route.Name)
		if lab.skips(probe.name) {
			continue
		}
		found := lab.run(probe)
		lab.add("failures", found, problem(!found.original(), "not served"), nil)
	}
	return nil
}

// original are the bodies as they were sent.
func original(found *outcome) ([][]byte, [][]byte) {
	return [][]byte{backend.Text(found.size)}, [][]byte{backend.Text(found.reply)}
}

// verifyFailure says what is wrong with how a failure was handled.
//
// Closed: until the head of the response has been sent, the client gets a status; later it must see that the body is not whole. Open: the
// exchange goes on, unless the service has pieces of a full duplex body that nobody else has.
func verifyFailure(found *outcome, kind failure, phase processor.Phase) []string {
	mode, isOpen := found.route.Extension.Request.Body, found.route.Extension.IsOpen
	isFailed := func() bool {
		return found.Kind() == "whole" && found.Status >= 500 && found.Header.Get("X-Backend") == ""
	}
	isCut := func() bool { return found.Kind() == "cut" }
	isWhole := func() bool { return found.original() && found.Trailer.Get(backend.TrailerName) == backend.TrailerValue }
	may := []func() bool{}
	switch isDuplex := mode == proxy.FullDuplex; {
	case strings.HasPrefix(kind.action, "delay"):
		may = append(may, isWhole)
		// A piece of a full duplex body gets no single response, and delays add up.
		if isDuplex && phase != processor.RequestHeaders {
			may = append(may, isFailed, isCut)
		}
	case isDuplex && (phase == processor.RequestBody || phase == processor.ResponseBody) && (kind.action == "twice" || kind.action == "empty" || kind.action == ""):
		// These actions do nothing to a piece of a full duplex body.
		may = append(may, isWhole)
	case kind.isGraceful && !isDuplex:
		may = append(may, isWhole)
	case isDuplex:
		// The service may have pieces already, whatever the phase.
		may = append(may, isFailed, isCut)
		if isOpen || kind.isLate || kind.isGraceful {
			may = append(may, isWhole)
		}
	case isOpen:
		may = append(may, isWhole)
	default:
		may = append(may, isFailed)
		if slices.Index(processor.Phases, phase) > slices.Index(processor.Phases, processor.ResponseHeaders) {
			may = append(may, isCut)
		}
	}
	if kind.isLate && !isOpen {
		may = append(may, isWhole, isCut)
	}
	holds := slices.ContainsFunc(may, func(is func() bool) bool { return is() })
	problems := problem(!holds, "%s", found.kind())
	limit := failuresTimeout + 2*time.Second
	if strings.HasPrefix(kind.action, "delay") {
		limit = deadline
	}
	return append(problems, problem(found.Took > limit, "took %s", found.Took)...)
}

// These routes send only headers, and then a body that could be forwarded before the service has responded.
func liarRoutes() []proxy.Route {
	var routes []proxy.Route
	for _, kind := range liar.Names() {
		for _, isOpen := range []bool{false, true} {
			for _, isHTTP2 := range []bool{false, true} {
				routes = append(routes, proxy.Route{
					Name: fmt.Sprintf("l-%s-%s-%s", kind, openness(isOpen), protocol(isHTTP2)), HTTP2: isHTTP2,
					Extension: &proxy.Extension{Service: kind, IsOpen: isOpen, Request: proxy.Message{Body: proxy.Streamed, Trailers: true},
						Response: proxy.Message{Body: proxy.Streamed, Trailers: true}, Timeout: failuresTimeout},
				})
			}
		}
	}
	return routes
}

func runLiars(lab *laboratory) error {
	for _, route := range liarRoutes() {
		for _, form := range []exchange{
			{name: "no body", method: http.MethodGet, reply: 900},
			{name: "body", size: 100_000, reply: 90_000, chunked: true, trailers: true},
		} {
			asked := form
			asked.route, asked.isHTTP2 = route, route.HTTP2
			asked.name = fmt.Sprintf("%s/%s/%s/%s", route.Extension.Service, openness(route.Extension.IsOpen), protocol(route.HTTP2), form.name)
			if lab.skips(asked.name) {
				continue
			}
			found := lab.run(asked)
			lab.add("liars", found, verifyLiar(found), found.torn(original(found)))
		}
	}
	return nil
}

// verifyLiar returns what is wrong: invalid gRPC must not be taken for consent.
func verifyLiar(found *outcome) []string {
	problems := problem(found.Took > failuresTimeout+3*time.Second, "took %s", found.Took)
	if found.route.Extension.IsOpen {
		return append(problems, problem(!found.original(), "%s, and not passed", found.kind())...)
	}
	// A stream that ends with grpc-status 0 says that the service has nothing more to say.
	if found.route.Extension.Service == "trailers-only" && found.original() {
		return problems
	}
	return slices.Concat(problems, problem(found.Kind() != "whole" || found.Status < 500 || found.Header.Get("X-Backend") != "", "%s, and not failed", found.kind()),
		problem(found.endpoint.Count > 0, "the endpoint got the request"))
}
