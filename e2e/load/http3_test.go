package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// http3Server is a server of HTTP/3 that can forget all its connections.
type http3Server struct {
	*testing.T
	key       quic.StatelessResetKey
	secure    *tls.Config
	handler   http.Handler
	address   *net.UDPAddr
	socket    *net.UDPConn
	transport *quic.Transport
	server    atomic.Pointer[http3.Server]
	accepted  atomic.Int64
}

// echoed responds as backends do.
func echoed(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "pod=pod id=%s method=%s\n", r.URL.Query().Get("id"), r.Method)
}

// http3Served starts a server and gives a plan of its clients.
func http3Served(t *testing.T, handler http.HandlerFunc) (*http3Server, Plan) {
	t.Helper()
	security := selfSigned(t, 7)
	s := &http3Server{T: t, handler: handler, secure: http3.ConfigureTLSConfig(security), address: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	s.start()
	t.Cleanup(s.forget)
	trusted := x509.NewCertPool()
	trusted.AddCert(security.Certificates[0].Leaf)
	return s, Plan{
		Name: "n", Address: s.address.String(), Host: "example.com", Rate: 400, Clients: 6, Sharing: 3, Protocol: HTTP3,
		TLS: &tls.Config{RootCAs: trusted, ServerName: "a.example"},
	}
}

func (s *http3Server) start() {
	s.Helper()
	socket, err := net.ListenUDP("udp4", s.address)
	if err != nil {
		s.Fatal(err)
	}
	s.socket, s.address = socket, socket.LocalAddr().(*net.UDPAddr)
	s.transport = &quic.Transport{Conn: socket, StatelessResetKey: &s.key}
	listener, err := s.transport.ListenEarly(s.secure, &quic.Config{})
	if err != nil {
		s.Fatal(err)
	}
	s.server.Store(&http3.Server{Handler: s.handler})
	go func() {
		for {
			conn, err := listener.Accept(context.Background())
			if err != nil {
				return
			}
			s.accepted.Add(1)
			go func() { _ = s.server.Load().ServeQUICConn(conn) }()
		}
	}()
}

// forget ends without a word to anyone.
func (s *http3Server) forget() {
	_, _ = s.transport.Close(), s.socket.Close()
}

func TestClientsOfHTTP3ShareConnections(t *testing.T) {
	_, plan := http3Served(t, echoed)
	plan.PostEvery = 5
	got := outcome(t, plan, 120).Counts
	if got.OK != got.Requests || got.Posts < 20 || got.Connections != 2 || got.Repeated != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestEachRequestOfHTTP3HasAConnectionWhereThePlanSaysSo(t *testing.T) {
	server, plan := http3Served(t, echoed)
	plan.Reuse = NewConnection
	got := outcome(t, plan, 40).Counts
	if got.OK != got.Requests || got.Connections != got.Requests || server.accepted.Load() != int64(got.Requests) {
		t.Fatalf("%+v, %d accepted", got, server.accepted.Load())
	}
}

func TestRequestsOfHTTP3AreClassedByTheStatusAndTheCode(t *testing.T) {
	_, plan := http3Served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Error(w, "502 Bad Gateway: upstream_closed", http.StatusBadGateway)
			return
		}
		panic(http.ErrAbortHandler)
	})
	plan.PostEvery = 2
	got := outcome(t, plan, 40).Counts
	told, cut := got.Failed["status 502 upstream_closed"], got.Failed["reset H3_INTERNAL_ERROR"]
	if told == 0 || told != got.Posts || told+cut != got.Requests || got.Repeated != 0 {
		t.Fatalf("%+v", got)
	}
}

func TestARequestOfHTTP3ThatTheServerHasNotBegunIsSentAgain(t *testing.T) {
	var asked atomic.Int64
	_, plan := http3Served(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%4 == 0 {
			stream, err := w.(http3.HTTPStreamer).HTTPStream()
			if err != nil {
				t.Error(err)
				return
			}
			stream.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestRejected))
			stream.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestRejected))
			return
		}
		echoed(w, r)
	})
	plan.PostEvery = 2
	got := outcome(t, plan, 80).Counts
	if got.OK != got.Requests || got.Repeated < got.Requests/4 || got.Connections != 2 {
		t.Fatalf("%+v", got)
	}
}

func TestAServerOfHTTP3ThatLeavesLosesNoRequest(t *testing.T) {
	server, plan := http3Served(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
		echoed(w, r)
	})
	plan.PostEvery = 2
	stream := Start(plan)
	defer stream.Stop()
	if err := stream.AwaitRequests(t.Context(), 40); err != nil {
		t.Fatal(err)
	}
	last := server.server.Swap(&http3.Server{Handler: server.handler})
	if err := last.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stream.AwaitRequests(t.Context(), 120); err != nil {
		t.Fatal(err)
	}
	got := stream.Stop().Counts
	if got.OK != got.Requests || got.Connections < 3 || got.Announced+got.ClosedIdle == 0 {
		t.Fatalf("%+v", got)
	}
}

func TestAStatelessResetHasAGETSentAgainAndAPOSTFail(t *testing.T) {
	var holds atomic.Int64
	held, gone := make(chan struct{}, 100), make(chan struct{})
	server, plan := http3Served(t, func(w http.ResponseWriter, r *http.Request) {
		if holds.Add(-1) >= 0 {
			held <- struct{}{}
			<-gone
			return
		}
		echoed(w, r)
	})
	// A client that only waits sends nothing that a reset could answer. Two wait here; of the others, a busy machine may let
	// the server acknowledge a request and forget it, but not one of each.
	plan.Clients, plan.Sharing, plan.PostEvery = 12, 12, 2
	stream := Start(plan)
	defer stream.Stop()
	if err := stream.AwaitRequests(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	holds.Store(2)
	<-held
	<-held
	server.forget()
	server.start()
	close(gone)
	if err := stream.AwaitRequests(t.Context(), 60); err != nil {
		t.Fatal(err)
	}
	got := stream.Stop()
	counts := got.Counts
	if lost := counts.Repeated + counts.Failed[Reset]; lost < 2 || lost > plan.Clients || counts.OK+counts.Failed[Reset] != counts.Requests {
		t.Fatalf("%+v", counts)
	}
	for _, event := range got.Repeats {
		if event.Method != http.MethodGet || event.Class != Reset {
			t.Fatalf("%+v", event)
		}
	}
}

func TestAServerOfHTTP3ThatIsNotThereIsATimeout(t *testing.T) {
	server, plan := http3Served(t, echoed)
	server.forget()
	plan.ConnectTimeout = 100 * time.Millisecond
	only(t, outcome(t, plan, 6), ConnectTimeout)
}

func TestAClientThatMovesGoesOnOrIsResetAtOnce(t *testing.T) {
	server, plan := http3Served(t, echoed)
	moving, err := Move(plan)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { moving.Close() }()
	before := moving.Local().Port
	if err := moving.Rebind(); err != nil {
		t.Fatal(err)
	}
	if moved, err := moving.Get(); err != nil || moved.Reset || moved.Answered <= 0 || moving.Local().Port == before {
		t.Fatalf("%+v, %v", moved, err)
	}
	server.forget()
	server.start()
	moved, err := moving.Get()
	// An acknowledgement of before may have met the reset, so that the request needed no datagram.
	if err != nil || !moved.Reset || moved.Told <= 0 || moved.Answered < moved.Told {
		t.Fatalf("%+v, %v", moved, err)
	}
	server.forget()
	moving.plan.AnswerTimeout = 100 * time.Millisecond
	var failed *failure
	if _, err = moving.Get(); !errors.As(err, &failed) || failed.class != ReadTimeout {
		t.Fatalf("silence is %v", err)
	}
}
