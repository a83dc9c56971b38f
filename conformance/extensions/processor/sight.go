package processor

import (
	"maps"
	"sync"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// Sight is the part of an exchange that the service got.
type Sight struct {
	// Streams counts calls.
	Streams int
	// Messages counts messages by their phase.
	Messages map[Phase]int
	// Bytes are those of pieces of bodies.
	Bytes map[Phase]int
	// Ended says whether a message of a phase had end_of_stream.
	Ended map[Phase]bool
	// Headers are those of the last message of a phase that had some.
	Headers map[Phase]map[string]string
	// Attributes are the names of all received attributes.
	Attributes map[string]string
	// Modes are what the proxy says of its body modes, if it does.
	Modes string
	// Order are the phases as received, without repeated pieces.
	Order []Phase
}

func newSight() *Sight {
	return &Sight{Messages: map[Phase]int{}, Bytes: map[Phase]int{}, Ended: map[Phase]bool{},
		Headers: map[Phase]map[string]string{}, Attributes: map[string]string{}}
}

// record keeps sights by the names of cases.
type record struct {
	mutex  sync.Mutex
	sights map[string]*Sight
	// streams counts calls that have begun and not ended.
	streams int
}

func (record *record) note(name string, change func(*Sight)) {
	record.mutex.Lock()
	defer record.mutex.Unlock()
	if record.sights[name] == nil {
		record.sights[name] = newSight()
	}
	change(record.sights[name])
}

// Of returns the record of a case.
func (server *Server) Of(name string) Sight {
	server.record.mutex.Lock()
	defer server.record.mutex.Unlock()
	sight := server.record.sights[name]
	if sight == nil {
		return *newSight()
	}
	copied := *sight
	copied.Messages, copied.Bytes, copied.Ended = maps.Clone(sight.Messages), maps.Clone(sight.Bytes), maps.Clone(sight.Ended)
	copied.Headers, copied.Attributes = maps.Clone(sight.Headers), maps.Clone(sight.Attributes)
	return copied
}

// Forget drops the record of a case.
func (server *Server) Forget(name string) {
	server.record.mutex.Lock()
	defer server.record.mutex.Unlock()
	delete(server.record.sights, name)
}

// Open counts calls that have begun and not ended.
func (server *Server) Open() int {
	server.record.mutex.Lock()
	defer server.record.mutex.Unlock()
	return server.record.streams
}

// add records a message.
func (sight *Sight) add(phase Phase, message *extproc.ProcessingRequest) {
	sight.Messages[phase]++
	if len(sight.Order) == 0 || sight.Order[len(sight.Order)-1] != phase {
		sight.Order = append(sight.Order, phase)
	}
	if headers := headersOf(message); headers != nil {
		found := map[string]string{}
		for _, header := range headers.GetHeaders() {
			found[header.GetKey()] = value(header)
		}
		sight.Headers[phase] = found
	}
	switch {
	case message.GetRequestHeaders().GetEndOfStream() || message.GetResponseHeaders().GetEndOfStream():
		sight.Ended[phase] = true
	case phase.isBody():
		body := bodyOf(message)
		sight.Bytes[phase] += len(body.GetBody())
		sight.Ended[phase] = sight.Ended[phase] || body.GetEndOfStream()
	}
	for _, attributes := range message.GetAttributes() {
		for name, one := range attributes.GetFields() {
			sight.Attributes[name] = one.String()
		}
	}
	if modes := message.GetProtocolConfig(); modes != nil {
		sight.Modes = modes.GetRequestBodyMode().String() + ", " + modes.GetResponseBodyMode().String()
	}
}
