package load

import (
	"context"
	"time"
)

// Probe asks one server again and again over one connection, to see when a change arrives. It is not for counting.
type Probe struct {
	plan Plan
	conn *connection
}

// Sight is what one question of a probe found.
type Sight struct {
	Class  Class
	Reason string
	// The pod that responded, when Class is OK.
	Pod string
	// Serial of the server's certificate, over TLS.
	Serial string
	At     time.Time
}

// NewProbe asks as a client of the plan would.
func NewProbe(plan Plan) *Probe { return &Probe{plan: plan.withDefaults()} }

// Ask sends a GET, on a new connection if the plan says so or the last one has ended.
func (p *Probe) Ask(ctx context.Context) Sight {
	sight := p.ask(ctx)
	sight.At = time.Now()
	if sight.Class != OK || p.plan.Reuse == NewConnection {
		p.Close()
	}
	return sight
}

func (p *Probe) ask(ctx context.Context) Sight {
	if p.conn == nil || p.conn.closedWhileIdle() {
		p.Close()
		conn, failed := p.plan.open(ctx)
		if failed != nil {
			return Sight{Class: failed.class, Reason: failed.cause.Error()}
		}
		p.conn = conn
	}
	const id = "probe"
	serial := p.conn.serial
	got, failed := p.conn.exchange(p.plan.request("GET", id), "GET", p.plan.AnswerTimeout)
	if failed != nil {
		return Sight{Class: failed.class, Reason: failed.cause.Error(), Serial: serial}
	}
	pod, failed := got.check("GET", id)
	if got.last {
		p.Close()
	}
	if failed != nil {
		return Sight{Class: failed.class, Reason: failed.reason, Serial: serial}
	}
	return Sight{Class: OK, Pod: pod, Serial: serial}
}

// Close closes the probe's connection.
func (p *Probe) Close() {
	p.conn.close()
	p.conn = nil
}
