package main

// This file owns the part `changes`: what a service may change, what it must not change, and what it is shown.

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"fairway.dev/conformance/extensions/backend"
	"fairway.dev/conformance/extensions/processor"
	"fairway.dev/conformance/extensions/proxy"
)

const (
	// smallBuffer is less than some bodies of this part.
	smallBuffer = 64 << 10
	aboveBuffer = 200_000
)

// The routes of this part, by their names.
func changeRoutes() []proxy.Route {
	streamed := proxy.Message{Body: proxy.Streamed, Trailers: true}
	buffered := proxy.Message{Body: proxy.Buffered, Trailers: true}
	partial := proxy.Message{Body: proxy.Partial, Trailers: true}
	routes := []proxy.Route{
		{Name: "c-headers", Extension: &proxy.Extension{AllowPath: true}},
		{Name: "c-locked", Extension: &proxy.Extension{Denied: []string{"x-denied"}}},
		{Name: "c-strict", Extension: &proxy.Extension{Denied: []string{"x-denied"}, ErrorOnDenied: true}},
		{Name: "c-streamed", Extension: &proxy.Extension{Request: streamed, Response: streamed, AllowPath: true}},
		{Name: "c-buffered", Extension: &proxy.Extension{Request: buffered, Response: buffered, AllowPath: true, MaxBuffered: modesBuffer}},
		{Name: "c-small-buffered", Extension: &proxy.Extension{Request: buffered, Response: buffered, MaxBuffered: smallBuffer}},
		{Name: "c-small-partial", Extension: &proxy.Extension{Request: partial, Response: partial, MaxBuffered: smallBuffer}},
		{Name: "c-override", Extension: &proxy.Extension{AllowOverride: true, MaxBuffered: modesBuffer}},
		{Name: "c-fixed", Extension: &proxy.Extension{MaxBuffered: modesBuffer}},
		{Name: "c-skip", Extension: &proxy.Extension{Request: proxy.Message{SkipHeaders: true, Body: proxy.Streamed},
			Response: proxy.Message{SkipHeaders: true, Body: proxy.Buffered}, MaxBuffered: modesBuffer}},
		{Name: "c-attributes", Extension: &proxy.Extension{
			Attributes: []string{"request.path", "request.host", "request.method", "request.protocol", "source.address"},
			Metadata:   map[string]map[string]string{"test": {"key": "value"}}}},
		{Name: "c-none", Extension: &proxy.Extension{Request: proxy.Message{SkipHeaders: true}, Response: proxy.Message{SkipHeaders: true}}},
	}
	var all []proxy.Route
	for _, route := range routes {
		route.Extension.Service, route.Extension.Timeout = script, modesTimeout
		for _, isHTTP2 := range []bool{false, true} {
			route.HTTP2 = isHTTP2
			one := route
			one.Name += "-" + protocol(isHTTP2)
			all = append(all, one)
		}
	}
	return all
}

// change is a case: a route, a script, and what must come of it.
type change struct {
	route, script string
	ask           exchange
	// check returns what is wrong. Besides the original bodies, those in requests and responses are allowed.
	check               func(*outcome) []string
	requests, responses [][]byte
}

func problem(isWrong bool, format string, arguments ...any) []string {
	if isWrong {
		return []string{fmt.Sprintf(format, arguments...)}
	}
	return nil
}

// passes returns what is wrong with an exchange that must pass with the status 200.
func passes(found *outcome) []string {
	return problem(found.Kind() != "whole" || found.Status != http.StatusOK || found.endpoint.Count != 1, "did not come through")
}

// atEndpoint checks a header that the endpoint got; an empty value means none.
func atEndpoint(name, value string) func(*outcome) []string {
	return func(found *outcome) []string {
		got := strings.Join(found.endpoint.Header.Values(name), "|")
		return append(passes(found), problem(got != value, "the endpoint got %s: %q", name, got)...)
	}
}

// atClient checks a header that the client got.
func atClient(name, value string) func(*outcome) []string {
	return func(found *outcome) []string {
		got := strings.Join(found.Header.Values(name), "|")
		return append(passes(found), problem(got != value, "the client got %s: %q", name, got)...)
	}
}

// orFails accepts a failure of the service, which returns 5xx on these routes.
func orFails(check func(*outcome) []string) func(*outcome) []string {
	return func(found *outcome) []string {
		if found.Kind() == "whole" && found.Status >= 500 && found.Header.Get("X-Backend") == "" {
			return nil
		}
		return check(found)
	}
}

// bodies checks what endpoint and client got.
func bodies(request, response []byte) func(*outcome) []string {
	return func(found *outcome) []string {
		return slices.Concat(passes(found),
			problem(!bytes.Equal(found.endpoint.Body, request), "the endpoint got %d bytes and not %d", found.endpoint.Length, len(request)),
			problem(!bytes.Equal(found.Body, response), "the client got %d bytes and not %d", len(found.Body), len(response)))
	}
}

// answers checks a local response of the proxy; the endpoint may have got the request or not.
func answers(statuses ...int) func(*outcome) []string {
	return func(found *outcome) []string {
		return problem(found.Kind() != "whole" || !slices.Contains(statuses, found.Status), "status %d and not %v", found.Status, statuses)
	}
}

// immediate checks a response of the service.
func immediate(status int, text string, mayReachEndpoint bool) func(*outcome) []string {
	return func(found *outcome) []string {
		return slices.Concat(answers(status)(found),
			problem(found.Header.Get("X-Immediate") != "yes", "no header of the service"),
			problem(string(found.Body) != text, "body %q", found.Body),
			problem(!mayReachEndpoint && found.endpoint.Count > 0, "the endpoint got the request"))
	}
}

func changeCases() []change {
	small := exchange{size: 1_000, reply: 900}
	request, reply := backend.Text(small.size), backend.Text(small.reply)
	text := func(text string) []byte { return []byte(text) }
	return slices.Concat(headerCases(small), forbiddenCases(small), []change{
		{route: "c-buffered", script: "request-body body changed", ask: small, check: bodies(text("changed"), reply)},
		{route: "c-buffered", script: "response-body body changed", ask: small, check: bodies(request, text("changed"))},
		{route: "c-buffered", script: "request-body clear", ask: small, check: bodies(nil, reply)},
		{route: "c-buffered", script: "response-body clear", ask: small, check: bodies(request, nil)},
		{route: "c-buffered", script: "request-body size 300000; response-body size 400000", ask: small,
			check: bodies(bytes.Repeat(text("x"), 300_000), bytes.Repeat(text("x"), 400_000))},
		{route: "c-streamed", script: "request-body upper; response-body upper", ask: small, check: bodies(bytes.ToUpper(request), bytes.ToUpper(reply))},
		{route: "c-streamed", script: "request-body clear; response-body clear", ask: small, check: bodies(nil, nil)},
		{route: "c-buffered", script: "request-body suffix .end; response-body suffix .end", ask: small,
			check: bodies(append(request, ".end"...), append(reply, ".end"...))},
		// A service that counts wrongly: the length that it sets is not that of the body. No side may take a part for the whole.
		{route: "c-buffered", script: "request-headers set content-length 3; request-body body changed", ask: small, requests: [][]byte{text("changed")},
			check: func(found *outcome) []string {
				return problem(found.Kind() != "whole" || (found.Status != 200 && found.Status < 500), "neither passed nor failed")
			}},
		{route: "c-buffered", script: "response-headers set content-length 3; response-body body changed", ask: small, responses: [][]byte{text("changed")},
			check: func(found *outcome) []string { return problem(found.Kind() == "hang", "hangs") }},
		{route: "c-buffered", script: "response-headers set content-length 7; response-body body changed", ask: small, check: bodies(request, text("changed"))},
		{route: "c-headers", script: "request-headers set content-length 3", ask: small, check: bodies(request, reply)},
		{route: "c-headers", script: "response-headers set content-length 3", ask: small, check: bodies(request, reply)},
		{route: "c-headers", script: "request-headers set content-length 5000; response-headers set content-length 5000", ask: small, check: bodies(request, reply)},
		// Bodies in responses to headers count only with CONTINUE_AND_REPLACE: otherwise they are ignored or a failure.
		{route: "c-headers", script: "request-headers body evil", ask: small, check: orFails(bodies(request, reply))},
		{route: "c-headers", script: "response-headers body evil", ask: small, check: orFails(bodies(request, reply))},
		{route: "c-streamed", script: "request-body streamed evil", ask: small, check: orFails(bodies(request, reply))},
		{route: "c-buffered", script: "response-body streamed evil", ask: small, check: orFails(bodies(request, reply))},
		{route: "c-buffered", script: "request-body size 10485760", ask: small, requests: [][]byte{bytes.Repeat(text("x"), 10<<20)},
			check: orFails(bodies(bytes.Repeat(text("x"), 10<<20), reply))},
		{route: "c-headers", script: "request-headers replace; request-headers body other", ask: small, check: bodies(text("other"), reply)},
		{route: "c-headers", script: "response-headers replace; response-headers body other", ask: small, check: bodies(request, text("other"))},
		{route: "c-buffered", script: "request-headers replace; request-headers body other", ask: small, check: bodies(text("other"), reply)},
		// Above the bound.
		{route: "c-small-buffered", script: "identity", ask: exchange{size: aboveBuffer, reply: 10}, check: answers(http.StatusRequestEntityTooLarge)},
		{route: "c-small-buffered", script: "identity", ask: exchange{size: 10, reply: aboveBuffer}, check: answers(500, 502)},
		{route: "c-small-buffered", script: "identity", ask: exchange{size: aboveBuffer, reply: 10, chunked: true},
			check: answers(http.StatusRequestEntityTooLarge)},
		{route: "c-small-partial", script: "request-body upper; response-body upper", ask: exchange{size: aboveBuffer, reply: aboveBuffer},
			check: partlyChanged},
		{route: "c-small-partial", script: "identity", ask: exchange{size: aboveBuffer, reply: aboveBuffer, chunked: true, trailers: true},
			check: bodies(backend.Text(aboveBuffer), backend.Text(aboveBuffer))},
	}, immediateCases(small), overrideCases(small))
}

// partlyChanged checks that the parts of both bodies that the service got are in upper case, and the rest unchanged.
func partlyChanged(found *outcome) []string {
	problems := passes(found)
	for _, side := range []struct {
		phase processor.Phase
		body  []byte
	}{{processor.RequestBody, found.endpoint.Body}, {processor.ResponseBody, found.Body}} {
		whole, count := backend.Text(aboveBuffer), found.service.Bytes[side.phase]
		problems = slices.Concat(problems,
			problem(count == 0 || count >= aboveBuffer || found.service.Messages[side.phase] != 1, "the service saw %d bytes %s in %d messages", count,
				side.phase, found.service.Messages[side.phase]),
			problem(!bytes.Equal(side.body, append(bytes.ToUpper(whole[:min(count, len(whole))]), whole[min(count, len(whole)):]...)),
				"%s is not what the service saw, and the rest", side.phase))
	}
	return problems
}

// headerCases are the changes of headers that a service may make.
func headerCases(small exchange) []change {
	trailers := exchange{size: 1_000, reply: 900, chunked: true, trailers: true}
	get := exchange{method: http.MethodGet, reply: 900}
	return []change{
		{route: "c-headers", script: "request-headers set x-new one", ask: small, check: atEndpoint("X-New", "one")},
		{route: "c-headers", script: "request-headers set x-keep other", ask: small, check: atEndpoint("X-Keep", "other")},
		{route: "c-headers", script: "request-headers append x-keep more", ask: small, check: func(found *outcome) []string {
			got := strings.Join(found.endpoint.Header.Values("X-Keep"), ",")
			return problem(got != "kept,more", "the endpoint got X-Keep: %q", got)
		}},
		{route: "c-headers", script: "request-headers default x-keep other", ask: small, check: atEndpoint("X-Keep", "kept")},
		{route: "c-headers", script: "request-headers remove x-keep", ask: small, check: atEndpoint("X-Keep", "")},
		{route: "c-headers", script: "request-headers remove X-Keep", ask: small, check: atEndpoint("X-Keep", "")},
		{route: "c-headers", script: "request-headers set X-UPPER one", ask: small, check: atEndpoint("X-Upper", "one")},
		{route: "c-headers", script: "response-headers set x-new one", ask: small, check: atClient("X-New", "one")},
		{route: "c-headers", script: "response-headers remove x-two", ask: small, check: atClient("X-Two", "")},
		{route: "c-headers", script: "response-headers append x-two three", ask: small, check: atClient("X-Two", "one|two|three")},
		{route: "c-headers", script: "response-headers set x-two three", ask: small, check: atClient("X-Two", "three")},
		{route: "c-headers", script: "response-headers set :status 404", ask: small, check: func(found *outcome) []string {
			return problem(found.Status != 404 || !bytes.Equal(found.Body, backend.Text(900)), "not 404 with the body of the endpoint")
		}},
		{route: "c-headers", script: "request-headers set x-new one", ask: get, check: atEndpoint("X-New", "one")},
		{route: "c-headers", script: "response-headers set x-new one", ask: exchange{method: http.MethodHead}, check: atClient("X-New", "one")},
		{route: "c-headers", script: "response-headers set x-new one", ask: exchange{method: http.MethodGet, status: http.StatusNoContent},
			check: func(found *outcome) []string {
				return problem(found.Status != 204 || found.Header.Get("X-New") != "one", "not 204 with the header")
			}},
		{route: "c-streamed", script: "identity", ask: exchange{method: http.MethodHead}, check: passes},
		{route: "c-streamed", script: "identity", ask: exchange{method: http.MethodGet, status: http.StatusNotModified},
			check: func(found *outcome) []string { return problem(found.Status != 304, "not 304") }},
		{route: "c-buffered", script: "identity", ask: exchange{method: http.MethodHead}, check: passes},
		{route: "c-headers", script: "request-headers set :path /other?x=2", ask: small, check: func(found *outcome) []string {
			return append(passes(found), problem(found.endpoint.Path != "/other?x=2", "path %s", found.endpoint.Path)...)
		}},
		{route: "c-headers", script: "any unknown", ask: small, check: passes},
		{route: "c-streamed", script: "any unknown", ask: trailers, check: passes},
		{route: "c-buffered", script: "any unknown", ask: trailers, check: passes},
		{route: "c-streamed", script: "request-trailers set x-new one; response-trailers set x-new one", ask: trailers, check: func(found *outcome) []string {
			return slices.Concat(passes(found), problem(found.endpoint.Trailer.Get("X-New") != "one", "trailers of the request: %v", found.endpoint.Trailer),
				problem(found.Trailer.Get("X-New") != "one", "trailers of the response: %v", found.Trailer))
		}},
		{route: "c-streamed", script: "response-trailers remove x-reply-trailer", ask: trailers, check: func(found *outcome) []string {
			return append(passes(found), problem(found.Trailer.Get(backend.TrailerName) != "", "trailers of the response: %v", found.Trailer)...)
		}},
		{route: "c-skip", script: "identity", ask: small, check: passes},
		{route: "c-none", script: "identity", ask: small, check: func(found *outcome) []string {
			return append(passes(found), problem(found.service.Streams != 0, "%d calls", found.service.Streams)...)
		}},
		{route: "c-attributes", script: "identity", ask: small, check: func(found *outcome) []string {
			var missing []string
			for _, name := range found.route.Extension.Attributes {
				if found.service.Attributes[name] == "" {
					missing = append(missing, name)
				}
			}
			return append(passes(found), problem(len(missing) > 0, "the service got no %v", missing)...)
		}},
	}
}

// forbiddenCases are changes that no service may make: the exchange passes without them, or fails where the rules say so.
func forbiddenCases(small exchange) []change {
	var cases []change
	untouched := func(found *outcome) []string {
		header := found.endpoint.Header
		return slices.Concat(bodies(backend.Text(small.size), backend.Text(small.reply))(found),
			problem(found.endpoint.Host != found.route.Host(), "the endpoint got the host %q", found.endpoint.Host),
			problem(found.endpoint.Path != "/some/path?query=1", "the endpoint got the path %q", found.endpoint.Path),
			problem(found.endpoint.Method != http.MethodPost, "the endpoint got the method %q", found.endpoint.Method),
			problem(header.Get("X-Denied") != "", "the endpoint got x-denied"),
			problem(header.Get("Upgrade") != "" || strings.Contains(strings.ToLower(header.Get("Connection")), "x-keep"), "headers of a connection: %v", header),
			problem(header.Get("X-Keep") != "kept", "the endpoint lacks x-keep"),
			problem(slices.ContainsFunc(slices.Collect(mapKeys(header)), func(name string) bool { return strings.ContainsAny(name, " \r\n") }), "names: %v", header),
			problem(found.Header.Get("Upgrade") != "" || found.Header.Get("X-Injected") != "" || header.Get("X-Injected") != "", "an injected header"))
	}
	for _, mutation := range []string{
		"set :authority evil.test", "set host evil.test", "set :scheme gopher", "set :path /evil", "set :method DELETE", "set :unknown x",
		"set connection x-keep", "set transfer-encoding chunked", "set transfer-encoding identity", "set upgrade websocket", "set keep-alive timeout=5",
		"set proxy-connection close", "set te gzip", "set x-denied yes", "append host evil.test", "remove host", "remove :path", "remove :method", "remove :authority",
		"set bad name", "set x-crlf one\r\nx-injected: two", "set x-nul a\x00b", "large 10485760",
	} {
		for _, route := range []string{"c-locked", "c-strict"} {
			cases = append(cases, change{route: route, script: "request-headers " + mutation, ask: small, check: func(found *outcome) []string {
				// The script is a header, so one that no header can have is never sent.
				if found.route.Extension.ErrorOnDenied || strings.Contains(mutation, "crlf") || strings.Contains(mutation, "nul") ||
					strings.Contains(mutation, "large") || strings.Contains(mutation, "bad") {
					if found.Status >= 500 && found.Kind() == "whole" && found.endpoint.Count == 0 {
						return nil
					}
				}
				return untouched(found)
			}})
		}
	}
	cases = append(cases, change{route: "c-strict", script: "request-headers set x-denied yes", ask: small, check: func(found *outcome) []string {
		return append(answers(500, 502, 503)(found), problem(found.endpoint.Count > 0, "the endpoint got the request")...)
	}})
	for _, mutation := range []string{"set connection x-two", "set transfer-encoding chunked", "set upgrade websocket", "set keep-alive timeout=5",
		"set x-denied yes", "set :path /x", "set proxy-connection close"} {
		cases = append(cases, change{route: "c-locked", script: "response-headers " + mutation, ask: small, check: func(found *outcome) []string {
			return slices.Concat(untouched(found), problem(found.Header.Get("X-Denied") != "", "the client got x-denied"),
				problem(len(found.Header.Values("X-Two")) != 2, "x-two: %v", found.Header.Values("X-Two")))
		}})
	}
	return cases
}

// immediateCases are responses of the service itself.
func immediateCases(small exchange) []change {
	return []change{
		{route: "c-headers", script: "request-headers immediate 403 no entry", ask: small, check: immediate(403, "no entry", false)},
		{route: "c-headers", script: "request-headers immediate 429 later", ask: exchange{method: http.MethodGet}, check: immediate(429, "later", false)},
		{route: "c-headers", script: "request-headers immediate 200 fine", ask: small, check: immediate(200, "fine", false)},
		{route: "c-headers", script: "response-headers immediate 403 no exit", ask: small, check: immediate(403, "no exit", true)},
		{route: "c-buffered", script: "request-body immediate 403 no entry", ask: small, check: immediate(403, "no entry", false)},
		{route: "c-buffered", script: "response-body immediate 403 no exit", ask: small, check: immediate(403, "no exit", true)},
		{route: "c-streamed", script: "request-body immediate 403 no entry", ask: small, check: immediate(403, "no entry", true)},
		{route: "c-streamed", script: "request-headers immediate 403 no entry", ask: exchange{size: largeBody, reply: 10}, check: immediate(403, "no entry", false)},
		{route: "c-headers", script: "request-headers immediate 99 x", ask: small, check: answers(500, 502, 503, 200)},
		{route: "c-headers", script: "request-headers immediate 700 x", ask: small, check: answers(500, 502, 503, 200)},
	}
}

// overrideCases choose other modes for one exchange.
func overrideCases(small exchange) []change {
	const override = "request-headers override request-body=Buffered,response-headers=Skip,response-body=Streamed"
	return []change{
		{route: "c-override", script: override + "; request-body upper; response-body upper", ask: small,
			check: func(found *outcome) []string {
				return slices.Concat(bodies(bytes.ToUpper(backend.Text(small.size)), bytes.ToUpper(backend.Text(small.reply)))(found),
					problem(found.service.Messages[processor.ResponseHeaders] != 0, "the service saw the headers of the response"))
			}},
		{route: "c-fixed", script: override + "; request-body upper; response-body upper", ask: small, check: func(found *outcome) []string {
			return slices.Concat(bodies(backend.Text(small.size), backend.Text(small.reply))(found),
				problem(found.service.Messages[processor.RequestBody] != 0, "the service saw the body of the request"))
		}},
		{route: "c-override", script: "response-headers override response-body=Buffered; response-body body changed", ask: small,
			check: bodies(backend.Text(small.size), []byte("changed"))},
	}
}

func mapKeys(header http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range header {
			if !yield(name) {
				return
			}
		}
	}
}

func changes(lab *laboratory) error {
	routes := map[string]proxy.Route{}
	for _, route := range changeRoutes() {
		routes[route.Name] = route
	}
	for _, one := range changeCases() {
		for _, isHTTP2 := range []bool{false, true} {
			asked := one.ask
			asked.route, asked.isHTTP2, asked.script = routes[one.route+"-"+protocol(isHTTP2)], isHTTP2, one.script
			asked.name = fmt.Sprintf("%s/%s/%s", one.route, protocol(isHTTP2), strings.ReplaceAll(fmt.Sprintf("%s, %d bytes, %d back", one.script, asked.size, asked.reply), "\r\n", "CRLF"))
			if lab.skips(asked.name) {
				continue
			}
			if strings.ContainsAny(one.script, "\r\n\x00") {
				asked.script = encoded(one.script)
			}
			found := lab.run(asked)
			problems := one.check(found)
			lab.add("changes", found, problems, tornByChanges(one, found))
		}
	}
	return nil
}

// tornByChanges are torn bodies of a case. A case that passed its check has the bodies that it should have.
func tornByChanges(one change, found *outcome) []string {
	if len(one.check(found)) == 0 && len(one.requests) == 0 && len(one.responses) == 0 {
		return nil
	}
	return found.torn(append(one.requests, backend.Text(found.size)), append(one.responses, backend.Text(found.reply)))
}

// encoded is a script with letters that no header can have.
func encoded(text string) string {
	return processor.EncodedPrefix + fmt.Sprintf("%x", text)
}
