// Package proxy owns the proxies under test: their routes, start and end, and versions.
package proxy

import "time"

// Modes of bodies, as ExtensionPolicy names them.
const (
	None       = "None"
	Streamed   = "Streamed"
	Buffered   = "Buffered"
	Partial    = "BufferedPartial"
	FullDuplex = "FullDuplexStreamed"
)

// BodyModes are all of them.
var BodyModes = []string{None, Streamed, Buffered, Partial, FullDuplex}

// Message is what the service sees of requests or responses.
type Message struct {
	SkipHeaders bool
	Body        string
	Trailers    bool
}

// Extension asks an ext_proc service.
type Extension struct {
	// Service is the name of the Service.
	Service           string
	IsOpen            bool
	Request, Response Message
	AllowOverride     bool
	AllowPath         bool
	Denied            []string
	ErrorOnDenied     bool
	// MaxBuffered is the longest buffered body, in bytes.
	MaxBuffered int
	Timeout     time.Duration
	// Attributes are their names in Fairway, and in Envoy, which has them as they are.
	Attributes []string
	Metadata   map[string]map[string]string
}

// Auth asks an ext_authz service.
type Auth struct {
	Service string
	IsOpen  bool
	// MaxBody is how much of a request's body the question has, in bytes; 0 is nothing.
	MaxBody      int
	AllowPartial bool
	Timeout      time.Duration
	Context      map[string]string
}

// Route is a host with a route of its own.
type Route struct {
	// Name is the name of its objects; Host contains it.
	Name string
	// HTTP2 is set if its endpoint uses HTTP/2.
	HTTP2     bool
	Extension *Extension
	Auth      *Auth
}

// Host is that of its requests.
func (route Route) Host() string { return route.Name + ".test" }

// Plan is all that a proxy serves.
type Plan struct {
	Routes []Route
	// Backend is the port of the endpoint. Services are the ports of all services by their names.
	Backend  int
	Services map[string]int
}

// Proxy is a proxy that runs.
type Proxy interface {
	// Name and Version identify the proxy.
	Name() string
	Version() string
	// Address is where requests for a route are sent.
	Address(route Route) string
	// Memory is what it has in RAM, and had at most, in bytes.
	Memory() (resident, peak int, err error)
	// HasEnded reports whether the process has ended.
	HasEnded() bool
	// Stop ends it.
	Stop() error
}
