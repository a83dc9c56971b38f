package scenario

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/report"
)

const (
	ticketReplicas = 3
	// ticketRotation is in seconds: a key waits for a twenty-fourth of it before it encrypts.
	ticketRotation = 120
	ticketSecret   = fairwayName + "-session-tickets"
)

// Three replicas are rolled while their leader rotates ticket keys: clients with a valid ticket make no full handshake.
func TestSessionsResumeOnEveryReplicaWhileTheseAreRolledAndKeysRotate(t *testing.T) {
	s := newStage(t, "tickets")
	s.must(kube.Deploy(s.Context(), s.workload("backend", 1)))
	plan := s.secure("own", s.host)
	defer func() {
		s.must(upgrade(context.Background(), testbed.Image))
		s.must(kube.AwaitSettled(context.Background(), fairwayNamespace, fairwayName))
	}()
	s.rollTo(testbed.Image)
	s.awaitServed(plan)
	first := s.ticketKey()
	s.acrossReplicas()

	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	var running sync.WaitGroup
	clients := s.resumers(cluster.Join(addresses[0], 443))
	for _, client := range clients {
		running.Go(func() { client.run(ctx) })
	}
	for _, image := range []string{testbed.Next, testbed.Image} {
		s.rollTo(image)
		before := first
		s.must(cluster.Eventually(s.Context(), 4*ticketRotation*time.Second, "the ticket key is rotated", func(context.Context) (bool, string, error) {
			first = s.ticketKey()
			return first != before, "the same key", nil
		}))
	}
	s.acrossReplicas()
	stop()
	running.Wait()
	for _, client := range clients {
		client.judge()
	}
	book.Add(report.Scenario{Name: s.name, Figures: s.figures})
}

// rollTo installs an image with three replicas and waits until only these are left.
func (s *stage) rollTo(image string) {
	s.Helper()
	s.must(upgrade(s.Context(), image, fmt.Sprintf("replicas=%d", ticketReplicas), fmt.Sprintf("sessionTickets.rotation=%d", ticketRotation)))
	s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
}

// ticketKey waits for a key and returns the creation time of the current one.
func (s *stage) ticketKey() string {
	s.Helper()
	var made string
	s.must(cluster.Eventually(s.Context(), promptly, "Secret "+ticketSecret+" has a key", func(ctx context.Context) (bool, string, error) {
		secret, err := kube.API.CoreV1().Secrets(fairwayNamespace).Get(ctx, ticketSecret, meta.GetOptions{})
		if err != nil {
			return false, "", err
		}
		made = string(secret.Data["current-made"])
		return made != "", "no key", nil
	}))
	return made
}

// acrossReplicas takes a session that began at each replica to all others.
func (s *stage) acrossReplicas() {
	s.Helper()
	pods, err := replicaAddresses(s.Context())
	s.must(err)
	if len(pods) != ticketReplicas {
		s.Fatalf("%d replicas are ready, not %d", len(pods), ticketReplicas)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, begun := range pods {
			client := s.goClient(version)
			_, err := client.connect(s.Context(), cluster.Join(begun, 8443))
			s.must(err)
			for _, pod := range pods {
				got, err := client.connect(s.Context(), cluster.Join(pod, 8443))
				s.must(err)
				if got != resumed {
					s.Errorf("a session of TLS %#x of %s is not resumed by %s", version, begun, pod)
				}
			}
		}
	}
}

// resumer is a client that keeps its session and makes one connection after the other.
type resumer struct {
	*stage
	name    string
	address string
	connect func(ctx context.Context, address string) (handshake, error)

	lasted         time.Duration
	begun, resumed int
	failed         []string
}

type handshake int

const (
	// begun: the client had no session, or its lifetime was over.
	begun handshake = iota
	resumed
	// refused: the client offered a session, and the handshake was a full one.
	refused
)

func (s *stage) resumers(address string) []*resumer {
	s.Helper()
	var all []*resumer
	for _, version := range []struct {
		name, flag string
		number     uint16
	}{{"TLS 1.2", "-tls1_2", tls.VersionTLS12}, {"TLS 1.3", "-tls1_3", tls.VersionTLS13}} {
		plain := s.goClient(version.number)
		all = append(all,
			&resumer{stage: s, name: "Go, " + version.name, address: address, connect: plain.connect},
			&resumer{stage: s, name: "openssl, " + version.name, address: address, connect: s.openssl(version.flag)})
	}
	return all
}

func (r *resumer) run(ctx context.Context) {
	start := time.Now()
	defer func() { r.lasted = time.Since(start) }()
	for ctx.Err() == nil {
		got, err := r.connect(ctx, r.address)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			r.failed = append(r.failed, fmt.Sprintf("%s: %v", time.Now().Format(time.TimeOnly), err))
		case got == refused:
			r.failed = append(r.failed, fmt.Sprintf("%s: the session was not resumed", time.Now().Format(time.TimeOnly)))
		case got == resumed:
			r.resumed++
		default:
			r.begun++
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (r *resumer) judge() {
	r.Helper()
	// A ticket made just before its key stops encrypting lives for the rest of the two rotations.
	most := 1 + int(r.lasted/(ticketRotation*22/24*time.Second))
	r.Logf("%s: %d sessions begun, %d handshakes resumed one, %d failed", r.name, r.begun, r.resumed, len(r.failed))
	if r.begun > most || r.resumed < 100 || len(r.failed) > 0 {
		r.Errorf("%s: %d sessions begun (at most %d), %d handshakes resumed one, failed: %s", r.name, r.begun, most, r.resumed, firstLines(r.failed))
	}
	r.figure("resumed, "+r.name, float64(r.resumed)/float64(max(1, len(r.failed)+r.resumed))*100, "%", 0)
}

// goClient is a client of Go's standard library, which takes each new ticket that it gets.
type goClient struct {
	config   *tls.Config
	sessions *sessions
}

// sessions remembers whether the last handshake had a session to offer.
type sessions struct {
	tls.ClientSessionCache
	offered bool
}

func (s *sessions) Get(key string) (*tls.ClientSessionState, bool) {
	session, found := s.ClientSessionCache.Get(key)
	s.offered = found && session != nil
	return session, found
}

func (s *stage) goClient(version uint16) goClient {
	s.Helper()
	signed, err := authority()
	s.must(err)
	config := signed.Client(s.host)
	config.MinVersion, config.MaxVersion = version, version
	kept := &sessions{ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	config.ClientSessionCache = kept
	return goClient{config, kept}
}

// connect makes a connection and a request; the tickets of TLS 1.3 arrive with the response.
func (c goClient) connect(ctx context.Context, address string) (handshake, error) {
	ctx, cancel := context.WithTimeout(ctx, promptly)
	defer cancel()
	dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: c.config}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return begun, err
	}
	defer connection.Close()
	end, _ := ctx.Deadline()
	_ = connection.SetDeadline(end)
	if _, err := fmt.Fprint(connection, request(c.config.ServerName)); err != nil {
		return begun, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return begun, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return begun, fmt.Errorf("status %s", answer.Status)
	}
	return outcome(c.sessions.offered, connection.(*tls.Conn).ConnectionState().DidResume), nil
}

func outcome(offered, reused bool) handshake {
	switch {
	case reused:
		return resumed
	case offered:
		return refused
	default:
		return begun
	}
}

func request(host string) string {
	return "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
}

var lifetimeHint = regexp.MustCompile(`TLS session ticket lifetime hint: (\d+) \(seconds\)`)

// openssl is `openssl s_client`, which keeps its session in a file. With TLS 1.2 it does not write there the ticket that comes with
// a resumed handshake, so it offers its first one until the lifetime that it was told is over.
func (s *stage) openssl(version string) func(context.Context, string) (handshake, error) {
	s.Helper()
	directory := s.TempDir()
	signed, err := authority()
	s.must(err)
	roots := filepath.Join(directory, "roots.pem")
	s.must(os.WriteFile(roots, signed.PEM(), 0o600))
	session := filepath.Join(directory, "session.pem")
	var lifetime time.Duration
	return func(ctx context.Context, address string) (handshake, error) {
		ctx, cancel := context.WithTimeout(ctx, promptly)
		defer cancel()
		arguments := []string{"s_client", "-connect", address, "-servername", s.host, "-CAfile", roots, "-verify_return_error",
			version, "-ign_eof", "-sess_out", session}
		before, err := os.Stat(session)
		offered := err == nil && time.Since(before.ModTime()) < lifetime
		if offered {
			arguments = append(arguments, "-sess_in", session)
		}
		command := exec.CommandContext(ctx, "openssl", arguments...)
		command.Stdin = strings.NewReader(request(s.host))
		out, err := command.CombinedOutput()
		text := string(out)
		if err != nil {
			return begun, fmt.Errorf("openssl: %w: %s", err, text)
		}
		if !strings.Contains(text, "HTTP/1.1 200") {
			return begun, fmt.Errorf("openssl got no answer 200: %s", text)
		}
		if after, err := os.Stat(session); err == nil && (before == nil || after.ModTime().After(before.ModTime())) {
			hints := lifetimeHint.FindAllStringSubmatch(text, -1)
			if hints == nil {
				return begun, fmt.Errorf("a session without a lifetime: %s", text)
			}
			seconds, err := strconv.Atoi(hints[len(hints)-1][1])
			if err != nil {
				return begun, fmt.Errorf("lifetime of a session: %w", err)
			}
			lifetime = time.Duration(seconds) * time.Second
		}
		return outcome(offered, strings.Contains(text, "\nReused, ")), nil
	}
}
