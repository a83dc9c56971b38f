package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway.dev/conformance/extensions/backend"
	"fairway.dev/conformance/extensions/client"
	"fairway.dev/conformance/extensions/processor"
	"fairway.dev/conformance/extensions/proxy"
)

// arrived is an outcome in which everything passed.
func arrived(mode string, isOpen bool) *outcome {
	asked := exchange{size: 1_000, reply: 900, chunked: true, trailers: true,
		route: proxy.Route{Extension: &proxy.Extension{IsOpen: isOpen, Request: proxy.Message{Body: mode}}}}
	return &outcome{exchange: asked,
		Response: &client.Response{Status: 200, Header: http.Header{"X-Backend": {"yes"}}, Body: backend.Text(900),
			Trailer: http.Header{backend.TrailerName: {backend.TrailerValue}}},
		endpoint: backend.Sight{Count: 1, IsWhole: true, Body: backend.Text(1_000), Length: 1_000}}
}

func TestABodyThatIsCutAndLooksWholeIsTorn(t *testing.T) {
	for _, one := range []struct {
		name   string
		spoil  func(*outcome)
		isTorn bool
	}{
		{"nothing", func(*outcome) {}, false},
		{"a short response", func(found *outcome) { found.Body = found.Body[:899] }, true},
		{"a short response with an error", func(found *outcome) { found.Body, found.Err = found.Body[:899], errors.New("EOF") }, false},
		{"a short request", func(found *outcome) { found.endpoint.Body = found.endpoint.Body[:1] }, true},
		{"a short request that is not whole", func(found *outcome) { found.endpoint.Body, found.endpoint.IsWhole = nil, false }, false},
		{"a response of the proxy", func(found *outcome) { found.Header, found.Body, found.Status = nil, nil, 500 }, false},
	} {
		found := arrived(proxy.Streamed, false)
		one.spoil(found)
		if torn := found.torn(original(found)); (len(torn) > 0) != one.isTorn {
			t.Errorf("%s: %v", one.name, torn)
		}
	}
}

func TestAFailureMustBeVisibleUnlessTheRouteIsOpen(t *testing.T) {
	reset := failureKinds[0]
	whole := func(*outcome) {}
	cut := func(found *outcome) { found.Body, found.Err = found.Body[:10], errors.New("EOF") }
	refused := func(found *outcome) { found.Header, found.Status = http.Header{}, 500 }
	hangs := func(found *outcome) { found.IsHang = true }
	late := func(found *outcome) { refused(found); found.Took = 5 * time.Second }
	for _, one := range []struct {
		phase   processor.Phase
		isOpen  bool
		spoil   func(*outcome)
		isRight bool
	}{
		{processor.RequestHeaders, false, whole, false}, {processor.RequestHeaders, false, refused, true}, {processor.RequestHeaders, false, cut, false},
		{processor.RequestHeaders, true, whole, true}, {processor.RequestHeaders, true, refused, false}, {processor.ResponseBody, false, cut, true},
		{processor.ResponseBody, true, cut, false}, {processor.ResponseBody, false, whole, false}, {processor.RequestBody, false, hangs, false},
		{processor.RequestHeaders, false, late, false},
	} {
		found := arrived(proxy.Streamed, one.isOpen)
		one.spoil(found)
		if problems := verifyFailure(found, reset, one.phase); (len(problems) == 0) != one.isRight {
			t.Errorf("%s, open %t, %s: %v", one.phase, one.isOpen, found.kind(), problems)
		}
	}
}

func TestDifferencesAreOfPeersAlone(t *testing.T) {
	for _, known := range differences {
		if known.peer == "fairway" || known.why == "" {
			t.Errorf("%+v", known)
		}
	}
	one := result{Part: "modes", Name: "None/None/h1-h1/early/identity", Problems: []string{"the client got no 103"}}
	if differenceOf("envoy", one) == "" || differenceOf("fairway", one) != "" {
		t.Error(one)
	}
	one.Problems = append(one.Problems, "the client got another body: 3 bytes")
	if why := differenceOf("envoy", one); why != "" {
		t.Errorf("a difference hides another problem: %s", why)
	}
}

func TestABlockOfYAMLEndsWithItsIndentation(t *testing.T) {
	block, err := blockOf("data:\n  policy.rego: |\n    package a\n\n    allow {\n      true\n    }\n---\nmore: true\n", "policy.rego: |")
	if err != nil || block != "package a\n\nallow {\n  true\n}\n" {
		t.Errorf("%q %v", block, err)
	}
	if _, err := blockOf("nothing", "policy.rego: |"); err == nil || !strings.Contains(err.Error(), "policy.rego") {
		t.Error(err)
	}
}
