// Package traffic owns the requests of a run, their contents, and the clients that send them.
package traffic

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"fairway.dev/conformance/otel/backend"
	"fairway.dev/conformance/otel/fairway"
)

// Entry is how a request reaches Fairway.
type Entry int

// The entries.
const (
	// HTTP1 is HTTP/1.1 without TLS.
	HTTP1 Entry = iota
	// H2C is HTTP/2 without TLS, with prior knowledge.
	H2C
	// H2TLS is HTTP/2 over TLS.
	H2TLS
	// GRPC is a call of grpc-go without TLS.
	GRPC
	// GatewayHTTP1 is HTTP/1.1 to the Gateway.
	GatewayHTTP1
	// GatewayH2C is HTTP/2 to the Gateway.
	GatewayH2C
)

// Kind is a kind of request, with how many of 10,000 are of it.
type Kind struct {
	Name  string
	Share int
	Entry Entry
	// Host is that of the request with this number.
	Host func(number int) string
	// Method is GET where it is empty.
	Method string
	// Query is the query for the endpoint.
	Query string
	// RPC is the status that a call asks for.
	RPC int
	// Patience is how long the client waits before it gives the request up; 0 is for as long as it takes.
	Patience time.Duration
	// Attempts is how many attempts reach an endpoint.
	Attempts int
	// IsGuarded is set if another service decides about the request first.
	IsGuarded bool
	// IsHedged means that a connect may be late.
	IsHedged bool
}

func host(name string) func(int) string { return func(int) string { return name } }

// Kinds are all kinds. `holes` is how many hosts with a black hole there are.
func Kinds(holes int) []Kind {
	hedged := func(number int) string { return fairway.HedgeHost(number % holes) }
	return []Kind{
		{Name: "HTTP/1.1", Share: 2600, Entry: HTTP1, Host: host(fairway.PlainHost), Attempts: 1},
		{Name: "HTTP/1.1, POST", Share: 400, Entry: HTTP1, Host: host(fairway.PlainHost), Method: http.MethodPost, Attempts: 1},
		{Name: "HTTP/2, cleartext", Share: 1500, Entry: H2C, Host: host(fairway.PlainHost), Attempts: 1},
		{Name: "HTTP/2, TLS", Share: 1000, Entry: H2TLS, Host: host(fairway.PlainHost), Attempts: 1},
		{Name: "HTTP/2 on both sides", Share: 700, Entry: H2TLS, Host: host(fairway.H2CHost), Attempts: 1},
		{Name: "gRPC", Share: 1300, Entry: GRPC, Host: host(fairway.GRPCHost), Attempts: 1},
		{Name: "gRPC, NOT_FOUND", Share: 100, Entry: GRPC, Host: host(fairway.GRPCHost), RPC: 5, Attempts: 1},
		{Name: "gRPC, UNAVAILABLE", Share: 100, Entry: GRPC, Host: host(fairway.GRPCHost), RPC: 14, Attempts: 1},
		{Name: "retry after a reset", Share: 450, Entry: GatewayHTTP1, Host: host(fairway.RetryHost), Query: backend.ResetFirst + "=1", Attempts: 2},
		{Name: "retry after two 503", Share: 350, Entry: GatewayH2C, Host: host(fairway.RetryHost), Query: backend.FailFirst + "=2", Attempts: 3},
		{Name: "retries that end", Share: 100, Entry: GatewayHTTP1, Host: host(fairway.RetryHost), Query: backend.FailFirst + "=9", Attempts: 3},
		{Name: "hedged connect", Share: 400, Entry: GatewayHTTP1, Host: hedged, Query: backend.Close + "=1", Attempts: 1, IsHedged: true},
		{Name: "refused connect", Share: 200, Entry: HTTP1, Host: host(fairway.RefusedHost), Attempts: 1},
		{Name: "authentication service", Share: 300, Entry: HTTP1, Host: host(fairway.GuardedHost), Attempts: 1, IsGuarded: true},
		{Name: "404 of the endpoint", Share: 100, Entry: HTTP1, Host: host(fairway.PlainHost), Query: backend.Status + "=404", Attempts: 1},
		{Name: "500 of the endpoint", Share: 100, Entry: H2C, Host: host(fairway.PlainHost), Query: backend.Status + "=500", Attempts: 1},
		{Name: "client that leaves", Share: 50, Entry: HTTP1, Host: host(fairway.PlainHost), Query: backend.Delay + "=10s",
			Patience: 100 * time.Millisecond, Attempts: 1},
		{Name: "no endpoint listens", Share: 100, Entry: HTTP1, Host: host(fairway.DeadHost)},
		{Name: "redirect", Share: 75, Entry: HTTP1, Host: host(fairway.RedirectHost)},
		{Name: "no route", Share: 75, Entry: HTTP1, Host: host(fairway.UnknownHost)},
	}
}

// Case is a request, and the meaning of its headers.
type Case struct {
	// Path is different for each request of the program.
	Path string
	Kind *Kind
	Host string
	// Context is the name of its trace context.
	Context string
	Carried Carried
}

// Settings are those of a run that decide what headers mean.
type Settings struct {
	// Ratio is --trace-sample-ratio.
	Ratio float64 `json:"ratio"`
	// IsParentBased is --trace-parent-based.
	IsParentBased bool `json:"parent_based"`
	// TrustsIncoming is --trace-trust-incoming.
	TrustsIncoming bool `json:"trust_incoming"`
	// HasB3 is --trace-propagation w3c-b3.
	HasB3 bool `json:"b3"`
}

// Rule is what decides whether a request is sampled.
type Rule int

// The rules.
const (
	// ByParent is the client's decision.
	ByParent Rule = iota
	// ByTrace is the ratio, applied to the client's trace id.
	ByTrace
	// ByChance is the ratio, applied to a random trace id.
	ByChance
)

// Parent is the context that Fairway continues; nil where it begins a trace.
func (settings Settings) Parent(carried Carried) *Parent {
	parent := carried.W3C
	if parent == nil && settings.HasB3 && carried.Header.Get("Traceparent") == "" {
		parent = carried.B3
	}
	if !settings.TrustsIncoming || parent == nil || parent.Trace == "" {
		return nil
	}
	return parent
}

// Rule is what decides about the request.
func (settings Settings) Rule(carried Carried) (Rule, Decision) {
	parent := settings.Parent(carried)
	if parent == nil && carried.B3 != nil && carried.B3.Trace == "" && settings.HasB3 && settings.TrustsIncoming && settings.IsParentBased {
		return ByParent, carried.B3.Decision
	}
	switch {
	case parent == nil:
		return ByChance, Undecided
	case settings.IsParentBased && parent.Decision != Undecided:
		return ByParent, parent.Decision
	default:
		return ByTrace, settings.decide(parent.Trace)
	}
}

// decide is what the ratio says of a trace: it compares the lowest 32 bits of the id.
func (settings Settings) decide(trace string) Decision {
	lowest, err := strconv.ParseUint(trace[len(trace)-8:], 16, 32)
	if err == nil && float64(lowest) < settings.Ratio*(1<<32) {
		return Sampled
	}
	return Unsampled
}

// Agrees says whether a decision about a trace that began at Fairway is the one that the ratio gives for its id.
func (settings Settings) Agrees(trace string, isSampled bool) bool {
	return (settings.decide(trace) == Sampled) == isSampled
}

// Cases makes requests in a random order: of each kind its share, and at least one. `run` keeps the paths of runs apart.
func Cases(run string, count int, kinds []Kind, random *rand.Rand) []*Case {
	contexts := Contexts()
	var cards []*Context
	for index := range contexts {
		for range contexts[index].Weight {
			cards = append(cards, &contexts[index])
		}
	}
	var whole int
	for _, kind := range kinds {
		whole += kind.Share
	}
	var cases []*Case
	for index := range kinds {
		kind := &kinds[index]
		for range max(1, kind.Share*count/whole) {
			cases = append(cases, makeCase(run, len(cases), kind, cards, random))
		}
	}
	for len(cases) < count {
		cases = append(cases, makeCase(run, len(cases), &kinds[0], cards, random))
	}
	random.Shuffle(len(cases), func(one, other int) { cases[one], cases[other] = cases[other], cases[one] })
	return cases
}

func makeCase(run string, number int, kind *Kind, cards []*Context, random *rand.Rand) *Case {
	for {
		context := cards[random.IntN(len(cards))]
		carried := context.Make(random)
		if carried.IsOnlyHTTP && kind.Entry == GRPC {
			continue
		}
		path := fmt.Sprintf("/%s/%d", run, number)
		if kind.Entry == GRPC {
			path = fmt.Sprintf("/fairway.%s/Case%d", run, number)
		}
		return &Case{Path: path, Kind: kind, Host: kind.Host(number), Context: context.Name, Carried: carried}
	}
}
