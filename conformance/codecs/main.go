// Says what Go's HTTP/2 makes of bytes, for the differential of crates/fairway-http2/tests/codecs.rs.
//
// Standard input has cases, each behind its length in four bytes. With the argument "server" a case is what a client sends,
// and the answer is what the server wrote until it had answered the PING at the case's end and one more, or until it closed.
// With "hpack" a case is blocks of one connection, each behind its length in two bytes, and the answer has a line per field,
// "name: value", with an empty line behind each block, and "error" for a block that cannot be decoded.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Payload of the last PING of a case, and the data that we send after it.
var mark, last = []byte("the mark"), []byte("the last")

func main() {
	log.SetOutput(io.Discard)
	answer := map[string]func([]byte) []byte{"server": server, "hpack": blocks}[os.Args[1]]
	// Many cases run concurrently, because a peer may respond with silence, which takes time.
	answers := make(chan chan []byte, 64)
	go func() {
		defer close(answers)
		for {
			var length uint32
			if binary.Read(os.Stdin, binary.BigEndian, &length) != nil {
				return
			}
			input := make([]byte, length)
			if _, err := io.ReadFull(os.Stdin, input); err != nil {
				return
			}
			one := make(chan []byte, 1)
			answers <- one
			go func() { one <- answer(input) }()
		}
	}()
	for one := range answers {
		output := <-one
		binary.Write(os.Stdout, binary.BigEndian, uint32(len(output)))
		os.Stdout.Write(output)
	}
}

// Never responds to a request.
func handle(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() }

func server(input []byte) []byte {
	client, end := net.Pipe()
	go func() {
		(&http2.Server{}).ServeConn(end, &http2.ServeConnOpts{Handler: http.HandlerFunc(handle)})
		end.Close()
	}()
	go client.Write(input)
	var output []byte
	piece := make([]byte, 4096)
	asked := false
	// A silent peer will send no more.
	client.SetReadDeadline(time.Now().Add(3 * time.Second))
	for !containsPingResponse(output, last) && !leaves(output) {
		count, err := client.Read(piece)
		output = append(output, piece[:count]...)
		if err != nil {
			break
		}
		if !asked && containsPingResponse(output, mark) {
			asked = true
			go client.Write(append([]byte{0, 0, 8, 6, 0, 0, 0, 0, 0}, last...))
		}
	}
	client.Close()
	return output
}

// Whether the frames contain the response to this PING.
func containsPingResponse(output, opaque []byte) bool {
	return find(output, func(kind, flags byte, payload []byte) bool {
		return kind == 6 && flags&1 == 1 && bytes.Equal(payload, opaque)
	})
}

// Whether the frames end with a GOAWAY that names an error.
func leaves(output []byte) bool {
	return find(output, func(kind, _ byte, payload []byte) bool {
		return kind == 7 && binary.BigEndian.Uint32(payload[4:]) != 0
	})
}

func find(output []byte, is func(kind, flags byte, payload []byte) bool) bool {
	for len(output) >= 9 {
		end := 9 + (int(output[0])<<16 | int(output[1])<<8 | int(output[2]))
		if end > len(output) {
			return false
		}
		if is(output[3], output[4], output[9:end]) {
			return true
		}
		output = output[end:]
	}
	return false
}

func blocks(input []byte) []byte {
	var output bytes.Buffer
	decoder := hpack.NewDecoder(4096, nil)
	for len(input) >= 2 {
		length := min(int(binary.BigEndian.Uint16(input)), len(input)-2)
		fields, err := decoder.DecodeFull(input[2 : 2+length])
		input = input[2+length:]
		if err != nil {
			output.WriteString("error\n")
			break
		}
		for _, field := range fields {
			fmt.Fprintf(&output, "%s: %s%s\n", hexed(field.Name), hexed(field.Value), map[bool]string{true: " never"}[field.Sensitive])
		}
		output.WriteString("\n")
	}
	return output.Bytes()
}

func hexed(text string) string { return fmt.Sprintf("%x", text) }
