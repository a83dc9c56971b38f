package main

// This file owns the part `modes`: every mode of both bodies with every protocol on both sides and every form of a message.

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"time"

	"fairway.dev/conformance/extensions/backend"
	"fairway.dev/conformance/extensions/processor"
	"fairway.dev/conformance/extensions/proxy"
)

const (
	// modesTimeout is the message timeout of cases without timeouts.
	modesTimeout = 5 * time.Second
	// modesBuffer holds the largest body of this part.
	modesBuffer = 4 << 20
	// largeBody makes windows and buffers fill up.
	largeBody = 1 << 20
)

// forms are the forms of messages.
var forms = []struct {
	name string
	exchange
}{
	{"small", exchange{size: 1_000, reply: 900}},
	{"1MiB", exchange{size: largeBody, reply: largeBody, slow: true}},
	{"chunked", exchange{size: 100_000, reply: 90_000, chunked: true, trailers: true}},
	{"empty", exchange{method: http.MethodGet}},
	{"early", exchange{size: 1_000, reply: 900, early: true}},
}

// scripts are what the service does: nothing, or something to everything that it sees.
var modeScripts = []struct{ name, text string }{
	{"identity", "identity"},
	{"changes", "request-headers set x-marked yes; response-headers set x-marked yes; request-body upper; response-body upper; " +
		"request-trailers set x-marked-trailer yes; response-trailers set x-marked-trailer yes"},
}

func modeRoutes() []proxy.Route {
	var routes []proxy.Route
	for _, request := range proxy.BodyModes {
		for _, response := range proxy.BodyModes {
			for _, isHTTP2 := range []bool{false, true} {
				routes = append(routes, modeRoute(request, response, isHTTP2))
			}
		}
	}
	return routes
}

func modeRoute(request, response string, isHTTP2 bool) proxy.Route {
	message := func(mode string) proxy.Message { return proxy.Message{Body: mode, Trailers: mode != proxy.None} }
	return proxy.Route{
		Name: fmt.Sprintf("m-%d-%d-%s", slices.Index(proxy.BodyModes, request), slices.Index(proxy.BodyModes, response), protocol(isHTTP2)), HTTP2: isHTTP2,
		Extension: &proxy.Extension{Service: script, Request: message(request), Response: message(response),
			MaxBuffered: modesBuffer, Timeout: modesTimeout},
	}
}

func protocol(isHTTP2 bool) string {
	if isHTTP2 {
		return "h2"
	}
	return "h1"
}

func modes(lab *laboratory) error {
	for _, route := range modeRoutes() {
		for _, isHTTP2 := range []bool{false, true} {
			for _, form := range forms {
				for _, script := range modeScripts {
					asked := form.exchange
					asked.route, asked.isHTTP2, asked.script = route, isHTTP2, script.text
					asked.name = fmt.Sprintf("%s/%s/%s-%s/%s/%s", route.Extension.Request.Body, route.Extension.Response.Body,
						protocol(isHTTP2), protocol(route.HTTP2), form.name, script.name)
					if lab.skips(asked.name) {
						continue
					}
					found := lab.run(asked)
					problems, torn := verifyMode(found, script.name == "changes")
					lab.add("modes", found, problems, torn)
				}
			}
		}
	}
	return nil
}

// seen is a body after a service that has seen it in a mode.
func seen(body []byte, mode string, isChanged bool) []byte {
	if mode == proxy.None || !isChanged {
		return body
	}
	return bytes.ToUpper(body)
}

// verifyMode returns what is wrong with an exchange that must pass.
func verifyMode(found *outcome, isChanged bool) (problems, torn []string) {
	extension := found.route.Extension
	request := seen(backend.Text(found.size), extension.Request.Body, isChanged)
	response := seen(backend.Text(found.reply), extension.Response.Body, isChanged)
	wrong := func(isWrong bool, format string, arguments ...any) {
		if isWrong {
			problems = append(problems, fmt.Sprintf(format, arguments...))
		}
	}
	torn = found.torn([][]byte{request}, [][]byte{response})
	wrong(found.Kind() != "whole", "the response is not whole")
	wrong(found.Status != http.StatusOK, "status %d", found.Status)
	if len(problems) > 0 {
		return problems, torn
	}
	wrong(found.endpoint.Count != 1, "the endpoint got %d requests", found.endpoint.Count)
	wrong(found.endpoint.Digest != backend.Digest(request), "the endpoint got another body: %d bytes", found.endpoint.Length)
	wrong(backend.Digest(found.Body) != backend.Digest(response), "the client got another body: %d bytes", len(found.Body))
	wrong(found.endpoint.Path != "/some/path?query=1", "the endpoint got the path %s", found.endpoint.Path)
	wrong(found.endpoint.Header.Get("X-Keep") != "kept", "the endpoint lacks a header of the client")
	wrong(len(found.Header.Values("X-Two")) != 2, "the client got %q for two headers of a name", found.Header.Values("X-Two"))
	mark := ""
	if isChanged {
		mark = "yes"
	}
	wrong(found.endpoint.Header.Get("X-Marked") != mark, "header of the request: %q", found.endpoint.Header.Get("X-Marked"))
	wrong(found.Header.Get("X-Marked") != mark, "header of the response: %q", found.Header.Get("X-Marked"))
	wrong(found.early && !slices.Contains(found.Early, http.StatusEarlyHints), "the client got no 103")
	if found.trailers {
		wrong(found.endpoint.Trailer.Get(requestTrailer) != trailerValue, "trailers of the request: %v", found.endpoint.Trailer)
		wrong(found.Trailer.Get(backend.TrailerName) != backend.TrailerValue, "trailers of the response: %v", found.Trailer)
		wrong(extension.Request.Trailers && found.endpoint.Trailer.Get("X-Marked-Trailer") != mark, "marked trailers of the request: %v", found.endpoint.Trailer)
		wrong(extension.Response.Trailers && found.Trailer.Get("X-Marked-Trailer") != mark, "marked trailers of the response: %v", found.Trailer)
	}
	return append(problems, verifySight(found)...), torn
}

// verifySight returns what the service got too much or too little.
func verifySight(found *outcome) []string {
	var problems []string
	wrong := func(isWrong bool, format string, arguments ...any) {
		if isWrong {
			problems = append(problems, fmt.Sprintf(format, arguments...))
		}
	}
	service, extension := found.service, found.route.Extension
	wrong(service.Streams != 1, "%d calls", service.Streams)
	for _, side := range []struct {
		headers, body, trailers processor.Phase
		message                 proxy.Message
		size                    int
	}{
		{processor.RequestHeaders, processor.RequestBody, processor.RequestTrailers, extension.Request, found.size},
		{processor.ResponseHeaders, processor.ResponseBody, processor.ResponseTrailers, extension.Response, found.reply},
	} {
		wrong(service.Messages[side.headers] != 1, "%d messages %s", service.Messages[side.headers], side.headers)
		size := side.size
		if side.message.Body == proxy.None {
			size = 0
		}
		wrong(service.Bytes[side.body] != size, "the service saw %d bytes %s and not %d", service.Bytes[side.body], side.body, size)
		isOne := side.message.Body == proxy.Buffered || side.message.Body == proxy.Partial
		wrong(isOne && size > 0 && service.Messages[side.body] != 1, "%d messages %s", service.Messages[side.body], side.body)
		wrong(side.size == 0 && !service.Ended[side.headers], "%s did not say that no body follows", side.headers)
		wrong(side.size > 0 && service.Ended[side.headers], "%s said that no body follows", side.headers)
		wrong(size > 0 && !found.trailers && !service.Ended[side.body], "%s did not say where it ends", side.body)
		expected := 0
		if found.trailers && side.message.Trailers {
			expected = 1
		}
		wrong(service.Messages[side.trailers] != expected, "%d messages %s and not %d", service.Messages[side.trailers], side.trailers, expected)
	}
	return problems
}
