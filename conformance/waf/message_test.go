package main

import (
	"regexp"
	"testing"

	"gopkg.in/yaml.v3"
)

func rawOf(t *testing.T, source string) string {
	t.Helper()
	var in input
	if err := yaml.Unmarshal([]byte(source), &in); err != nil {
		t.Fatal(err)
	}
	raw, err := in.raw()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestRequestsAreThoseOfTheCoreRuleSetsRunner(t *testing.T) {
	for source, want := range map[string]string{
		`{}`: "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
		`{method: POST, uri: /post, headers: {Host: a}, data: "x=a b&y"}`: "POST /post HTTP/1.1\r\nHost: a\r\n" +
			"Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\nContent-Length: 7\r\n\r\nx=a+b&y",
		`{headers: {B: "1", A: "2"}, autocomplete_headers: false, data: '{{ "1" | repeat 3 }}'}`: "GET / HTTP/1.1\r\nB: 1\r\nA: 2\r\n\r\n111",
		`{headers: {Content-Type: "multipart/form-data; boundary=x"}, data: "a\nb"}`: "GET / HTTP/1.1\r\n" +
			"Content-Type: multipart/form-data; boundary=x\r\nConnection: close\r\nContent-Length: 4\r\n\r\na\r\nb",
		`{encoded_request: "R0VUIC8g\nSFRUUC8xLjANCg0K"}`: "GET / HTTP/1.0\r\n\r\n",
	} {
		if raw := rawOf(t, source); raw != want {
			t.Errorf("%s:\n%q\n%q", source, raw, want)
		}
	}
}

func TestParse(t *testing.T) {
	m, err := parse(mark([]byte("POST /a?b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"), "crs-1"))
	if err != nil || m.Method != "POST" || m.Target != "/a?b" || string(m.Body) != "abcd" {
		t.Fatalf("%+v, %v", m, err)
	}
	if id, _ := m.first("x-waf-test"); id != "crs-1" {
		t.Errorf("%+v", m.Headers)
	}
	if _, err := m.asHTTP2(); err == nil {
		t.Error("chunks in HTTP/2")
	}
	for _, raw := range []string{
		"GET /\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n", "GET / HTTP/1.1\r\nno header\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
		"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc", "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
		"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc\r\n",
	} {
		if m, err := parse([]byte(raw)); err == nil {
			t.Errorf("%q: %+v", raw, m)
		}
	}
}

func TestHTTP2HasNoConnectionHeaders(t *testing.T) {
	two := func(raw string) (*message, error) {
		m, err := parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return m.asHTTP2()
	}
	m, err := two("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Y: z\r\n\r\n")
	if err != nil || m.Protocol != "HTTP/2" || len(m.Headers) != 2 || m.Headers[1] != (header{"x-y", "z"}) {
		t.Errorf("%+v, %v", m, err)
	}
	for _, raw := range []string{
		"GET /a HTTP/1.1\r\nConnection: keep-alive, close\r\n\r\n", "GET http://h/a HTTP/1.1\r\n\r\n", "CONNECT h:80 HTTP/1.1\r\n\r\n",
		"GET /a b HTTP/1.1\r\n\r\n", "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET /a HTTP/1.1\r\na b: c\r\n\r\n",
	} {
		if m, err := two(raw); err == nil {
			t.Errorf("%q: %+v", raw, m)
		}
	}
}

func TestDifferences(t *testing.T) {
	v := verdict{Status: 403, Interrupted: true, Rules: []int{1, 2, 2}}
	if reason := v.difference(verdict{Status: 403, Interrupted: true, Rules: []int{1, 2, 2}}); reason != "" {
		t.Error(reason)
	}
	if reason := v.difference(verdict{Status: 403, Interrupted: true, Rules: []int{1, 2, 3}}); reason != "rules missing [2], additional [3]" {
		t.Error(reason)
	}
	if v.difference(verdict{Status: 200, Interrupted: true, Rules: []int{1, 2, 2}}) == "" {
		t.Error("another status")
	}
}

func TestCasesOfTheModuleAreRead(t *testing.T) {
	cases, err := loadCases(regexp.MustCompile(""))
	if err != nil || len(cases) < 4000 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	ids := map[string]bool{}
	for _, c := range cases {
		if ids[c.ID] {
			t.Errorf("%s is there twice", c.ID)
		}
		ids[c.ID] = true
	}
}

func TestEndpointReflects(t *testing.T) {
	r := respond("POST", "/reflect", []byte(`{"status":404,"headers":{"Content-Type":"text/html"},"encodedBody":"YWI="}`))
	if r.Status != 404 || string(r.Body) != "ab" || len(r.Headers) != 1 {
		t.Errorf("%+v", r)
	}
	if r := respond("GET", "/get", nil); r.Status != 200 || len(r.Body) != 0 {
		t.Errorf("%+v", r)
	}
}
