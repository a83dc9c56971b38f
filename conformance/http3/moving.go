package main

// This file owns the cases of `interop` in which connections move or end.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"fairway.dev/conformance/http3/backend"
	"fairway.dev/conformance/http3/initial"
	"fairway.dev/conformance/http3/peer"
	"fairway.dev/conformance/http3/relay"
)

// inFlight is the number of requests in flight when the server is asked to end, and draining that of their connections.
const inFlight, draining = 20, 4

// unknownVersion sends a long header of another version, and reads which versions there are.
func (lab *laboratory) unknownVersion() error {
	socket, err := net.DialUDP("udp", nil, lab.process.Address)
	if err != nil {
		return err
	}
	defer socket.Close()
	packet, err := initial.Packet([]byte("destination"), []byte("source"), 0, nil, initial.MinSize)
	if err != nil {
		return err
	}
	copy(packet[1:5], []byte{0x1a, 0x2a, 0x3a, 0x4a})
	if _, err := socket.Write(packet); err != nil {
		return err
	}
	_ = socket.SetReadDeadline(time.Now().Add(silence))
	buffer := make([]byte, 1500)
	count, err := socket.Read(buffer)
	if err != nil {
		return err
	}
	// RFC 9000 §17.2.1: version 0, the connection IDs in the other order, and the versions.
	prefix := "\x00\x00\x00\x00\x06source\x0bdestination"
	if count < 1+len(prefix) || buffer[0]&0x80 == 0 || string(buffer[1:1+len(prefix)]) != prefix {
		return fmt.Errorf("%x", buffer[:count])
	}
	for versions := buffer[1+len(prefix) : count]; len(versions) >= 4; versions = versions[4:] {
		if string(versions[:4]) == "\x00\x00\x00\x01" {
			return nil
		}
	}
	return fmt.Errorf("no version 1: %x", buffer[:count])
}

// whileSending sends a body of 4 MiB, and does something in the middle of it.
func whileSending(client *client, do func() error) error {
	const size = 4 << 20
	ctx, cancel := context.WithTimeout(context.Background(), 2*deadline)
	defer cancel()
	reader, writer := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		source := backend.Pattern(size)
		_, err := io.CopyN(writer, source, size/2)
		if err == nil {
			err = do()
		}
		if err == nil {
			_, err = io.Copy(writer, source)
		}
		writer.CloseWithError(err)
		failed <- err
	}()
	request := client.request(ctx, http.MethodPost, "/body", reader)
	request.Header.Set(backend.SizeHeader, "1000000")
	response, body, err := client.exchange(request)
	if err != nil {
		return errors.Join(err, <-failed)
	}
	want, _, err := backend.Hash(backend.Pattern(size))
	if err == nil && (response.Header.Get(backend.HashHeader) != want || len(body) != 1_000_000) {
		err = fmt.Errorf("status %d, the endpoint got %s bytes, %d came back", response.StatusCode, response.Header.Get(backend.LengthHeader), len(body))
	}
	return err
}

// migrates moves a connection to another socket of the client in the middle of a request.
func (lab *laboratory) migrates() error {
	return lab.withClient(peer.PlainHost, func(client *client) error {
		if err := getsText(client); err != nil {
			return err
		}
		socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return err
		}
		transport := &quic.Transport{Conn: socket}
		defer socket.Close()
		defer transport.Close()
		defer client.CloseWithError(noError, "")
		err = whileSending(client, func() error {
			path, err := client.quic.AddPath(transport)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), silence)
			defer cancel()
			if err := path.Probe(ctx); err != nil {
				return fmt.Errorf("the new path is not validated: %w", err)
			}
			return path.Switch()
		})
		if err != nil {
			return err
		}
		if client.quic.LocalAddr().String() != socket.LocalAddr().String() {
			return errors.New("the connection has not moved")
		}
		return getsText(client)
	})
}

// rebinds changes the port from which the server sees the client, without the client's knowledge.
func (lab *laboratory) rebinds() error {
	between, err := relay.Start(lab.process.Address, relay.Network{}, 0)
	if err != nil {
		return err
	}
	defer between.Close()
	client, err := lab.connectTo(between.Address(), peer.PlainHost, lab.tlsFor(peer.PlainHost))
	if err != nil {
		return err
	}
	defer client.end()
	if err := getsText(client); err != nil {
		return err
	}
	if err := whileSending(client, between.Rebind); err != nil {
		return err
	}
	if err := between.Rebind(); err != nil {
		return err
	}
	return getsText(client)
}

// drains asks the server to end while it has requests, and starts it again.
func (lab *laboratory) drains() error {
	const gate = "drain"
	var links []*link
	for range draining {
		opened, err := lab.open()
		if err != nil {
			return err
		}
		defer opened.end()
		links = append(links, opened)
	}
	answers := make(chan error, inFlight)
	var group sync.WaitGroup
	for number := range inFlight {
		group.Go(func() {
			read, err := links[number%draining].exchange(peer.PlainHost, "/held?gate="+gate)
			if err == nil && (read.Status != "200" || string(read.Body) != "released") {
				err = fmt.Errorf("status %s, %q", read.Status, read.Body)
			}
			answers <- err
		})
	}
	if !until(deadline, func() bool { return lab.backend.Held() == inFlight }) {
		return fmt.Errorf("only %d requests reached the endpoint", lab.backend.Held())
	}
	lab.process.Terminate()
	hasGone := func() bool {
		for _, one := range links {
			if one.seen(func() bool { return len(one.goAways) == 0 }) {
				return false
			}
		}
		return true
	}
	var problems []error
	if !until(deadline/2, hasGone) {
		problems = append(problems, errors.New("not all connections got GOAWAY"))
	}
	lab.backend.Release(gate)
	group.Wait()
	close(answers)
	failed := 0
	for err := range answers {
		if err != nil {
			failed++
			problems = append(problems, err)
		}
	}
	if failed > 0 {
		problems = append(problems, fmt.Errorf("%d of %d requests failed", failed, inFlight))
	}
	problems = append(problems, lab.process.Wait(), lab.endedWell(links), lab.start())
	lab.witness = nil
	return errors.Join(problems...)
}

// endedWell says whether connections were closed without an error, and with GOAWAY frames that do not grow.
func (lab *laboratory) endedWell(links []*link) error {
	for _, one := range links {
		until(silence, func() bool { return one.Context().Err() != nil })
		var closed *quic.ApplicationError
		if cause := context.Cause(one.Context()); !errors.As(cause, &closed) || closed.ErrorCode != noError {
			return fmt.Errorf("a connection ended with %w and not H3_NO_ERROR", cause)
		}
		one.mutex.Lock()
		for index := 1; index < len(one.goAways); index++ {
			if one.goAways[index] > one.goAways[index-1] {
				one.fault = fmt.Errorf("GOAWAY grew: %d", one.goAways)
			}
		}
		fault := one.fault
		one.mutex.Unlock()
		if fault != nil {
			return fault
		}
	}
	return nil
}
