package main

// This file owns quic-go's HTTP/3 client.

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"fairway.dev/conformance/http3/backend"
)

// client is a connection of quic-go's HTTP/3 client.
type client struct {
	*http3.ClientConn
	quic      *quic.Conn
	transport *quic.Transport
	host      string
}

// connect connects to a host from a socket of its own.
func (lab *laboratory) connect(host string) (*client, error) {
	return lab.connectTo(lab.process.Address, host, lab.tlsFor(host))
}

func (lab *laboratory) connectTo(address net.Addr, host string, secured *tls.Config) (*client, error) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	transport := &quic.Transport{Conn: socket}
	connection, err := transport.Dial(ctx, address, secured, &quic.Config{MaxIdleTimeout: time.Minute})
	if err != nil {
		_ = transport.Close()
		_ = socket.Close()
		return nil, err
	}
	over := &http3.Transport{DisableCompression: true}
	return &client{over.NewClientConn(connection), connection, transport, host}, nil
}

func (client *client) end() {
	_ = client.CloseWithError(noError, "")
	_ = client.transport.Close()
	_ = client.transport.Conn.Close()
}

// request is a request to the host of the connection.
func (client *client) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	at, err := url.ParseRequestURI(path)
	if err != nil {
		panic(err) // The paths are written in this program.
	}
	at.Scheme, at.Host = "https", client.host
	made, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		panic(err)
	}
	return made
}

// exchange sends a request and reads the whole response.
func (client *client) exchange(request *http.Request) (*http.Response, []byte, error) {
	response, err := client.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}

// get is a request whose response must be 200.
func (client *client) get(path string) (*http.Response, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	response, body, err := client.exchange(client.request(ctx, http.MethodGet, path, nil))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return response, string(body), err
}

// transfer sends a body and takes one of the same size, and compares both.
func (client *client) transfer(size int64, isKnown bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 6*deadline)
	defer cancel()
	request := client.request(ctx, http.MethodPost, "/body", backend.Pattern(size))
	request.ContentLength = -1
	if isKnown {
		request.ContentLength = size
	}
	if isKnown && size == 0 {
		request.Body = http.NoBody
	}
	request.Header.Set(backend.SizeHeader, strconv.FormatInt(size, 10))
	if isKnown {
		request.Header.Set("X-Known-Length", "1")
	}
	response, err := client.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	want, _, err := backend.Hash(backend.Pattern(size))
	if err != nil {
		return err
	}
	got, length, err := backend.Hash(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", response.StatusCode)
	case response.Header.Get(backend.HashHeader) != want:
		return fmt.Errorf("the endpoint got %s bytes, and they are others", response.Header.Get(backend.LengthHeader))
	case got != want:
		return fmt.Errorf("%d bytes came back, and they are others", length)
	case isKnown && response.ContentLength != size:
		return fmt.Errorf("content-length %d", response.ContentLength)
	}
	return nil
}
