package backend

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestRecorderNotesBreachesOfFraming(t *testing.T) {
	for name, one := range map[string]struct {
		text                string
		isWhole, hasProblem bool
	}{
		"plain":         {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, false},
		"length":        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok", true, false},
		"chunks":        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx: y\r\n\r\n", true, false},
		"cut":           {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nok", false, false},
		"cut head":      {"POST / HTTP/1.1\r\nHost: a\r\nConte", false, false},
		"both":          {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok", false, true},
		"bare LF":       {"GET / HTTP/1.1\nHost: a\r\n\r\n", false, true},
		"NUL":           {"GET / HTTP/1.1\r\nHost: a\r\nx: \x00\r\n\r\n", false, true},
		"two hosts":     {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", true, true},
		"two lengths":   {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", false, true},
		"space in path": {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", false, true},
	} {
		client, server := net.Pipe()
		recorder := &Recorder{}
		go func() {
			_, _ = io.WriteString(client, one.text)
			if one.isWhole {
				_, _ = http.ReadResponse(bufio.NewReader(client), nil)
			}
			client.Close()
		}()
		recorder.serveHTTP1(server)
		server.Close()
		taken := recorder.Take()
		if len(taken) != 1 || taken[0].IsWhole != one.isWhole || len(taken[0].Problems) > 0 != one.hasProblem {
			t.Errorf("%s: %+v", name, taken)
		}
	}
}

func TestPatternDependsOnThePlace(t *testing.T) {
	first, _ := io.ReadAll(Pattern(1 << 17))
	if bytes.Equal(first[:1<<16], first[1<<16:]) || bytes.Equal(first[:256], first[256:512]) {
		t.Error("the pattern repeats")
	}
	one, length, err := Hash(Pattern(1 << 17))
	other, _, _ := Hash(bytes.NewReader(first))
	if one != other || length != 1<<17 || err != nil {
		t.Error(one, other, length, err)
	}
}

func TestServerReportsTheRequest(t *testing.T) {
	server, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	request, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+strconv.Itoa(server.Port)+"/body", io.NopCloser(strings.NewReader("abc")))
	if err != nil {
		t.Fatal(err)
	}
	request.Trailer = http.Header{TrailerHeader: {"trailer"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	header := response.Header
	if header.Get(LengthHeader) != "3" || header.Get(ProtoHeader) != "HTTP/1.1" || header.Get(TrailerHeader) != "trailer" {
		t.Error(header)
	}
}
