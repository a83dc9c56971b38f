package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Stream is a running stream of requests.
type Stream struct {
	plan    Plan
	tally   *tally
	begun   time.Time
	stop    context.CancelFunc
	clients sync.WaitGroup
	shared  []channel
}

// Report is all that a stream saw.
type Report struct {
	Plan   Plan
	Counts Counts
	// Events are the requests that failed, the first 20,000 of them.
	Events []Event
	// Repeats are the closed connections behind Counts.Repeated.
	Repeats []Event
	// Slowest are the fifty slowest successful requests.
	Slowest []Event
	// Spans are the times of all requests, the failed ones included.
	Spans []Span
	// Slow counts the successful requests that took longer than the constant of that name, by the step that took the time.
	Slow map[Phase]int
	// Posted are the ids of POSTs that got 200.
	Posted []string
	// Latencies of successful requests in ascending order, from when each was due.
	Latencies []time.Duration
	Begun     time.Time
	Took      time.Duration
}

// Start begins a stream; Stop ends it.
func Start(plan Plan) *Stream {
	ctx, stop := context.WithCancel(context.Background())
	s := &Stream{plan: plan.withDefaults(), tally: newTally(), begun: time.Now(), stop: stop}
	for number := range plan.Clients {
		c := &client{plan: &s.plan, tally: s.tally, number: number, shared: s.channel(number)}
		s.clients.Go(func() { c.run(ctx, s.begun) })
	}
	return s
}

// channel is the one of a client; nil where each has its own connection.
func (s *Stream) channel(number int) channel {
	if s.plan.Protocol == HTTP1 {
		return nil
	}
	if number%s.plan.Sharing == 0 {
		switch s.plan.Protocol {
		case HTTP2:
			s.shared = append(s.shared, &multiplexed{plan: &s.plan, tally: s.tally})
		case HTTP3:
			s.shared = append(s.shared, &http3Channel{plan: &s.plan, tally: s.tally})
		default:
			s.shared = append(s.shared, newCalls(&s.plan))
		}
	}
	return s.shared[len(s.shared)-1]
}

// Counts are the results so far.
func (s *Stream) Counts() Counts { return s.tally.now() }

// Spans are the times of all requests that have an outcome so far, the failed ones included.
func (s *Stream) Spans() []Span {
	s.tally.lock.Lock()
	defer s.tally.lock.Unlock()
	return slices.Clone(s.tally.spans)
}

// Plan is the stream's plan.
func (s *Stream) Plan() Plan { return s.plan }

// AwaitRequests waits until as many requests have an outcome.
func (s *Stream) AwaitRequests(ctx context.Context, count int) error {
	for {
		got := s.Counts().Requests
		if got >= count {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for request %d of stream %s: %d were sent: %w", count, s.plan.Name, got, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop lets every client finish its request and returns the results.
func (s *Stream) Stop() Report {
	s.stop()
	s.clients.Wait()
	for _, shared := range s.shared {
		shared.close()
	}
	took := time.Since(s.begun)
	counts := s.tally.now()
	s.tally.lock.Lock()
	defer s.tally.lock.Unlock()
	latencies := slices.Clone(s.tally.latencies)
	slices.Sort(latencies)
	return Report{
		Plan:      s.plan,
		Counts:    counts,
		Events:    slices.Clone(s.tally.events),
		Repeats:   slices.Clone(s.tally.repeats),
		Slowest:   slices.Clone(s.tally.slowest),
		Spans:     slices.Clone(s.tally.spans),
		Slow:      maps.Clone(s.tally.phases),
		Posted:    slices.Clone(s.tally.posted),
		Latencies: latencies,
		Begun:     s.begun,
		Took:      took,
	}
}

// Percentile of values in ascending order; share is from 0 to 1. Zero when there are none.
func Percentile(ascending []time.Duration, share float64) time.Duration {
	if len(ascending) == 0 {
		return 0
	}
	place := int(share*float64(len(ascending))+0.999999) - 1
	return ascending[min(max(place, 0), len(ascending)-1)]
}
