package load

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// examples bounds the recorded events; all are counted.
const examples = 20_000

// Counts are the results of a stream.
type Counts struct {
	// Requests that have an outcome.
	Requests int
	// Posts among them.
	Posts int
	// OK among them.
	OK int
	// Failed by class, with Fairway's reason after the status.
	Failed map[Class]int
	// Repeated requests were sent a second time because their reused connection had been closed; they are counted once above.
	Repeated int
	// Established connections.
	Connections int
	// Announced are keep-alive connections that the server closed with `Connection: close`.
	Announced int
	// ClosedIdle are keep-alive connections that were found closed before a request was written.
	ClosedIdle int
	// Number of responses by pod.
	Pods map[string]int
	// Serials of the certificates of connections, with when each was first seen.
	Serials map[string]time.Time
}

// tally counts for all clients of a stream.
type tally struct {
	lock      sync.Mutex
	counts    Counts
	latencies []time.Duration
	events    []Event
	repeats   []Event
	posted    []string
	slowest   []Event
	spans     []Span
	phases    map[Phase]int
}

// Span is the time from the start of a request to its outcome, and whether that was a response.
type Span struct {
	Begin, End time.Time
	OK         bool
}

// Duration is how long the request took.
func (s Span) Duration() time.Duration { return s.End.Sub(s.Begin) }

// Slow is the threshold of Report.Slow: far above what the machine needs, below a repeated SYN.
const Slow = 500 * time.Millisecond

// slow is the number of recorded slow responses.
const slow = 50

func newTally() *tally {
	return &tally{counts: Counts{Failed: map[Class]int{}, Pods: map[string]int{}, Serials: map[string]time.Time{}}, phases: map[Phase]int{}}
}

func (t *tally) countSuccess(event *Event, pod string, took time.Duration) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.counts.Requests++
	t.counts.OK++
	t.counts.Pods[pod]++
	t.latencies = append(t.latencies, took)
	t.spans = append(t.spans, Span{event.Begin, event.End, true})
	if event.End.Sub(event.Begin) >= Slow {
		t.phases[event.Phase()]++
	}
	t.keepIfSlow(*event)
	if event.Method == "POST" {
		t.counts.Posts++
		t.posted = append(t.posted, event.ID)
	}
}

// keepIfSlow records a response while it is among the slowest.
func (t *tally) keepIfSlow(event Event) {
	event.Class = OK
	longer := func(a, b Event) int { return cmp.Compare(b.End.Sub(b.Begin), a.End.Sub(a.Begin)) }
	if len(t.slowest) == slow && longer(event, t.slowest[slow-1]) >= 0 {
		return
	}
	place, _ := slices.BinarySearchFunc(t.slowest, event, longer)
	t.slowest = slices.Insert(t.slowest, place, event)
	t.slowest = t.slowest[:min(slow, len(t.slowest))]
}

func (t *tally) failed(event Event) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.counts.Requests++
	if event.Method == "POST" {
		t.counts.Posts++
	}
	class := event.Class
	if event.Reason != "" {
		class += Class(" " + event.Reason)
	}
	t.counts.Failed[class]++
	t.spans = append(t.spans, Span{event.Begin, event.End, false})
	if len(t.events) < examples {
		t.events = append(t.events, event)
	}
}

func (t *tally) repeated(event Event) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.counts.Repeated++
	if len(t.repeats) < examples {
		t.repeats = append(t.repeats, event)
	}
}

func (t *tally) opened(conn *connection) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.counts.Connections++
	if _, known := t.counts.Serials[conn.serial]; !known && conn.serial != "" {
		t.counts.Serials[conn.serial] = conn.opened
	}
}

func (t *tally) announced() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.counts.Announced++
}

func (t *tally) closedWhileIdle() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.counts.ClosedIdle++
}

// now is a copy of the counts.
func (t *tally) now() Counts {
	t.lock.Lock()
	defer t.lock.Unlock()
	counts := t.counts
	counts.Failed = maps.Clone(counts.Failed)
	counts.Pods = maps.Clone(counts.Pods)
	counts.Serials = maps.Clone(counts.Serials)
	return counts
}
