package backend

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Recorded is a request as received.
type Recorded struct {
	Method, Target, Authority string
	// Lines are its headers, "name: value", with names as received.
	Lines []string
	Body  []byte
	// IsWhole is set if the request was received completely.
	IsWhole bool
	// Problems are breaches of the rules of the protocol: a proxy that sends them lets clients write its requests.
	Problems []string
}

// Has says whether a field with the name is there.
func (recorded *Recorded) Has(name string) bool { return len(recorded.Values(name)) > 0 }

// Values are those of a field.
func (recorded *Recorded) Values(name string) []string {
	var found []string
	for _, line := range recorded.Lines {
		if other, value, _ := strings.Cut(line, ":"); strings.EqualFold(other, name) {
			found = append(found, strings.TrimSpace(value))
		}
	}
	return found
}

// Recorder records requests. It responds to every request with 200.
type Recorder struct {
	Port     int
	listener net.Listener
	mutex    sync.Mutex
	all      []*Recorded
}

// Record starts a recorder of HTTP/1.1, or of HTTP/2 with prior knowledge.
func Record(isHTTP2 bool) (*Recorder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	recorder := &Recorder{Port: listener.Addr().(*net.TCPAddr).Port, listener: listener}
	serve := recorder.serveHTTP1
	if isHTTP2 {
		serve = recorder.serveHTTP2
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				serve(connection)
			}()
		}
	}()
	return recorder, nil
}

// Close ends it.
func (recorder *Recorder) Close() { _ = recorder.listener.Close() }

// Take returns the requests since the last call.
func (recorder *Recorder) Take() []Recorded {
	recorder.mutex.Lock()
	defer recorder.mutex.Unlock()
	var taken []Recorded
	for _, one := range recorder.all {
		taken = append(taken, *one)
	}
	recorder.all = nil
	return taken
}

// note changes a recorded request.
func (recorder *Recorder) note(change func()) {
	recorder.mutex.Lock()
	defer recorder.mutex.Unlock()
	change()
}

func (recorder *Recorder) keep(one *Recorded) {
	recorder.note(func() { recorder.all = append(recorder.all, one) })
}

// maxLine bounds a line of HTTP/1.
const maxLine = 1 << 20

func (recorder *Recorder) serveHTTP1(connection net.Conn) {
	reader := bufio.NewReaderSize(connection, maxLine)
	for {
		one, size, err := readHead(reader)
		if one == nil {
			return
		}
		recorder.keep(one)
		var body []byte
		if err == nil {
			body, err = readBody(reader, size)
		}
		recorder.note(func() {
			one.Body = body
			if err == nil {
				one.IsWhole = true
			} else if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, new(*net.OpError)) {
				one.Problems = append(one.Problems, err.Error())
			}
		})
		if err != nil {
			return
		}
		text := "here"
		if one.Method == http.MethodHead {
			text = ""
		}
		if _, err := fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%s", text); err != nil {
			return
		}
	}
}

// chunked is the size of a body with Transfer-Encoding: chunked.
const chunked = -1

// readHead reads a head strictly. A request that is nil means that the connection has ended.
func readHead(reader *bufio.Reader) (*Recorded, int, error) {
	start, err := readLine(reader)
	if start == "" && err != nil {
		return nil, 0, err
	}
	one := &Recorded{}
	if err != nil {
		return one, 0, err
	}
	parts := strings.Split(start, " ")
	if len(parts) != 3 || parts[2] != "HTTP/1.1" || !isToken(parts[0]) || parts[1] == "" {
		return one, 0, fmt.Errorf("request line %q", start)
	}
	one.Method, one.Target = parts[0], parts[1]
	for {
		line, err := readLine(reader)
		if err != nil {
			return one, 0, err
		}
		if line == "" {
			break
		}
		if name, _, hasColon := strings.Cut(line, ":"); !hasColon || !isToken(name) {
			return one, 0, fmt.Errorf("header line %q", line)
		}
		one.Lines = append(one.Lines, line)
	}
	if hosts := one.Values("host"); len(hosts) == 1 {
		one.Authority = hosts[0]
	} else {
		one.Problems = append(one.Problems, fmt.Sprintf("%d Host headers", len(hosts)))
	}
	lengths, codings := one.Values("content-length"), one.Values("transfer-encoding")
	switch {
	case len(codings) == 1 && strings.EqualFold(codings[0], "chunked") && len(lengths) == 0:
		return one, chunked, nil
	case len(codings) == 0 && len(lengths) == 1:
		size, err := strconv.ParseUint(lengths[0], 10, 31)
		return one, int(size), err
	case len(codings) == 0 && len(lengths) == 0:
		return one, 0, nil
	}
	return one, 0, fmt.Errorf("content-length %q beside transfer-encoding %q", lengths, codings)
}

// readLine reads a line that ends with CR LF and has no other control characters.
func readLine(reader *bufio.Reader) (string, error) {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return string(line), err
	}
	text, isWhole := strings.CutSuffix(string(line), "\r\n")
	if !isWhole || strings.ContainsFunc(text, func(char rune) bool { return char < ' ' && char != '\t' || char == 0x7f }) {
		return text, fmt.Errorf("line %q", line)
	}
	return text, nil
}

func isToken(text string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	return text != "" && !strings.ContainsFunc(text, func(char rune) bool {
		isLetter := 'a' <= char|0x20 && char|0x20 <= 'z' && char < 0x80
		return !isLetter && (char < '0' || char > '9') && !strings.ContainsRune(marks, char)
	})
}

func readBody(reader *bufio.Reader, size int) ([]byte, error) {
	if size != chunked {
		body := make([]byte, size)
		count, err := io.ReadFull(reader, body)
		return body[:count], err
	}
	var body []byte
	for {
		line, err := readLine(reader)
		if err != nil {
			return body, err
		}
		length, err := strconv.ParseUint(line, 16, 31)
		if err != nil {
			return body, fmt.Errorf("chunk line %q", line)
		}
		if length == 0 {
			for line != "" && err == nil {
				line, err = readLine(reader)
			}
			return body, err
		}
		chunk := make([]byte, length+2)
		if _, err := io.ReadFull(reader, chunk); err != nil {
			return body, err
		}
		if !bytes.HasSuffix(chunk, []byte("\r\n")) {
			return body, fmt.Errorf("chunk ends with %q", chunk[length:])
		}
		body = append(body, chunk[:length]...)
	}
}

func (recorder *Recorder) serveHTTP2(connection net.Conn) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(connection, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	framer := http2.NewFramer(connection, connection)
	_ = framer.WriteSettings()
	open, decoder := map[uint32]*Recorded{}, hpack.NewDecoder(4096, nil)
	var block []byte
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		id, hasEnded, hasBlock := frame.Header().StreamID, false, false
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = framer.WritePing(true, frame.Data)
			}
		case *http2.HeadersFrame:
			block = slices.Clone(frame.HeaderBlockFragment())
			hasBlock, hasEnded = frame.HeadersEnded(), frame.StreamEnded()
		case *http2.ContinuationFrame:
			block = append(block, frame.HeaderBlockFragment()...)
			hasBlock = frame.HeadersEnded()
		case *http2.DataFrame:
			if one := open[id]; one != nil {
				recorder.note(func() { one.Body = append(one.Body, frame.Data()...) })
			}
			if size := uint32(len(frame.Data())); size > 0 {
				_ = framer.WriteWindowUpdate(0, size)
				_ = framer.WriteWindowUpdate(id, size)
			}
			hasEnded = frame.StreamEnded()
		case *http2.RSTStreamFrame:
			delete(open, id)
		}
		if hasBlock && open[id] == nil {
			one := &Recorded{}
			one.read(decoder, block)
			open[id] = one
			recorder.keep(one)
		}
		if one := open[id]; one != nil && hasEnded {
			recorder.note(func() { one.finish() })
			delete(open, id)
			var head bytes.Buffer
			_ = hpack.NewEncoder(&head).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true})
		}
	}
}

// read takes the fields of a request over HTTP/2, and notes what RFC 9113 §8.2 and §8.3 forbid.
func (recorded *Recorded) read(decoder *hpack.Decoder, block []byte) {
	fields, err := decoder.DecodeFull(block)
	if err != nil {
		recorded.Problems = append(recorded.Problems, err.Error())
	}
	seen := map[string]bool{}
	for _, field := range fields {
		if strings.HasPrefix(field.Name, ":") {
			if seen[field.Name] || len(recorded.Lines) > 0 {
				recorded.Problems = append(recorded.Problems, fmt.Sprintf("%s twice or late", field.Name))
			}
			seen[field.Name] = true
			switch field.Name {
			case ":method":
				recorded.Method = field.Value
			case ":path":
				recorded.Target = field.Value
			case ":authority":
				recorded.Authority = field.Value
			}
			continue
		}
		recorded.Lines = append(recorded.Lines, field.Name+": "+field.Value)
		isForbidden := slices.Contains([]string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}, field.Name)
		if isForbidden || !isToken(field.Name) || strings.ToLower(field.Name) != field.Name || strings.ContainsAny(field.Value, "\r\n\x00") {
			recorded.Problems = append(recorded.Problems, fmt.Sprintf("field %q: %q", field.Name, field.Value))
		}
	}
	if hosts := recorded.Values("host"); recorded.Authority == "" && len(hosts) == 1 {
		recorded.Authority = hosts[0]
	}
}

// finish compares the body of a request over HTTP/2 with its length.
func (recorded *Recorded) finish() {
	recorded.IsWhole = true
	lengths := recorded.Values("content-length")
	isRight := func(length string) bool {
		number, err := strconv.ParseUint(length, 10, 63) // Zeros before it mean nothing (RFC 9110 §8.6).
		return err == nil && number == uint64(len(recorded.Body))
	}
	if len(lengths) > 1 || len(lengths) == 1 && !isRight(lengths[0]) {
		recorded.Problems = append(recorded.Problems, fmt.Sprintf("content-length %q of a body of %d bytes", lengths, len(recorded.Body)))
	}
}
