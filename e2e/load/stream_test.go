package load

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// script responds to the nth request of a connection; false closes the connection.
type script func(conn net.Conn, nth int, request *http.Request) bool

// served starts a server on loopback that follows the script.
func served(t *testing.T, security *tls.Config, follow script) string {
	t.Helper()
	return accepting(t, func(conn net.Conn) {
		if security != nil {
			conn = tls.Server(conn, security)
		}
		follow.serve(conn)
	})
}

// accepting listens on loopback until the test ends; each connection is served by a goroutine of its own.
func accepting(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

func (follow script) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for nth := 0; ; nth++ {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		body := make([]byte, request.ContentLength)
		if _, err := request.Body.Read(body); err != nil && request.ContentLength > 0 && err.Error() != "EOF" {
			return
		}
		if !follow(conn, nth, request) {
			return
		}
	}
}

func writeResponse(conn net.Conn, request *http.Request, fields string) {
	body := fmt.Sprintf("pod=one id=%s method=%s\nfiller", request.URL.Query().Get("id"), request.Method)
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), fields, body)
}

// withItsEnd makes the kernel send what follows together with the end of the connection, so that no client sees one of them
// without the other, however slow this process is.
func withItsEnd(t *testing.T, conn net.Conn) {
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	control, err := conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		err = control.Control(func(descriptor uintptr) {
			err = unix.SetsockoptInt(int(descriptor), unix.IPPROTO_TCP, unix.TCP_CORK, 1)
		})
	}
	if err != nil {
		t.Error(err)
	}
}

// seen runs a plan of one client against the address until it has as many outcomes.
func seen(t *testing.T, plan Plan, requests int) Report {
	t.Helper()
	plan.Name, plan.Host = "test", "a.example"
	plan.Clients = max(plan.Clients, 1)
	if plan.Rate == 0 {
		plan.Rate = 500
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream := Start(plan)
	err := stream.AwaitRequests(ctx, requests)
	report := stream.Stop()
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// only fails unless every request had the class.
func only(t *testing.T, report Report, class Class) {
	t.Helper()
	if report.Counts.Failed[class] != report.Counts.Requests || report.Counts.Requests == 0 {
		t.Fatalf("not all %q: %+v %v", class, report.Counts, report.Events[:min(3, len(report.Events))])
	}
}

func TestKeepAliveUsesOneConnectionAndChecksEveryAnswer(t *testing.T) {
	address := served(t, nil, func(conn net.Conn, _ int, request *http.Request) bool {
		writeResponse(conn, request, "")
		return true
	})
	report := seen(t, Plan{Address: address, PostEvery: 4}, 40)
	counts := report.Counts
	if counts.OK != counts.Requests || counts.Connections != 1 || counts.Posts < 10 || counts.Posts != len(report.Posted) {
		t.Fatalf("%+v", counts)
	}
	if len(report.Latencies) != counts.OK || report.Latencies[0] <= 0 || counts.Pods["one"] != counts.OK {
		t.Fatalf("%+v", counts)
	}
}

func TestANewConnectionForEachRequest(t *testing.T) {
	address := served(t, nil, func(conn net.Conn, _ int, request *http.Request) bool {
		if !request.Close {
			return false
		}
		writeResponse(conn, request, "Connection: close\r\n")
		return false
	})
	counts := seen(t, Plan{Address: address, Reuse: NewConnection}, 20).Counts
	if counts.OK != counts.Requests || counts.Connections != counts.Requests {
		t.Fatalf("%+v", counts)
	}
}

func TestConnectionCloseIsRespected(t *testing.T) {
	address := served(t, nil, func(conn net.Conn, nth int, request *http.Request) bool {
		fields := ""
		if nth == 4 {
			fields = "Connection: close\r\n"
		}
		writeResponse(conn, request, fields)
		return nth < 4
	})
	counts := seen(t, Plan{Address: address}, 20).Counts
	if counts.OK != counts.Requests || counts.Announced < 4 || counts.Repeated != 0 || counts.ClosedIdle != 0 {
		t.Fatalf("%+v", counts)
	}
}

func TestAConnectionThatWasClosedWhileIdleIsNotUsed(t *testing.T) {
	address := served(t, nil, func(conn net.Conn, nth int, request *http.Request) bool {
		if nth == 4 {
			withItsEnd(t, conn)
		}
		writeResponse(conn, request, "")
		return nth < 4
	})
	counts := seen(t, Plan{Address: address, Rate: 100}, 20).Counts
	if counts.OK != counts.Requests || counts.ClosedIdle < 3 || counts.Repeated != 0 {
		t.Fatalf("%+v", counts)
	}
}

func TestAGetOnAReusedConnectionThatDiesIsRepeatedOnceAndCounted(t *testing.T) {
	address := served(t, nil, func(conn net.Conn, nth int, request *http.Request) bool {
		if nth == 3 {
			return false
		}
		writeResponse(conn, request, "")
		return true
	})
	report := seen(t, Plan{Address: address}, 20)
	if report.Counts.OK != report.Counts.Requests || report.Counts.Repeated < 3 || len(report.Repeats) != report.Counts.Repeated {
		t.Fatalf("%+v", report.Counts)
	}
}

func TestAPostIsNeverRepeated(t *testing.T) {
	var asked atomic.Int64
	address := served(t, nil, func(conn net.Conn, nth int, request *http.Request) bool {
		asked.Add(1)
		if nth == 3 {
			return false
		}
		writeResponse(conn, request, "")
		return true
	})
	counts := seen(t, Plan{Address: address, PostEvery: 1}, 20).Counts
	if counts.Repeated != 0 || counts.Failed[EOFBeforeHead] < 4 || int64(counts.Requests) != asked.Load() {
		t.Fatalf("%+v, asked %d", counts, asked.Load())
	}
}

func TestEveryWayToFailHasItsClass(t *testing.T) {
	cases := map[Class]script{
		EOFBeforeHead: func(net.Conn, int, *http.Request) bool { return false },
		Reset: func(conn net.Conn, _ int, _ *http.Request) bool {
			_ = conn.(*net.TCPConn).SetLinger(0)
			return false
		},
		Truncated: func(conn net.Conn, _ int, _ *http.Request) bool {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
			return false
		},
		Malformed: func(conn net.Conn, _ int, _ *http.Request) bool {
			fmt.Fprint(conn, "hello world\r\n\r\n")
			return true
		},
		WrongBody: func(conn net.Conn, _ int, _ *http.Request) bool {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother")
			return true
		},
		ReadTimeout: func(conn net.Conn, _ int, _ *http.Request) bool {
			// Until the client gives up.
			_, _ = conn.Read(make([]byte, 1))
			return false
		},
		"status 502 upstream_closed": func(conn net.Conn, _ int, _ *http.Request) bool {
			fmt.Fprint(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 33\r\n\r\n502 Bad Gateway: upstream_closed\n")
			return true
		},
	}
	for class, follow := range cases {
		t.Run(string(class), func(t *testing.T) {
			plan := Plan{Address: served(t, nil, follow)}
			if class == ReadTimeout {
				plan.AnswerTimeout = time.Second
			}
			only(t, seen(t, plan, 3), class)
		})
	}
}

func TestConnectionsComeFromOnePortAfterTheOther(t *testing.T) {
	var ports []int
	address := served(t, nil, func(conn net.Conn, _ int, request *http.Request) bool {
		ports = append(ports, conn.RemoteAddr().(*net.TCPAddr).Port)
		writeResponse(conn, request, "Connection: close\r\n")
		return false
	})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	// Whatever else has a port of these is passed over, as the one in the middle is.
	middle := taken.Addr().(*net.TCPAddr).Port
	plan := Plan{Address: address, Reuse: NewConnection, Ports: NewPorts(PortRange{middle - 400, middle + 400})}
	report := seen(t, plan, 300)
	if report.Counts.OK != report.Counts.Requests {
		t.Fatalf("%+v", report.Counts)
	}
	last := middle - 401
	for _, port := range ports[:300] {
		if port <= last || port == middle {
			t.Fatalf("port %d after port %d; %d is taken", port, last, middle)
		}
		last = port
	}
}

func TestARefusedConnectionHasItsClass(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	only(t, seen(t, Plan{Address: address}, 3), ConnectRefused)
}

func TestACertificateThatIsNotTrustedIsATLSFailure(t *testing.T) {
	address := served(t, selfSigned(t, 7), func(net.Conn, int, *http.Request) bool { return false })
	only(t, seen(t, Plan{Address: address, TLS: &tls.Config{ServerName: "a.example"}}, 3), TLSFailure)
}

func TestTheSerialsOfCertificatesAreSeenAndTicketsDoNotDisturb(t *testing.T) {
	security := selfSigned(t, 7)
	address := served(t, security, func(conn net.Conn, nth int, request *http.Request) bool {
		if nth == 4 {
			withItsEnd(t, conn)
		}
		writeResponse(conn, request, "")
		return nth < 4
	})
	trusted := x509.NewCertPool()
	trusted.AddCert(security.Certificates[0].Leaf)
	counts := seen(t, Plan{Address: address, Rate: 100, TLS: &tls.Config{ServerName: "a.example", RootCAs: trusted}}, 20).Counts
	if counts.OK != counts.Requests || counts.Serials["7"].IsZero() || counts.ClosedIdle < 3 || counts.Repeated != 0 {
		t.Fatalf("%+v", counts)
	}
}

func TestTheSlowestAnswersAreKept(t *testing.T) {
	var asked atomic.Int64
	address := served(t, nil, func(conn net.Conn, _ int, request *http.Request) bool {
		if asked.Add(1)%7 == 0 {
			time.Sleep(20 * time.Millisecond)
		}
		writeResponse(conn, request, "")
		return true
	})
	slowest := seen(t, Plan{Address: address}, 80).Slowest
	if len(slowest) != 50 {
		t.Fatalf("%v", slowest)
	}
	for n, event := range slowest {
		took := event.End.Sub(event.Begin)
		if n < 10 && took < 20*time.Millisecond || n > 0 && took > slowest[n-1].End.Sub(slowest[n-1].Begin) {
			t.Errorf("%d: %s", n, event)
		}
	}
}

func TestASlowRequestIsCountedWhereItSpentItsTime(t *testing.T) {
	begin := time.Unix(0, 0)
	after := func(milliseconds int) time.Time { return begin.Add(time.Duration(milliseconds) * time.Millisecond) }
	cases := map[Phase]Event{
		Resending:  {Begin: begin, Opened: begin, Connected: after(1010), Resent: 1, End: after(1030)},
		Connecting: {Begin: begin, Opened: begin, Connected: after(700), End: after(800)},
		Waiting:    {Begin: begin, Opened: begin, Connected: after(10), Resent: 1, End: after(800)},
	}
	for phase, event := range cases {
		if got := event.Phase(); got != phase {
			t.Errorf("%s: %q, expected %q", event, got, phase)
		}
		reused := event
		reused.Exchange = 3
		if got := reused.Phase(); got != Waiting {
			t.Errorf("%s: %q, expected %q", reused, got, Waiting)
		}
	}
}

func TestSlowAnswersAreCountedAndEveryRequestHasASpan(t *testing.T) {
	var asked atomic.Int64
	address := served(t, nil, func(conn net.Conn, _ int, request *http.Request) bool {
		switch asked.Add(1) {
		case 3:
			time.Sleep(Slow)
		case 5:
			return false
		}
		writeResponse(conn, request, "")
		return true
	})
	report := seen(t, Plan{Address: address, PostEvery: 1}, 8)
	answered := slices.DeleteFunc(slices.Clone(report.Spans), func(span Span) bool { return !span.OK })
	if len(answered) != report.Counts.OK {
		t.Errorf("%d spans of answers, %d answers", len(answered), report.Counts.OK)
	}
	if report.Slow[Waiting] < 1 || len(report.Spans) != report.Counts.Requests || report.Counts.OK != report.Counts.Requests-1 {
		t.Fatalf("%+v, slow %v, %d spans", report.Counts, report.Slow, len(report.Spans))
	}
}

func TestPercentiles(t *testing.T) {
	var hundred []time.Duration
	for n := range 100 {
		hundred = append(hundred, time.Duration(n+1))
	}
	for share, expected := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Percentile(hundred, share); got != expected {
			t.Errorf("percentile %v is %d, expected %d", share, got, expected)
		}
	}
	if Percentile(nil, 0.5) != 0 {
		t.Error("nothing has a percentile")
	}
}

func selfSigned(t *testing.T, serial int64) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		DNSNames:     []string{"a.example"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}}
}
