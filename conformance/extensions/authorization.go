package main

// This file owns the part `authorization`: an ext_authz service that allows, denies, lies and dies.

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"fairway.dev/conformance/extensions/authorizer"
	"fairway.dev/conformance/extensions/backend"
	"fairway.dev/conformance/extensions/liar"
	"fairway.dev/conformance/extensions/proxy"
)

// The bounds of bodies in questions.
const (
	wholeBody   = 64 << 10
	partialBody = 1_000
)

func authorizationRoutes() []proxy.Route {
	var routes []proxy.Route
	for _, isOpen := range []bool{false, true} {
		for _, isHTTP2 := range []bool{false, true} {
			for _, one := range []struct {
				name string
				auth proxy.Auth
			}{
				{"plain", proxy.Auth{}},
				{"whole", proxy.Auth{MaxBody: wholeBody}},
				{"partial", proxy.Auth{MaxBody: partialBody, AllowPartial: true}},
				{"context", proxy.Auth{Context: map[string]string{"tenant": "blue"}}},
			} {
				asked := one.auth
				asked.Service, asked.IsOpen, asked.Timeout = decision, isOpen, failuresTimeout
				routes = append(routes, proxy.Route{Name: authorizationRoute(one.name, isOpen, isHTTP2), HTTP2: isHTTP2, Auth: &asked})
			}
			for _, kind := range liar.Names() {
				routes = append(routes, proxy.Route{Name: authorizationRoute(kind, isOpen, isHTTP2), HTTP2: isHTTP2,
					Auth: &proxy.Auth{Service: kind, IsOpen: isOpen, Timeout: failuresTimeout}})
			}
		}
	}
	return routes
}

func authorizationRoute(name string, isOpen, isHTTP2 bool) string {
	return fmt.Sprintf("a-%s-%s-%s", name, openness(isOpen), protocol(isHTTP2))
}

// decided is a case: a script, and what must come of it.
type decided struct {
	route, script string
	ask           exchange
	check         func(*outcome) []string
	// fails says that the service has given no decision: check is then of an open route, and a closed one must fail.
	fails bool
	// asked checks the question.
	asked func(*auth.AttributeContext) []string
}

// denied checks a denial of the service.
func denied(status int, text string) func(*outcome) []string {
	return func(found *outcome) []string {
		return slices.Concat(answers(status)(found), problem(string(found.Body) != text, "body %q", found.Body),
			problem(found.endpoint.Count > 0, "the endpoint got the request"))
	}
}

// failed checks that a request did not pass for want of a decision.
func failed(found *outcome) []string {
	return slices.Concat(problem(found.Kind() != "whole" || found.Status < 500, "%s, and not failed", found.kind()),
		problem(found.endpoint.Count > 0, "the endpoint got the request"))
}

func authorizationCases() []decided {
	small := exchange{size: 900, reply: 900}
	text := backend.Text
	passed := func(found *outcome) []string { return bodies(text(found.size), text(found.reply))(found) }
	deniedWith := func(name, value string) func(*outcome) []string {
		return func(found *outcome) []string {
			return append(denied(403, "no")(found), problem(found.Header.Get(name) != value, "%s: %q", name, found.Header.Get(name))...)
		}
	}
	cases := []decided{
		{script: "allow", ask: small, check: passed},
		{script: "allow", ask: exchange{method: http.MethodGet, reply: 10}, check: passed},
		{script: "allow", ask: exchange{size: largeBody, reply: largeBody, slow: true}, check: passed},
		{script: "allow", ask: exchange{size: 100_000, reply: 90_000, chunked: true}, check: passed},
		{script: "set x-new one", ask: small, check: atEndpoint("X-New", "one")},
		{script: "set x-keep other", ask: small, check: atEndpoint("X-Keep", "other")},
		{script: "append x-keep more", ask: small, check: func(found *outcome) []string {
			got := strings.ReplaceAll(strings.Join(found.endpoint.Header.Values("X-Keep"), ","), ", ", ",")
			return problem(got != "kept,more", "the endpoint got X-Keep: %q", got)
		}},
		{script: "remove x-keep", ask: small, check: atEndpoint("X-Keep", "")},
		{script: "respond x-decided yes", ask: small, check: atClient("X-Decided", "yes")},
		{script: "query new 1; unquery query", ask: small, check: func(found *outcome) []string {
			return append(passes(found), problem(found.endpoint.Path != "/some/path?new=1", "path %s", found.endpoint.Path)...)
		}},
		{script: "deny 403 no", ask: small, check: denied(403, "no")},
		{script: "deny 401 who are you", ask: exchange{method: http.MethodGet}, check: denied(401, "who are you")},
		{script: "deny 0 default", ask: small, check: denied(403, "default")},
		{script: "deny 403 no; with x-reason because", ask: small, check: deniedWith("X-Reason", "because")},
		{script: "deny 403 no; with www-authenticate Basic", ask: small, check: deniedWith("Www-Authenticate", "Basic")},
		{script: "deny 302; with location https://login.test/", ask: small, check: func(found *outcome) []string {
			return append(denied(302, "")(found), problem(found.Header.Get("Location") != "https://login.test/", "Location: %q", found.Header.Get("Location"))...)
		}},
		{script: "code 7", ask: small, check: denied(403, "")},
		{script: "code 16", ask: small, check: func(found *outcome) []string {
			return append(answers(401, 403)(found), problem(found.endpoint.Count > 0, "the endpoint got the request")...)
		}},
		// A response that allows and denies: the status decides, or it is no decision. The request must not pass with a denial's headers.
		{script: "both", ask: small, fails: true, check: passed},
		{script: "delay 200", ask: small, check: passed},
		{script: "silent", ask: small, fails: true, check: passed},
		{script: "reset", ask: small, fails: true, check: passed},
		{script: "hangup", ask: small, fails: true, check: passed},
		{script: "error 14", ask: small, fails: true, check: passed},
		{script: "error 13", ask: small, fails: true, check: passed},
		{script: "malformed", ask: small, fails: true, check: passed},
		{script: "size 10485760", ask: small, fails: true, check: func(found *outcome) []string { return passes(found) }},
	}
	for _, forbidden := range []string{"set host evil.test", "set :authority evil.test", "set :path /evil", "set :method DELETE", "set connection x-keep",
		"set transfer-encoding chunked", "set content-length 3", "set upgrade websocket", "set te gzip", "remove host", "remove :path",
		"remove content-length", "set keep-alive timeout=5"} {
		cases = append(cases, decided{script: forbidden, ask: small, check: forbiddenByDecision})
	}
	return append(cases, questions(small, passed)...)
}

// forbiddenByDecision checks that a change that no service may make was left out, or failed the request.
func forbiddenByDecision(found *outcome) []string {
	if found.Kind() == "whole" && found.Status >= 500 && found.endpoint.Count == 0 {
		return nil
	}
	return slices.Concat(bodies(backend.Text(found.size), backend.Text(found.reply))(found),
		problem(found.endpoint.Host != found.route.Host(), "the endpoint got the host %q", found.endpoint.Host),
		problem(found.endpoint.Path != "/some/path?query=1", "the endpoint got the path %q", found.endpoint.Path),
		problem(found.endpoint.Method != http.MethodPost, "the endpoint got the method %q", found.endpoint.Method),
		problem(found.endpoint.Header.Get("X-Keep") != "kept", "the endpoint lacks x-keep"))
}

// questions are cases about the content of the CheckRequest.
func questions(small exchange, passed func(*outcome) []string) []decided {
	bodyIs := func(expected []byte) func(*auth.AttributeContext) []string {
		return func(question *auth.AttributeContext) []string {
			request := question.GetRequest().GetHttp()
			got := request.GetRawBody()
			if len(got) == 0 {
				got = []byte(request.GetBody())
			}
			return problem(!bytes.Equal(got, expected), "the question has %d bytes of the body and not %d", len(got), len(expected))
		}
	}
	return []decided{
		{script: "allow", ask: small, check: passed, asked: func(question *auth.AttributeContext) []string {
			request := question.GetRequest().GetHttp()
			return slices.Concat(problem(request.GetMethod() != http.MethodPost, "method %q", request.GetMethod()),
				problem(request.GetPath() != "/some/path?query=1", "path %q", request.GetPath()),
				problem(!strings.HasPrefix(request.GetHost(), "a-plain-"), "host %q", request.GetHost()),
				problem(request.GetScheme() != "http", "scheme %q", request.GetScheme()),
				problem(!strings.HasPrefix(request.GetProtocol(), "HTTP/"), "protocol %q", request.GetProtocol()),
				problem(authorizer.HeadersOf(question)["x-keep"] != "kept", "headers %v", authorizer.HeadersOf(question)),
				problem(question.GetSource().GetAddress().GetSocketAddress().GetAddress() != "127.0.0.1", "source %v", question.GetSource()),
				problem(question.GetDestination().GetAddress().GetSocketAddress().GetPortValue() == 0, "destination %v", question.GetDestination()),
				problem(len(request.GetRawBody())+len(request.GetBody()) > 0, "a body that was not asked for"))
		}},
		{route: "context", script: "allow", ask: small, check: passed, asked: func(question *auth.AttributeContext) []string {
			return problem(question.GetContextExtensions()["tenant"] != "blue", "context_extensions %v", question.GetContextExtensions())
		}},
		{route: "whole", script: "allow", ask: small, check: passed, asked: bodyIs(backend.Text(small.size))},
		{route: "whole", script: "allow", ask: exchange{size: 30_000, reply: 10, chunked: true}, check: passed, asked: bodyIs(backend.Text(30_000))},
		{route: "whole", script: "allow", ask: exchange{method: http.MethodGet, reply: 10}, check: passed, asked: bodyIs(nil)},
		{route: "whole", script: "allow", ask: exchange{size: wholeBody + 1, reply: 10}, check: tooLarge},
		{route: "whole", script: "allow", ask: exchange{size: 2 * wholeBody, reply: 10, chunked: true}, check: tooLarge},
		{route: "whole", script: "deny 403 no", ask: small, check: denied(403, "no")},
		{route: "partial", script: "allow", ask: exchange{size: 500, reply: 10}, check: passed, asked: bodyIs(backend.Text(500))},
		{route: "partial", script: "allow", ask: exchange{size: 100_000, reply: 10}, check: passed, asked: bodyIs(backend.Text(100_000)[:partialBody])},
		{route: "partial", script: "allow", ask: exchange{size: 100_000, reply: 10, chunked: true}, check: passed,
			asked: bodyIs(backend.Text(100_000)[:partialBody])},
		{route: "partial", script: "deny 403 no", ask: exchange{size: 100_000, reply: 10}, check: denied(403, "no")},
	}
}

func tooLarge(found *outcome) []string {
	return append(answers(http.StatusRequestEntityTooLarge)(found), problem(found.endpoint.Count > 0, "the endpoint got the request")...)
}

func authorization(lab *laboratory) error {
	routes := map[string]proxy.Route{}
	for _, route := range authorizationRoutes() {
		routes[route.Name] = route
	}
	for _, isOpen := range []bool{false, true} {
		for _, isHTTP2 := range []bool{false, true} {
			for _, one := range authorizationCases() {
				if one.route == "" {
					one.route = "plain"
				}
				lab.decide(routes[authorizationRoute(one.route, isOpen, isHTTP2)], one)
			}
			for _, kind := range liar.Names() {
				passed := func(found *outcome) []string { return passes(found) }
				lab.decide(routes[authorizationRoute(kind, isOpen, isHTTP2)], decided{route: kind, ask: exchange{size: 900, reply: 900}, fails: true, check: passed})
			}
		}
	}
	return nil
}

// decide runs a case.
func (lab *laboratory) decide(route proxy.Route, one decided) {
	asked := one.ask
	asked.route, asked.isHTTP2, asked.script = route, route.HTTP2, one.script
	asked.name = fmt.Sprintf("%s/%s/%s/%s, %d bytes, %d back", one.route, openness(route.Auth.IsOpen), protocol(route.HTTP2), one.script, asked.size, asked.reply)
	if asked.chunked {
		asked.name += ", chunked"
	}
	if one.asked != nil {
		asked.name += ", the question"
	}
	if lab.skips(asked.name) {
		return
	}
	found := lab.run(asked)
	check := one.check
	if one.fails && !route.Auth.IsOpen {
		check = failed
	}
	problems := append(check(found), problem(found.Took > failuresTimeout+3*time.Second && !asked.slow, "took %s", found.Took)...)
	if one.asked != nil {
		switch questions := lab.authorizer.Asked(found.id); len(questions) {
		case 1:
			problems = append(problems, one.asked(questions[0])...)
		default:
			problems = append(problems, fmt.Sprintf("%d questions", len(questions)))
		}
	}
	lab.add("authorization", found, problems, found.torn(original(found)))
}
