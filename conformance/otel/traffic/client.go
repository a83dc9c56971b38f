package traffic

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairway.dev/conformance/otel/backend"
	"fairway.dev/conformance/otel/fairway"
)

// requestTimeout bounds a request of a client that does not leave.
const requestTimeout = 30 * time.Second

// Outcome is the result of a request at its client.
type Outcome struct {
	Case *Case
	// Sent is when the request began, Done when the response had ended or the client had left.
	Sent, Done time.Time
	// Status is that of the response, 200 for a call that has a status, and 0 where there was none.
	Status int
	// RPC is the status of a gRPC call, and -1 for other requests.
	RPC int
	// HasLeft means that the client gave the request up, as its kind wants.
	HasLeft bool
	// Err is what went wrong otherwise.
	Err error
}

// Clients send requests to a Fairway.
type Clients struct {
	http map[Entry]*http.Client
	grpc *grpc.ClientConn
}

// NewClients are clients with connections of their own.
func NewClients(process *fairway.Process) (*Clients, error) {
	entries := map[Entry]struct {
		address string
		isHTTP2 bool
	}{
		HTTP1: {process.HTTP, false}, H2C: {process.HTTP, true}, H2TLS: {process.HTTPS, true},
		GatewayHTTP1: {process.Gateway, false}, GatewayH2C: {process.Gateway, true},
	}
	clients := &Clients{http: map[Entry]*http.Client{}}
	for entry, to := range entries {
		clients.http[entry] = newClient(to.address, to.isHTTP2)
	}
	connection, err := grpc.NewClient("passthrough:///"+process.HTTP, grpc.WithAuthority(fairway.GRPCHost), grpc.WithDisableRetry(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	clients.grpc = connection
	return clients, err
}

func newClient(address string, isHTTP2 bool) *http.Client {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!isHTTP2)
	protocols.SetHTTP2(isHTTP2)
	protocols.SetUnencryptedHTTP2(isHTTP2)
	dialer := net.Dialer{Timeout: requestTimeout}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Protocols:           protocols,
			MaxIdleConnsPerHost: 256,
			DisableCompression:  true,
			// The name in the URL is the host of the request.
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, address)
			},
			// Fairway makes a certificate of its own here.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
	}
}

// Close ends the connections.
func (clients *Clients) Close() {
	for _, client := range clients.http {
		client.CloseIdleConnections()
	}
	_ = clients.grpc.Close()
}

// Send sends a request and waits for the end of its response.
func (clients *Clients) Send(one *Case) *Outcome {
	patience := requestTimeout
	if one.Kind.Patience > 0 {
		patience = one.Kind.Patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	outcome := &Outcome{Case: one, RPC: -1, Sent: time.Now()}
	if one.Kind.Entry == GRPC {
		clients.call(ctx, one, outcome)
	} else {
		outcome.Status, outcome.Err = clients.request(ctx, one)
	}
	outcome.Done = time.Now()
	if one.Kind.Patience > 0 && errors.Is(outcome.Err, context.DeadlineExceeded) {
		outcome.HasLeft, outcome.Err = true, nil
	}
	return outcome
}

func (clients *Clients) request(ctx context.Context, one *Case) (int, error) {
	scheme := "http"
	if one.Kind.Entry == H2TLS {
		scheme = "https"
	}
	target := scheme + "://" + one.Host + one.Path
	if one.Kind.Query != "" {
		target += "?" + one.Kind.Query
	}
	var body io.Reader
	if one.Kind.Method == http.MethodPost {
		body = strings.NewReader(strings.Repeat("a body ", 100))
	}
	request, err := http.NewRequestWithContext(ctx, one.Kind.Method, target, body)
	if err != nil {
		return 0, err
	}
	for name, values := range one.Carried.Header {
		request.Header[name] = values
	}
	response, err := clients.http[one.Kind.Entry].Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

func (clients *Clients) call(ctx context.Context, one *Case, outcome *Outcome) {
	sent := metadata.MD{}
	for name, values := range one.Carried.Header {
		sent.Append(name, values...)
	}
	if one.Kind.RPC != 0 {
		sent.Append(backend.RPCStatus, strconv.Itoa(one.Kind.RPC))
	}
	message, answer := wrapperspb.String(one.Path), &wrapperspb.StringValue{}
	err := clients.grpc.Invoke(metadata.NewOutgoingContext(ctx, sent), one.Path, message, answer)
	outcome.RPC = int(status.Code(err))
	if outcome.RPC == one.Kind.RPC {
		outcome.Status = http.StatusOK
		return
	}
	outcome.Err = err
}

// SendAll sends requests at a steady rate, at most `concurrent` at a time, and returns their outcomes.
func (clients *Clients) SendAll(cases []*Case, perSecond, concurrent int) []*Outcome {
	queue := make(chan int)
	outcomes := make([]*Outcome, len(cases))
	var senders sync.WaitGroup
	for range concurrent {
		senders.Go(func() {
			for index := range queue {
				outcomes[index] = clients.Send(cases[index])
			}
		})
	}
	began := time.Now()
	for index := range cases {
		due := began.Add(time.Duration(index) * time.Second / time.Duration(perSecond))
		time.Sleep(time.Until(due))
		queue <- index
	}
	close(queue)
	senders.Wait()
	return outcomes
}
