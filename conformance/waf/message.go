package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// marker is the header that says which test a request belongs to; a rule of the tests logs it.
const marker = "X-Waf-Test"

type header struct{ Name, Value string }

// message is a request as a proxy understands it.
type message struct {
	Method, Target, Protocol string
	Headers                  []header
	Body                     []byte
}

func (m *message) first(name string) (string, bool) {
	for _, each := range m.Headers {
		if strings.EqualFold(each.Name, name) {
			return each.Value, true
		}
	}
	return "", false
}

// mark adds the id of a test to a request.
func mark(raw []byte, id string) []byte {
	at := bytes.Index(raw, []byte("\r\n\r\n"))
	if at < 0 {
		return raw
	}
	marked := append([]byte{}, raw[:at+2]...)
	marked = append(marked, marker+": "+id+"\r\n"...)
	return append(marked, raw[at+2:]...)
}

// parse reads a request as leniently as it can be read without a doubt about where its parts end.
func parse(raw []byte) (*message, error) {
	head, rest, found := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !found {
		return nil, errors.New("the head has no end")
	}
	lines := strings.Split(string(head), "\r\n")
	begin, end := strings.IndexByte(lines[0], ' '), strings.LastIndexByte(lines[0], ' ')
	if begin <= 0 || begin == end {
		return nil, fmt.Errorf("the request line %.80q has not three parts", lines[0])
	}
	m := &message{Method: lines[0][:begin], Target: lines[0][begin+1 : end], Protocol: lines[0][end+1:]}
	for _, line := range lines[1:] {
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || line[0] == ' ' || line[0] == '\t' {
			return nil, fmt.Errorf("the line %.80q is no header", line)
		}
		m.Headers = append(m.Headers, header{name, strings.Trim(value, " \t")})
	}
	var err error
	m.Body, err = m.body(rest)
	return m, err
}

func (m *message) body(rest []byte) ([]byte, error) {
	if coding, ok := m.first("transfer-encoding"); ok {
		if !strings.EqualFold(coding, "chunked") {
			return nil, fmt.Errorf("the transfer coding %.80q", coding)
		}
		return dechunk(rest)
	}
	length, ok := m.first("content-length")
	if !ok {
		return nil, nil
	}
	bytes, err := strconv.ParseUint(length, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the length %.80q", length)
	}
	if uint64(len(rest)) < bytes {
		return nil, fmt.Errorf("a body of %d bytes with Content-Length %d", len(rest), bytes)
	}
	return rest[:bytes], nil
}

func dechunk(rest []byte) ([]byte, error) {
	var body []byte
	for {
		line, after, found := bytes.Cut(rest, []byte("\r\n"))
		if !found {
			return nil, errors.New("chunks that never end")
		}
		size, err := strconv.ParseUint(strings.TrimSpace(string(line)), 16, 31)
		if err != nil || uint64(len(after)) < size+2 {
			return nil, errors.New("chunks that cannot be read")
		}
		if size == 0 {
			return body, nil
		}
		body = append(body, after[:size]...)
		rest = after[size+2:]
	}
}

var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// asHTTP2 is the same request in HTTP/2, or why HTTP/2 cannot express it.
func (m *message) asHTTP2() (*message, error) {
	two := &message{Method: m.Method, Target: m.Target, Protocol: "HTTP/2", Body: m.Body}
	switch {
	case !token.MatchString(m.Method):
		return nil, fmt.Errorf("the method %.40q", m.Method)
	case m.Method == "CONNECT":
		return nil, errors.New("CONNECT has no path in HTTP/2")
	case !strings.HasPrefix(m.Target, "/") && !(m.Method == "OPTIONS" && m.Target == "*"):
		return nil, fmt.Errorf("the target %.80q", m.Target)
	case strings.ContainsAny(m.Target, "\x00\r\n \t"):
		return nil, errors.New("a target with spaces")
	}
	hosts := 0
	for _, each := range m.Headers {
		name := strings.ToLower(each.Name)
		switch name {
		case "connection":
			if value := strings.ToLower(each.Value); value != "close" && value != "keep-alive" {
				return nil, fmt.Errorf("Connection: %.80s", each.Value)
			}
			continue
		case "transfer-encoding", "keep-alive", "proxy-connection", "upgrade":
			return nil, fmt.Errorf("the header %s", each.Name)
		case "host":
			hosts++
		}
		if !token.MatchString(name) || strings.ContainsAny(each.Value, "\x00\r\n") {
			return nil, fmt.Errorf("the header %.80q", each.Name)
		}
		two.Headers = append(two.Headers, header{name, each.Value})
	}
	if hosts > 1 {
		return nil, errors.New("two authorities")
	}
	return two, nil
}
