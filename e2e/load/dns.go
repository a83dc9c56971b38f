package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Lost is a query without a timely response; a resolver asks again.
const Lost Class = "no answer"

// Wrong is a wrong response.
const Wrong Class = "wrong answer"

const (
	// patience is how long an attempt of a query waits, as glibc's resolver does (resolv.conf(5)), and attempts how often a
	// resolver asks.
	patience = 5 * time.Second
	attempts = 5
)

// DNSPlan is a query that a resolver repeats.
type DNSPlan struct {
	// Network is "udp" or "tcp".
	Network string
	Address string
	// Name is the queried name, with a final dot, and Want is its address.
	Name string
	Want netip.Addr
	// Clients ask side by side, Rate times in a second all together.
	Clients, Rate int
	// Ports that connections of TCP come from; nil: any. Those of UDP come from any.
	Ports *Ports
}

// Answers are the outcomes of queries.
type Answers struct {
	Queries, Answered int
	// Attempts without a good response; the query was repeated.
	Attempts []Event
	// Failed are queries without a response from any attempt, and those with a wrong one.
	Failed    []Event
	Latencies []time.Duration
	Took      time.Duration
}

// Resolving asks until it is stopped: every query from a port of its own, as resolvers do.
type Resolving struct {
	plan    DNSPlan
	stop    context.CancelFunc
	clients sync.WaitGroup
	begun   time.Time

	lock  sync.Mutex
	found Answers
}

// Resolve begins.
func Resolve(plan DNSPlan) *Resolving {
	ctx, stop := context.WithCancel(context.Background())
	r := &Resolving{plan: plan, stop: stop, begun: time.Now()}
	pause := time.Second * time.Duration(plan.Clients) / time.Duration(plan.Rate)
	for range plan.Clients {
		r.clients.Go(func() {
			for ticker := time.NewTicker(pause); ; {
				select {
				case <-ctx.Done():
					ticker.Stop()
					return
				case <-ticker.C:
					r.query()
				}
			}
		})
	}
	return r
}

// Queries that have an outcome.
func (r *Resolving) Queries() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.found.Queries
}

// Stop waits until every query has its outcome.
func (r *Resolving) Stop() Answers {
	r.stop()
	r.clients.Wait()
	r.lock.Lock()
	defer r.lock.Unlock()
	r.found.Took = time.Since(r.begun)
	slices.Sort(r.found.Latencies)
	return r.found
}

// query sends one question until it gets a response or the attempts are used up.
func (r *Resolving) query() {
	begin := time.Now()
	var lost []Event
	for attempt := 1; ; attempt++ {
		event := Ask(r.plan)
		if event.Class != OK {
			lost = append(lost, event)
		}
		if event.Class != OK && event.Class != Wrong && attempt < attempts {
			continue
		}
		r.lock.Lock()
		defer r.lock.Unlock()
		r.found.Queries++
		r.found.Attempts = append(r.found.Attempts, lost...)
		if event.Class == OK {
			r.found.Answered++
			r.found.Latencies = append(r.found.Latencies, time.Since(begin))
		} else {
			r.found.Failed = append(r.found.Failed, event)
		}
		return
	}
}

// Ask asks once.
func Ask(plan DNSPlan) Event {
	event := Event{Class: OK, Method: "QUERY", Begin: time.Now()}
	event.Opened = event.Begin
	answer, err := plan.exchange(&event)
	event.End = time.Now()
	var failed *failure
	switch {
	case errors.As(err, &failed):
		event.Class, event.Detail = failed.class, failed.cause.Error()
	case err != nil:
		event.Class, event.Detail = Wrong, err.Error()
	case answer != plan.Want:
		event.Class, event.Detail = Wrong, fmt.Sprintf("%s is %s, not %s", plan.Name, answer, plan.Want)
	}
	return event
}

func (p DNSPlan) exchange(event *Event) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := p.dial(ctx)
	if err != nil {
		return netip.Addr{}, connecting(err)
	}
	defer conn.Close()
	event.Connected, event.Local = time.Now(), conn.LocalAddr().String()
	_ = conn.SetDeadline(event.Begin.Add(patience))
	id := uint16(time.Now().UnixNano())
	question, err := p.question(id)
	if err != nil {
		return netip.Addr{}, err
	}
	if p.Network == "tcp" {
		question = append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)
	}
	if _, err := conn.Write(question); err != nil {
		return netip.Addr{}, writing(err)
	}
	answer, err := p.read(conn)
	if err != nil {
		return netip.Addr{}, err
	}
	return addressIn(answer, id)
}

func (p DNSPlan) dial(ctx context.Context) (net.Conn, error) {
	if p.Network == "udp" {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "udp", p.Address)
	}
	return p.Ports.dial(ctx, net.Dialer{}, p.Address)
}

func (p DNSPlan) question(id uint16) ([]byte, error) {
	name, err := dnsmessage.NewName(p.Name)
	if err != nil {
		return nil, fmt.Errorf("ask for %s: %w", p.Name, err)
	}
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	return message.Pack()
}

// read reads one response: a datagram, or a message with a length prefix from a connection.
func (p DNSPlan) read(conn net.Conn) ([]byte, error) {
	buffer := make([]byte, 65_535)
	if p.Network == "udp" {
		count, err := conn.Read(buffer)
		if err != nil {
			// A closed port, or silence: for a resolver both mean no response.
			return nil, fail(Lost, err)
		}
		return buffer[:count], nil
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, beforeHead(err)
	}
	answer := buffer[:binary.BigEndian.Uint16(length[:])]
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, withinAnswer(err)
	}
	return answer, nil
}

// addressIn returns the address in a response to the question with this number.
func addressIn(answer []byte, id uint16) (netip.Addr, error) {
	var message dnsmessage.Message
	if err := message.Unpack(answer); err != nil {
		return netip.Addr{}, fmt.Errorf("read the answer: %w", err)
	}
	if message.ID != id || message.RCode != dnsmessage.RCodeSuccess {
		return netip.Addr{}, fmt.Errorf("the answer is %s to question %d, which was %d", message.RCode, message.ID, id)
	}
	for _, record := range message.Answers {
		if address, ok := record.Body.(*dnsmessage.AResource); ok {
			return netip.AddrFrom4(address.A), nil
		}
	}
	return netip.Addr{}, errors.New("the answer has no address")
}
