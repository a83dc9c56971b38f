// Command fairway-waf examines requests and responses with Coraza and the OWASP Core Rule Set. Fairway, or Envoy, asks it by `ext_proc`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"fairway.dev/waf/audit"
	"fairway.dev/waf/configuration"
	"fairway.dev/waf/metrics"
	"fairway.dev/waf/processor"
)

// version is set by the linker.
var version = "devel"

// maxConfigurations bounds the compiled configurations in memory.
const maxConfigurations = 256

type options struct {
	listen, admin, auditLog string
	mode, directives        string
	coreRuleSet             bool
	maxRequestBody          int64
	maxResponseBody         int64
	maxBuffered             int64
	maxTransactions         int64
	drainTimeout            time.Duration
	logFormat               string
	version                 bool
}

func parse(arguments []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("fairway-waf", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:9002", "where ext_proc is served: an address, or unix:PATH")
	flags.StringVar(&o.admin, "admin", "127.0.0.1:9003", "where /healthz, /readyz and /metrics are served; empty for nowhere")
	flags.StringVar(&o.auditLog, "audit-log", "-", "the file that gets a line of JSON per transaction that matched, - for the standard output, empty for none")
	flags.StringVar(&o.mode, "mode", string(configuration.DetectionOnly), "On, DetectionOnly or Off, for streams that name no configuration")
	flags.BoolVar(&o.coreRuleSet, "core-rule-set", true, "whether these streams are examined with the Core Rule Set")
	flags.StringVar(&o.directives, "directives", "", "a file with directives for these streams")
	flags.Int64Var(&o.maxRequestBody, "max-request-body", 13107200, "how much of a request body a configuration may examine, in bytes")
	flags.Int64Var(&o.maxResponseBody, "max-response-body", 1048576, "how much of a response body a configuration may examine, in bytes")
	flags.Int64Var(&o.maxBuffered, "max-buffered-bytes", 268435456, "how many bytes the bodies of all transactions may have together")
	flags.Int64Var(&o.maxTransactions, "max-transactions", 2048, "how many transactions there may be at once; further ones are refused")
	flags.DurationVar(&o.drainTimeout, "drain-timeout", 30*time.Second, "how long transactions may take to end after SIGTERM")
	flags.StringVar(&o.logFormat, "log-format", "text", "text or json; the log goes to the standard error")
	flags.BoolVar(&o.version, "version", false, "print the version and those of Coraza and the Core Rule Set")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.maxRequestBody <= 0 || o.maxResponseBody <= 0 || o.maxTransactions <= 0 || o.maxBuffered <= 0:
		return nil, errors.New("--max-request-body, --max-response-body, --max-buffered-bytes and --max-transactions must be positive")
	case max(o.maxRequestBody, o.maxResponseBody) > 1<<30:
		return nil, errors.New("--max-request-body and --max-response-body can be at most 1 GiB")
	case o.maxBuffered < max(o.maxRequestBody, o.maxResponseBody):
		return nil, errors.New("--max-buffered-bytes must hold at least one body of --max-request-body and --max-response-body")
	case o.logFormat != "text" && o.logFormat != "json":
		return nil, fmt.Errorf("--log-format %q is neither text nor json", o.logFormat)
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fairway-waf:", err)
		os.Exit(2)
	}
	if o.version {
		fmt.Println(versions())
		return
	}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, nil)
	if o.logFormat == "json" {
		handler = slog.NewJSONHandler(os.Stderr, nil)
	}
	log := slog.New(handler)
	if err := run(o, log); err != nil {
		log.Error("fairway-waf ends", "error", err)
		os.Exit(1)
	}
}

func versions() string {
	line := "fairway-waf " + version
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "github.com/corazawaf/coraza/v3":
				line += ", Coraza " + module.Version
			case "github.com/corazawaf/coraza-coreruleset/v4":
				line += ", Core Rule Set " + module.Version
			}
		}
	}
	return line
}

func (o *options) configuration() (configuration.Configuration, error) {
	mode, err := configuration.ParseMode(o.mode)
	if err != nil {
		return configuration.Configuration{}, fmt.Errorf("--mode: %w", err)
	}
	c := configuration.Configuration{Mode: mode, CoreRuleSet: o.coreRuleSet}
	if o.directives != "" {
		content, err := os.ReadFile(o.directives)
		if err != nil {
			return c, fmt.Errorf("--directives: %w", err)
		}
		c.Directives = string(content)
	}
	return c, nil
}

func run(o *options, log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	fallback, err := o.configuration()
	if err != nil {
		return err
	}
	settings := processor.Settings{
		Default: fallback, MaxTransactions: o.maxTransactions, MaxBuffered: o.maxBuffered,
		Limits: configuration.Limits{RequestBody: o.maxRequestBody, ResponseBody: o.maxResponseBody},
	}
	counts := metrics.New()
	cache := configuration.NewCache(maxConfigurations, settings.Limits, log, counts)
	counts.Cached = func() int64 { return int64(cache.Len()) }
	var auditLog *audit.Log
	if o.auditLog != "" {
		if auditLog, err = audit.Open(o.auditLog, log); err != nil {
			return fmt.Errorf("--audit-log: %w", err)
		}
		defer auditLog.Close()
		counts.AuditWritten, counts.AuditDropped = auditLog.Written, auditLog.Dropped
		reopenOnHangup(ctx, auditLog, log)
	}
	// Health is served while the configuration compiles, so that a slow machine is not taken for a hung program.
	state := &state{}
	if o.admin != "" {
		if err := serveAdmin(o.admin, state, counts); err != nil {
			return fmt.Errorf("--admin: %w", err)
		}
	}
	if _, err := cache.WAF(ctx, fallback, "default"); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("the default configuration (--mode, --core-rule-set, --directives) is invalid: %w", err)
	}
	listener, err := listen(o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := grpcServer(settings)
	extproc.RegisterExternalProcessorServer(server, processor.New(settings, cache, auditLog, counts, log))
	checks := health.NewServer()
	healthpb.RegisterHealthServer(server, checks)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	state.ready.Store(true)
	log.Info("serving", "listen", o.listen, "admin", o.admin, "version", versions())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop() // A second signal ends the program at once.
	state.ready.Store(false)
	checks.Shutdown()
	drain(server, o.drainTimeout, log)
	return nil
}

func grpcServer(settings processor.Settings) *grpc.Server {
	return grpc.NewServer(
		grpc.MaxRecvMsgSize(settings.MaxMessage()),
		grpc.MaxConcurrentStreams(uint32(min(settings.MaxTransactions, 1<<20))),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
	)
}

// drain lets transactions end for a while, and then cuts them.
func drain(server *grpc.Server, timeout time.Duration, log *slog.Logger) {
	log.Info("draining", "timeout", timeout)
	done := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(timeout):
		log.Warn("some transactions did not end in time; they are cut")
		server.Stop()
		<-done
	}
}

func listen(address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		return net.Listen("tcp", address)
	}
	// A socket that an earlier run left is in the way; anything else at the path is not this program's.
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return listener, os.Chmod(path, 0o660)
}

func reopenOnHangup(ctx context.Context, auditLog *audit.Log, log *slog.Logger) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				if err := auditLog.Reopen(); err != nil {
					log.Error("the audit log could not be opened again", "error", err)
				}
			}
		}
	}()
}

func serveAdmin(address string, state *state, counts *metrics.Metrics) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: adminHandler(state, counts), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return nil
}
