package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connection is one connection of a client and what it knows of it.
type connection struct {
	raw    *net.TCPConn
	stream net.Conn
	reader *bufio.Reader
	// opened is when the connection was requested, connected when it was established.
	opened, connected time.Time
	// resent counts the segments that were repeated until then.
	resent int
	// served is the number of responses over it.
	served int
	// serial is that of the server's certificate, over TLS.
	serial string
}

// answer is a complete response.
type answer struct {
	status int
	body   string
	// last says that the server closes the connection after it (RFC 9112 §9.6).
	last bool
}

// open connects, with TLS where the plan says so.
func (p *Plan) open(ctx context.Context) (*connection, *failure) {
	opened := time.Now()
	dialer := net.Dialer{Timeout: p.ConnectTimeout, KeepAlive: -1}
	conn, err := p.Ports.dial(ctx, dialer, p.Address)
	if err != nil {
		return nil, connecting(err)
	}
	raw, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, fail(ConnectFailed, fmt.Errorf("a %T is no TCP connection", conn))
	}
	c := &connection{raw: raw, stream: raw, opened: opened}
	if p.TLS != nil {
		if failed := c.secure(p); failed != nil {
			return nil, failed
		}
	}
	c.reader = bufio.NewReaderSize(c.stream, 8<<10)
	c.connected, c.resent = time.Now(), resent(raw)
	return c, nil
}

// resent counts the segments of a connection that the kernel has sent again, its SYN included.
func resent(raw *net.TCPConn) int {
	control, err := raw.SyscallConn()
	if err != nil {
		return 0
	}
	count := 0
	_ = control.Control(func(descriptor uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(descriptor), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			count = int(info.Total_retrans)
		}
	})
	return count
}

func (c *connection) secure(p *Plan) *failure {
	secure := tls.Client(c.raw, p.TLS)
	if err := c.raw.SetDeadline(time.Now().Add(p.ConnectTimeout)); err != nil {
		return fail(TLSFailure, err)
	}
	if err := secure.Handshake(); err != nil {
		c.close()
		return fail(TLSFailure, err)
	}
	if certificates := secure.ConnectionState().PeerCertificates; len(certificates) > 0 {
		c.serial = certificates[0].SerialNumber.String()
	}
	c.stream = secure
	return nil
}

// close leaves nothing behind: its outcome is known, so a close that fails changes nothing.
func (c *connection) close() {
	if c != nil {
		_ = c.raw.Close()
	}
}

// exchange writes a request and reads its whole response.
func (c *connection) exchange(request []byte, method string, patience time.Duration) (answer, *failure) {
	if err := c.stream.SetDeadline(time.Now().Add(patience)); err != nil {
		return answer{}, writing(err)
	}
	if _, err := c.stream.Write(request); err != nil {
		return answer{}, writing(err)
	}
	if _, err := c.reader.Peek(1); err != nil {
		return answer{}, beforeHead(err)
	}
	response, err := http.ReadResponse(c.reader, &http.Request{Method: method})
	if err != nil {
		return answer{}, withinAnswer(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, withinAnswer(err)
	}
	c.served++
	return answer{status: response.StatusCode, body: string(body), last: response.Close}, nil
}

// closedWhileIdle says whether the server has closed an idle connection, which every client looks at before it uses one
// again (RFC 9112 §9.5).
func (c *connection) closedWhileIdle() bool {
	waiting, err := c.waiting()
	if err != nil {
		return true
	}
	if waiting == 0 {
		return false
	}
	// Something is there: the end of a TLS connection, or its tickets. Reading tells; plain HTTP has nothing to say here.
	if c.stream == net.Conn(c.raw) {
		return true
	}
	for waiting > 0 {
		if err := c.stream.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			return true
		}
		if _, err = c.reader.Peek(1); err == nil || !timedOut(err) {
			return true
		}
		// On a busy machine the millisecond may be over before anything was read.
		if waiting, err = c.waiting(); err != nil {
			return true
		}
	}
	return false
}

// waiting is how many bytes can be read at once; an error when the connection is at its end.
func (c *connection) waiting() (int, error) {
	control, err := c.raw.SyscallConn()
	if err != nil {
		return 0, err
	}
	var (
		count  int
		failed error
		buffer [1]byte
	)
	err = control.Read(func(descriptor uintptr) bool {
		count, _, failed = syscall.Recvfrom(int(descriptor), buffer[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(failed, syscall.EAGAIN):
		return 0, nil
	case failed != nil:
		return 0, failed
	case count == 0:
		return 0, io.EOF
	}
	return count, nil
}

// check compares a response with the one that backend sends to this request.
func (a answer) check(method, id string) (pod string, failed *failure) {
	if a.status != http.StatusOK {
		return "", &failure{
			class:  Class(fmt.Sprintf("status %d", a.status)),
			reason: a.reason(),
			cause:  fmt.Errorf("answered %d", a.status),
		}
	}
	line, _, _ := strings.Cut(a.body, "\n")
	words := strings.Fields(line)
	if len(words) != 3 || words[1] != "id="+id || words[2] != "method="+method {
		return "", fail(WrongBody, fmt.Errorf("answered %q", line))
	}
	pod, found := strings.CutPrefix(words[0], "pod=")
	if !found || pod == "" {
		return "", fail(WrongBody, fmt.Errorf("answered %q", line))
	}
	return pod, nil
}

// reason is Fairway's reason in its own response, as in `502 Bad Gateway: upstream_closed`; of other responses it is the start
// of the body.
func (a answer) reason() string {
	line, _, _ := strings.Cut(strings.TrimSpace(a.body), "\n")
	if _, reason, found := strings.Cut(line, ": "); found && strings.HasPrefix(line, strconv.Itoa(a.status)+" ") {
		line = reason
	}
	return line[:min(len(line), 60)]
}
