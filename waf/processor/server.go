// Package processor speaks Envoy's `ext_proc` v3 and shows each request and response to a WAF.
//
// A stream is a transaction of Coraza:
//
//	request headers ─► phase 1 ─► request body ─► phase 2 ─► response headers ─► phase 3 ─► response body ─► phase 4 ─► phase 5
//
// Bodies are asked for with `mode_override` only where a rule can see them, and whole, so that nothing passes before its verdict. A stream
// that fails ends with a status, and the caller then refuses the exchange.
package processor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway.dev/waf/audit"
	"fairway.dev/waf/configuration"
	"fairway.dev/waf/metrics"
)

// Settings bound the server.
type Settings struct {
	// Default is the configuration of streams that name none.
	Default configuration.Configuration
	// Limits are the longest bodies, in bytes.
	Limits configuration.Limits
	// MaxTransactions is how many transactions there are at once.
	MaxTransactions int64
	// MaxBuffered is how many bytes the bodies of all transactions may have together.
	MaxBuffered int64
}

// Server serves streams.
type Server struct {
	extproc.UnimplementedExternalProcessorServer
	settings Settings
	cache    *configuration.Cache
	audit    *audit.Log // nil: no audit log
	metrics  *metrics.Metrics
	log      *slog.Logger
	buffered budget
}

// New makes a server. `log` may be nil for the audit log.
func New(settings Settings, cache *configuration.Cache, auditLog *audit.Log, m *metrics.Metrics, log *slog.Logger) *Server {
	s := &Server{settings: settings, cache: cache, audit: auditLog, metrics: m, log: log}
	s.buffered.limit = settings.MaxBuffered
	m.Buffered = s.buffered.used.Load
	return s
}

// MaxMessage is the longest message that a caller may send: a body and its envelope.
func (s Settings) MaxMessage() int {
	return int(max(s.Limits.RequestBody, s.Limits.ResponseBody, 1<<20)) + 1<<20
}

// Process is a stream.
func (s *Server) Process(stream extproc.ExternalProcessor_ProcessServer) (err error) {
	if s.metrics.InFlight.Add(1) > s.settings.MaxTransactions {
		s.metrics.InFlight.Add(-1)
		s.metrics.Rejected.Add(1)
		return status.Error(codes.ResourceExhausted, "as many transactions as --max-transactions allows are in flight")
	}
	defer s.metrics.InFlight.Add(-1)
	x := &exchange{server: s}
	defer func() {
		if cause := recover(); cause != nil {
			// The state of the transaction is unknown: it is neither reused nor returned.
			s.log.Error("a transaction panicked", "configuration", x.name, "transaction", x.id, "cause", fmt.Sprint(cause),
				"stack", string(debug.Stack()))
			x.abandon()
			err = status.Error(codes.Internal, "the transaction failed")
		}
	}()
	err = s.serve(stream, x)
	x.finish(err)
	return err
}

func (s *Server) serve(stream extproc.ExternalProcessor_ProcessServer, x *exchange) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			// The caller is done with the exchange, or gave it up.
			if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
				return nil
			}
			return err
		}
		reply, err := x.handle(stream.Context(), message)
		if err != nil {
			return err
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
		if x.next == nothing {
			return nil
		}
	}
}

// waf is the WAF that a stream asks for.
func (s *Server) waf(ctx context.Context, asked request) (*configuration.WAF, error) {
	key := s.settings.Default
	if asked.configuration != nil {
		key = *asked.configuration
	}
	waf, err := s.cache.WAF(ctx, key, asked.name)
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%s: invalid configuration: %v", asked.name, err)
	}
	return waf, nil
}

// budget is a number of bytes that transactions share.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(bytes int64) bool {
	if b.used.Add(bytes) > b.limit {
		b.used.Add(-bytes)
		return false
	}
	return true
}

func (b *budget) give(bytes int64) { b.used.Add(-bytes) }
