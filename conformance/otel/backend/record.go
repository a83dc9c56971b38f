// Package backend owns the endpoints behind Fairway, and their records of each request.
package backend

import (
	"net/http"
	"sync"
	"time"
)

// traceHeaders are the headers that a sight keeps.
var traceHeaders = []string{
	"Traceparent", "Tracestate", "Baggage", "B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid", "X-B3-Sampled", "X-B3-Flags",
}

// Sight is a request as an endpoint saw it: one attempt of an exchange.
type Sight struct {
	// Role says which endpoint it is: Target, or Guard for the authentication service.
	Role Role
	// Header has the trace headers as received.
	Header http.Header
	// Received is when the head was read, Answered when the response was written or given up.
	Received, Answered time.Time
	// Status is that of the response, and 0 where the endpoint broke the connection instead.
	Status int
	// RPC is the status of a gRPC call, and -1 for other requests.
	RPC int
}

// Role is the purpose of an endpoint.
type Role int

// The roles.
const (
	Target Role = iota
	Guard
)

// Record has what all endpoints saw, by path.
type Record struct {
	mutex  sync.Mutex
	sights map[string][]*Sight
}

// NewRecord is an empty record.
func NewRecord() *Record { return &Record{sights: map[string][]*Sight{}} }

// begin records a request, and returns its record and its number for this path and role, from 0.
func (record *Record) begin(role Role, path string, header func(string) []string) (*Sight, int) {
	sight := &Sight{Role: role, Header: http.Header{}, Received: time.Now(), RPC: -1}
	for _, name := range traceHeaders {
		if values := header(name); len(values) > 0 {
			sight.Header[name] = append([]string(nil), values...)
		}
	}
	record.mutex.Lock()
	defer record.mutex.Unlock()
	before := 0
	for _, earlier := range record.sights[path] {
		if earlier.Role == role {
			before++
		}
	}
	record.sights[path] = append(record.sights[path], sight)
	return sight, before
}

// end records the endpoint's response.
func (record *Record) end(sight *Sight, status, rpc int) {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	sight.Answered, sight.Status, sight.RPC = time.Now(), status, rpc
}

// Of are the records of a path in the order of arrival.
func (record *Record) Of(path string) []Sight {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	found := make([]Sight, 0, len(record.sights[path]))
	for _, sight := range record.sights[path] {
		found = append(found, *sight)
	}
	return found
}

// Forget drops the records.
func (record *Record) Forget() {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	record.sights = map[string][]*Sight{}
}
