package main

// This file owns requests in 0-RTT packets, which quic-go's client sends with its handshake.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"fairway.dev/conformance/http3/peer"
	"fairway.dev/conformance/http3/relay"
)

// earlyData sends a GET with a resumed handshake, and then another with a copy of the same session, which the server must not serve early.
func (lab *laboratory) earlyData() error {
	plan := lab.plan
	plan.EarlyData = true
	directory, err := os.MkdirTemp(lab.directory, "early-data-")
	if err != nil {
		return err
	}
	plan.Directory = directory
	server, err := lab.startServer(plan)
	if err != nil {
		return err
	}
	defer server.Kill()
	// Without a delay, the handshake may be complete before the server reads the request.
	between, err := relay.Start(server.Address, relay.Network{Delay: 20 * time.Millisecond}, 0)
	if err != nil {
		return err
	}
	defer between.Close()

	sessions := &savedSessions{saved: make(chan *tls.ClientSessionState, 16)}
	secured := lab.tlsFor(peer.PlainHost)
	secured.ClientSessionCache = sessions
	if err := exchangeEarly(between.Address(), secured, false); err != nil {
		return fmt.Errorf("first connection: %w", err)
	}
	select {
	case sessions.offered = <-sessions.saved:
	case <-time.After(deadline):
		return errors.New("the server sent no session ticket")
	}
	if err := exchangeEarly(between.Address(), secured, true); err != nil {
		return fmt.Errorf("resumed connection: %w", err)
	}
	if err := exchangeEarly(between.Address(), secured, false); err != nil {
		return fmt.Errorf("replayed session: %w", err)
	}
	return nil
}

// exchangeEarly sends a request as early as the session allows; wantEarly is whether the server should serve it before the handshake is complete.
func exchangeEarly(address net.Addr, secured *tls.Config, wantEarly bool) error {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	transport := &quic.Transport{Conn: socket}
	connection, err := transport.DialEarly(ctx, address, secured, &quic.Config{MaxIdleTimeout: time.Minute})
	if err != nil {
		return errors.Join(err, transport.Close(), socket.Close())
	}
	over := &http3.Transport{DisableCompression: true}
	opened := &client{over.NewClientConn(connection), connection, transport, peer.PlainHost}
	defer opened.end()
	response, body, err := opened.exchange(opened.request(ctx, http3.MethodGet0RTT, "/early-data", nil))
	if errors.Is(err, quic.Err0RTTRejected) && !wantEarly {
		// quic-go resets the id of the rejected stream, so that a repetition on this connection would be reset too. That such requests
		// are served after the handshake is tested with aioquic.
		return nil
	}
	if err != nil {
		return err
	}
	isEarly := connection.ConnectionState().Used0RTT && string(body) == "1"
	if response.StatusCode != http.StatusOK || isEarly != wantEarly {
		return fmt.Errorf("status %d, Early-Data %q; accepted early: %t, expected %t", response.StatusCode, body, isEarly, wantEarly)
	}
	return nil
}

// savedSessions offers one session to every connection, as an attacker or a careless client would.
type savedSessions struct {
	offered *tls.ClientSessionState
	saved   chan *tls.ClientSessionState
}

func (sessions *savedSessions) Get(string) (*tls.ClientSessionState, bool) {
	return sessions.offered, sessions.offered != nil
}

func (sessions *savedSessions) Put(_ string, session *tls.ClientSessionState) {
	if session == nil {
		return
	}
	select {
	case sessions.saved <- session:
	default:
	}
}
