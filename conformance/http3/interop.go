package main

// This file owns the group `interop`: what quic-go's client gets from the server.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"fairway.dev/conformance/http3/backend"
	"fairway.dev/conformance/http3/peer"
	"fairway.dev/conformance/http3/wire"
)

// streamsAtOnce are the requests that one connection has at a time.
const streamsAtOnce = 100

// interopCase is a row of the group; its function returns what is wrong.
type interopCase struct {
	area, name, rule string
	check            func(*laboratory) error
}

func interop(lab *laboratory) error {
	for _, one := range interopCases() {
		if lab.skips(one.name) {
			continue
		}
		began := time.Now()
		err := one.check(lab)
		found := result{Group: "interop", Area: one.area, Name: one.name, Rule: one.rule, Got: "right"}
		if err != nil {
			found.Got, found.Problems = "wrong", []string{err.Error()}
		}
		found.Seconds = time.Since(began).Seconds()
		if err := lab.add(found, err != nil); err != nil {
			return err
		}
	}
	return nil
}

func interopCases() []interopCase {
	var all []interopCase
	on := func(name, rule string, check func(*client) error) {
		for _, host := range []struct{ name, area string }{{peer.PlainHost, "endpoint over HTTP/1.1"}, {peer.H2CHost, "endpoint over HTTP/2"}} {
			all = append(all, interopCase{host.area, name, rule, func(lab *laboratory) error { return lab.withClient(host.name, check) }})
		}
	}
	on("GET", "RFC 9114 §4", getsText)
	on("HEAD", "RFC 9110 §9.3.2", headHasNoBody)
	for _, size := range []struct {
		name  string
		bytes int64
	}{{"0 bytes", 0}, {"1 byte", 1}, {"1 KiB", 1 << 10}, {"1 MiB", 1 << 20}, {"64 MiB", 64 << 20}} {
		on("POST of "+size.name+", and as much back", "RFC 9114 §4.1", func(client *client) error { return client.transfer(size.bytes, true) })
		on("POST of "+size.name+" of unknown length", "RFC 9114 §4.1", func(client *client) error { return client.transfer(size.bytes, false) })
	}
	on(fmt.Sprint(streamsAtOnce, " requests at once"), "RFC 9114 §4.1", manyStreams)
	on("trailers both ways", "RFC 9114 §4.1", trailersBothWays)
	on("103 before the response", "RFC 8297", earlyHints)
	on("header of 40 KiB", "RFC 6585 §5", largeHeader)
	on("streaming both ways with trailers, as gRPC does", "RFC 9114 §4.1", pingPong)
	on("no Alt-Svc over HTTP/3", "RFC 7838 §3", noAltSvc)
	for _, host := range []struct{ name, area string }{{peer.PlainHost, "endpoint over HTTP/1.1"}, {peer.H2CHost, "endpoint over HTTP/2"}} {
		all = append(all,
			interopCase{host.area, "client leaves a response", "RFC 9114 §4.1.1", func(lab *laboratory) error { return lab.leavesResponse(host.name) }},
			interopCase{host.area, "client leaves its request", "RFC 9114 §4.1.1", func(lab *laboratory) error { return lab.leavesRequest(host.name) }},
			interopCase{host.area, "100 before the body", "RFC 9110 §10.1.1", func(lab *laboratory) error { return lab.continues(host.name) }})
	}
	return append(all,
		interopCase{"connections", "WebSocket", "RFC 9220", func(lab *laboratory) error { return lab.withClient(peer.PlainHost, webSocket) }},
		interopCase{"connections", "SETTINGS", "RFC 9114 §7.2.4", (*laboratory).checkSettings},
		interopCase{"connections", "Alt-Svc over HTTP/2", "RFC 7838 §3", (*laboratory).altSvc},
		interopCase{"connections", "name of another certificate", "RFC 6066 §3", (*laboratory).otherName},
		interopCase{"connections", "unknown name", "RFC 6066 §3", (*laboratory).unknownName},
		interopCase{"connections", "no common protocol", "RFC 9001 §8.1", (*laboratory).unknownProtocol},
		interopCase{"connections", "certificate of the client", "RFC 8446 §4.3.2", (*laboratory).clientCertificate},
		interopCase{"connections", "GET with the handshake (0-RTT), and its session replayed", "RFC 8470 §5", (*laboratory).earlyData},
		interopCase{"connections", "unknown version of QUIC", "RFC 9000 §6", (*laboratory).unknownVersion},
		interopCase{"connections", "client moves to another socket, 16 times", "RFC 9000 §9", func(lab *laboratory) error { return lab.repeat(16, lab.migrates) }},
		interopCase{"connections", "NAT takes another port, 16 times", "RFC 9000 §9.3", func(lab *laboratory) error { return lab.repeat(16, lab.rebinds) }},
		interopCase{"connections", "SIGTERM with requests in flight", "RFC 9114 §5.2", (*laboratory).drains},
	)
}

func (lab *laboratory) withClient(host string, check func(*client) error) error {
	opened, err := lab.connect(host)
	if err != nil {
		return err
	}
	defer opened.end()
	return check(opened)
}

func (lab *laboratory) repeat(times int, check func() error) error {
	for number := range times {
		if err := check(); err != nil {
			return fmt.Errorf("time %d: %w", number+1, err)
		}
	}
	return nil
}

func getsText(client *client) error {
	response, body, err := client.get("/")
	if err == nil && (body != "here" || response.ProtoMajor != 3 || response.Header.Get("Content-Length") != "4") {
		err = fmt.Errorf("%s %q %v", response.Proto, body, response.Header)
	}
	return err
}

func headHasNoBody(client *client) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	response, body, err := client.exchange(client.request(ctx, http.MethodHead, "/", nil))
	if err == nil && (response.StatusCode != http.StatusOK || len(body) > 0) {
		err = fmt.Errorf("status %d, %q", response.StatusCode, body)
	}
	return err
}

func manyStreams(client *client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*deadline)
	defer cancel()
	failures := make(chan error, streamsAtOnce)
	var group sync.WaitGroup
	for range streamsAtOnce {
		group.Go(func() { failures <- client.transfer(10_000, true) })
	}
	group.Wait()
	close(failures)
	var all []error
	for err := range failures {
		all = append(all, err)
	}
	return errors.Join(append(all, ctx.Err())...)
}

func trailersBothWays(client *client) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	request := client.request(ctx, http.MethodPost, "/body", io.NopCloser(strings.NewReader("body")))
	request.ContentLength = -1
	request.Header.Set(backend.WantsTrailer, "yes")
	request.Trailer = http.Header{backend.TrailerHeader: {"from the client"}}
	response, _, err := client.exchange(request)
	if err != nil {
		return err
	}
	hash, _, err := backend.Hash(strings.NewReader("body"))
	var problems []error
	// Go's HTTP/2 server shows only trailers that a Trailer header has announced, which a proxy may drop (RFC 9110 §6.6.2).
	shows := response.Header.Get(backend.ProtoHeader) == "HTTP/1.1"
	if got := response.Header.Get(backend.TrailerHeader); got != "from the client" && (shows || got != "") {
		problems = append(problems, fmt.Errorf("the endpoint got the trailer %q", got))
	}
	if got := response.Trailer.Get(backend.ReplyTrailer); got != hash {
		problems = append(problems, fmt.Errorf("the client got the trailer %q", got))
	}
	return errors.Join(append(problems, err)...)
}

func earlyHints(client *client) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var link string
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		if code == http.StatusEarlyHints {
			link = header.Get("Link")
		}
		return nil
	}})
	response, body, err := client.exchange(client.request(ctx, http.MethodGet, "/early", nil))
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != "late" || link == "") {
		err = fmt.Errorf("status %d, %q, 103 with %q", response.StatusCode, body, link)
	}
	return err
}

func largeHeader(client *client) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	request := client.request(ctx, http.MethodGet, "/", nil)
	request.Header.Set("X-Large", strings.Repeat("x", 40<<10))
	response, _, err := client.exchange(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		return fmt.Errorf("status %d and not 431", response.StatusCode)
	}
	return getsText(client)
}

// pingPong sends a piece only after the previous one was returned.
func pingPong(client *client) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	reader, writer := io.Pipe()
	request := client.request(ctx, http.MethodPost, "/echo", reader)
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	request.Trailer = http.Header{}
	response, err := client.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for number := range 10 {
		message := fmt.Sprintf("\x00\x00\x00\x00\x0amessage %2d", number)
		if _, err := io.WriteString(writer, message); err != nil {
			return err
		}
		back := make([]byte, len(message))
		if _, err := io.ReadFull(response.Body, back); err != nil || string(back) != message {
			return fmt.Errorf("%q came back: %w", back, err)
		}
	}
	writer.Close()
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		return fmt.Errorf("%d bytes more: %w", len(rest), err)
	}
	if response.Trailer.Get("Grpc-Status") != "0" || response.Trailer.Get("Grpc-Message") != "done" {
		return fmt.Errorf("trailers %v", response.Trailer)
	}
	return nil
}

func noAltSvc(client *client) error {
	response, _, err := client.get("/")
	if err == nil && response.Header.Get("Alt-Svc") != "" {
		err = fmt.Errorf("Alt-Svc: %s", response.Header.Get("Alt-Svc"))
	}
	return err
}

// webSocket opens a tunnel through HTTP/1.1 and sends bytes both ways.
func webSocket(client *client) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	select {
	case <-client.ReceivedSettings():
	case <-ctx.Done():
		return errors.New("no SETTINGS")
	}
	if !client.Settings().EnableExtendedConnect {
		return errors.New("SETTINGS do not offer extended CONNECT")
	}
	stream, err := client.OpenRequestStream(ctx)
	if err != nil {
		return err
	}
	_ = stream.SetDeadline(time.Now().Add(deadline))
	request := client.request(ctx, http.MethodConnect, "/websocket", nil)
	request.Proto = "websocket"
	request.Header.Set("Sec-Websocket-Version", "13")
	if err := stream.SendRequestHeader(request); err != nil {
		return err
	}
	response, err := stream.ReadResponse()
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	for number := range 10 {
		// A text of five bytes, masked with zeros (RFC 6455 §5.2).
		message := fmt.Sprintf("\x81\x85\x00\x00\x00\x00text%d", number)
		if _, err := io.WriteString(stream, message); err != nil {
			return err
		}
		back := make([]byte, len(message))
		if _, err := io.ReadFull(stream, back); err != nil || string(back) != message {
			return fmt.Errorf("%q came back: %w", back, err)
		}
	}
	if err := stream.Close(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return fmt.Errorf("after the end: %w", err)
	}
	return getsText(client)
}

func (lab *laboratory) leavesResponse(host string) error {
	return lab.withClient(host, func(client *client) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		response, err := client.RoundTrip(client.request(ctx, http.MethodGet, "/endless?id=response-"+host, nil))
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, response.Body, 1<<20); err != nil {
			return err
		}
		cancel()
		response.Body.Close()
		if !until(deadline, func() bool { return lab.backend.HasLeft("response-" + host) }) {
			return errors.New("the endpoint still sends")
		}
		return getsText(client)
	})
}

func (lab *laboratory) leavesRequest(host string) error {
	return lab.withClient(host, func(client *client) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		reader, writer := io.Pipe()
		failed := make(chan error, 1)
		go func() {
			_, err := client.RoundTrip(client.request(ctx, http.MethodPost, "/swallow?id=request-"+host, reader))
			failed <- err
		}()
		if _, err := io.CopyN(writer, backend.Pattern(1<<20), 1<<20); err != nil {
			return err
		}
		cancel()
		writer.CloseWithError(context.Canceled)
		if err := <-failed; err == nil {
			return errors.New("it was answered")
		}
		if !until(deadline, func() bool { return lab.backend.HasLeft("request-" + host) }) {
			return errors.New("the endpoint takes it for whole, or still waits")
		}
		return getsText(client)
	})
}

// continues waits for 100 before it sends the body.
func (lab *laboratory) continues(host string) error {
	opened, err := lab.open()
	if err != nil {
		return err
	}
	defer opened.end()
	stream, err := opened.OpenStream()
	if err != nil {
		return err
	}
	_ = stream.SetDeadline(time.Now().Add(deadline))
	fields := append(head("POST", host, "/body"), wire.Field{Name: "expect", Value: "100-continue"}, wire.Field{Name: "content-length", Value: "4"})
	if _, err := stream.Write(wire.Frame(wire.Headers, wire.Fields(fields...))); err != nil {
		return err
	}
	kind, payload, err := wire.ReadFrame(stream)
	if err != nil {
		return err
	}
	interim, err := wire.Decode(payload)
	if err != nil || kind != wire.Headers || len(interim) == 0 || interim[0].Value != "100" {
		return fmt.Errorf("frame %#x, %v, %w", kind, interim, err)
	}
	if _, err := stream.Write(data); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	read, err := wire.ReadResponse(stream)
	if err == nil && read.Status != "200" {
		err = fmt.Errorf("status %s", read.Status)
	}
	return err
}

// checkSettings looks at the streams that a server opens.
func (lab *laboratory) checkSettings() error {
	opened, err := lab.open()
	if err != nil {
		return err
	}
	defer opened.end()
	if !opened.isServed() {
		return errors.New("a request is not served")
	}
	if !until(deadline, func() bool { return opened.seen(func() bool { return opened.settings != nil }) }) {
		return errors.New("no SETTINGS")
	}
	opened.mutex.Lock()
	defer opened.mutex.Unlock()
	for _, id := range []uint64{0x02, 0x03, 0x04, 0x05} {
		if _, isThere := opened.settings[id]; isThere {
			return fmt.Errorf("setting %#x of HTTP/2", id)
		}
	}
	return opened.fault
}

func (lab *laboratory) altSvc() error {
	secured := lab.tlsFor(peer.PlainHost)
	secured.NextProtos = []string{"h2"}
	transport := &http.Transport{TLSClientConfig: secured, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodGet, "https://"+lab.process.Address.String()+"/", nil)
	if err != nil {
		return err
	}
	request.Host = peer.PlainHost
	response, err := (&http.Client{Transport: transport, Timeout: deadline}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said := response.Header.Get("Alt-Svc")
	if response.ProtoMajor != 2 || !strings.Contains(said, "h3=\":") {
		return fmt.Errorf("%s, Alt-Svc: %q", response.Proto, said)
	}
	return nil
}

func (lab *laboratory) otherName() error {
	return lab.withClient(peer.OtherHost, func(client *client) error {
		if name := client.quic.ConnectionState().TLS.PeerCertificates[0].Subject.CommonName; name != peer.OtherHost {
			return fmt.Errorf("certificate of %s", name)
		}
		return getsText(client)
	})
}

// alertOf is the TLS alert with which the server ended the handshake (RFC 9001 §4.8).
func alertOf(err error) (uint64, bool) {
	var failed *quic.TransportError
	if !errors.As(err, &failed) || !failed.Remote || failed.ErrorCode < 0x100 || failed.ErrorCode > 0x1ff {
		return 0, false
	}
	return uint64(failed.ErrorCode) - 0x100, true
}

func (lab *laboratory) unknownName() error {
	secured := lab.tlsFor(peer.UnknownHost)
	secured.InsecureSkipVerify = true
	opened, err := lab.connectTo(lab.process.Address, peer.UnknownHost, secured)
	if err == nil {
		opened.end()
		return errors.New("it is served")
	}
	// unrecognized_name.
	if alert, isAlert := alertOf(err); !isAlert || alert != 112 {
		return fmt.Errorf("no alert 112: %w", err)
	}
	return nil
}

func (lab *laboratory) unknownProtocol() error {
	secured := lab.tlsFor(peer.PlainHost)
	secured.NextProtos = []string{"h3-29"}
	opened, err := lab.connectTo(lab.process.Address, peer.PlainHost, secured)
	if err == nil {
		opened.end()
		return errors.New("the connection is taken")
	}
	// no_application_protocol.
	if alert, isAlert := alertOf(err); !isAlert || alert != 120 {
		return fmt.Errorf("no alert 120: %w", err)
	}
	return nil
}

func (lab *laboratory) clientCertificate() error {
	secured := lab.tlsFor(peer.TrustedHost)
	pair, err := lab.plan.Certificates.Client.TLS()
	if err != nil {
		return err
	}
	secured.Certificates = []tls.Certificate{pair}
	with, err := lab.connectTo(lab.process.Address, peer.TrustedHost, secured)
	if err != nil {
		return err
	}
	defer with.end()
	if err := getsText(with); err != nil {
		return fmt.Errorf("with a certificate: %w", err)
	}
	// Without one, the handshake or the request must fail.
	without, err := lab.connect(peer.TrustedHost)
	if err != nil {
		return nil
	}
	defer without.end()
	if _, _, err := without.get("/"); err == nil {
		return errors.New("it is served without a certificate")
	}
	return nil
}
