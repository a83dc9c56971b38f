// Package kubeapi speaks to the testbed's own API server: the few requests that the testbed itself makes, as plain HTTP
// and JSON, so that its command needs no Kubernetes library. It is no general client.
package kubeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Client is the administrator at one API server.
type Client struct {
	base string
	http *http.Client
}

// Failure is a response other than success.
type Failure struct {
	Status  int
	Message string
}

func (f *Failure) Error() string {
	return fmt.Sprintf("the API server answered %d: %s", f.Status, f.Message)
}

// Missing reports whether err means that the object does not exist.
func Missing(err error) bool {
	var failure *Failure
	return errors.As(err, &failure) && failure.Status == http.StatusNotFound
}

// New makes a client for the server at base, which proves itself with a certificate of the authority.
func New(base string, authority, certificate, key []byte) (*Client, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("read the authority's certificate: there is none in it")
	}
	return &Client{base: base, http: &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 5 * time.Second,
		DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		IdleConnTimeout:     30 * time.Second,
	}}}, nil
}

func (c *Client) request(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
		var status struct {
			Message string `json:"message"`
		}
		message := strings.TrimSpace(string(text))
		if json.Unmarshal(text, &status) == nil && status.Message != "" {
			message = status.Message
		}
		return nil, fmt.Errorf("%s %s: %w", method, path, &Failure{Status: answer.StatusCode, Message: message})
	}
	return answer, nil
}

// deadline bounds every request but a watch.
const deadline = 10 * time.Second

// Read reads an object or a list into `into`; with a nil `into` it only asks.
func (c *Client) Read(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	answer, err := c.request(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if into == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	} else {
		err = json.NewDecoder(answer.Body).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Apply makes the object at path what it is here (server-side apply): the same words twice change nothing.
func (c *Client) Apply(ctx context.Context, path string, object any) error {
	return c.patch(ctx, path+"?fieldManager=testbed&force=true", "application/apply-patch+yaml", object)
}

// Merge changes the named fields of the object at path.
func (c *Client) Merge(ctx context.Context, path string, change any) error {
	return c.patch(ctx, path, "application/merge-patch+json", change)
}

func (c *Client) patch(ctx context.Context, path, contentType string, object any) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("write an object for %s: %w", path, err)
	}
	answer, err := c.request(ctx, http.MethodPatch, path, contentType, body)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Event is one line of a watch.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// Watch calls `seen` with every change of the list at path since the version, until the server ends it.
func (c *Client) Watch(ctx context.Context, path, version string, seen func(Event) error) error {
	answer, err := c.request(ctx, http.MethodGet,
		path+"?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion="+version, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for events := json.NewDecoder(answer.Body); ; {
		var event Event
		if err := events.Decode(&event); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if event.Type == "ERROR" {
			return fmt.Errorf("watch %s: %s", path, event.Object)
		}
		if err := seen(event); err != nil {
			return err
		}
	}
}
