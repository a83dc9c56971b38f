package processor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modes "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway.dev/waf/audit"
	"fairway.dev/waf/configuration"
	"fairway.dev/waf/metrics"
)

// rules are enough for most tests; they compile at once.
const rules = `
SecRule ARGS:q "@streq denied" "id:1001,phase:1,deny,status:406,log,msg:'denied by query',tag:'test',severity:'CRITICAL'"
SecRule ARGS:q "@streq moved" "id:1002,phase:1,redirect:'https://example.com/blocked',log"
SecRule ARGS:q "@streq dropped" "id:1003,phase:1,drop,log"
SecRule ARGS_POST:field "@streq bad" "id:1004,phase:2,deny,status:403,log,msg:'bad field'"
SecRule RESPONSE_HEADERS:X-Leak "@rx ." "id:1005,phase:3,deny,status:502,log"
SecRule RESPONSE_BODY "@contains secret" "id:1006,phase:4,deny,status:500,log,msg:'leak'"
SecRule REQUEST_COOKIES:session "@rx ." "id:1007,phase:1,pass,log,msg:'cookie %{MATCHED_VAR}',logdata:'%{MATCHED_VAR}'"
`

// fixture is a server on a listener in memory.
type fixture struct {
	t       *testing.T
	client  extproc.ExternalProcessorClient
	metrics *metrics.Metrics
	logged  *syncBuffer
	audit   *audit.Log
	path    string
	stop    func()
}

type syncBuffer struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.Buffer.String()
}

func defaults() Settings {
	return Settings{
		Default: configuration.Configuration{Mode: configuration.On, Directives: rules},
		Limits:  configuration.Limits{RequestBody: 4096, ResponseBody: 4096}, MaxTransactions: 8, MaxBuffered: 1 << 20,
	}
}

func start(t *testing.T, settings Settings) *fixture {
	t.Helper()
	f := &fixture{t: t, metrics: metrics.New(), logged: &syncBuffer{}, path: filepath.Join(t.TempDir(), "audit.log")}
	log := slog.New(slog.NewTextHandler(f.logged, nil))
	var err error
	if f.audit, err = audit.Open(f.path, log); err != nil {
		t.Fatal(err)
	}
	cache := configuration.NewCache(4, settings.Limits, log, f.metrics)
	f.serve(settings, New(settings, cache, f.audit, f.metrics, log))
	return f
}

func (f *fixture) serve(settings Settings, server *Server) {
	listener := bufconn.Listen(1 << 20)
	grpcServer := grpc.NewServer(grpc.MaxRecvMsgSize(settings.MaxMessage()))
	extproc.RegisterExternalProcessorServer(grpcServer, server)
	go func() { _ = grpcServer.Serve(listener) }()
	connection, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		f.t.Fatal(err)
	}
	f.client = extproc.NewExternalProcessorClient(connection)
	f.stop = sync.OnceFunc(func() {
		_ = connection.Close()
		grpcServer.GracefulStop()
		if f.audit != nil {
			f.audit.Close()
		}
	})
	f.t.Cleanup(f.stop)
}

// entries are the lines of the audit log once every stream has ended.
func (f *fixture) entries() []audit.Entry {
	f.t.Helper()
	f.stop()
	file, err := os.Open(f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	var entries []audit.Entry
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var entry audit.Entry
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			f.t.Fatal(err)
		}
		entries = append(entries, entry)
	}
	return entries
}

// stream is one exchange.
type stream struct {
	t *testing.T
	extproc.ExternalProcessor_ProcessClient
}

func (f *fixture) open() stream {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	f.t.Cleanup(cancel)
	opened, err := f.client.Process(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	return stream{f.t, opened}
}

func (s stream) try(message *extproc.ProcessingRequest) (*extproc.ProcessingResponse, error) {
	_ = s.Send(message) // A stream that ended says why when it is read.
	return s.Recv()
}

func (s stream) ask(message *extproc.ProcessingRequest) *extproc.ProcessingResponse {
	s.t.Helper()
	reply, err := s.try(message)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply
}

// requireEnd tells that the server requireEnd the stream without an error.
func (s stream) requireEnd() {
	s.t.Helper()
	if reply, err := s.Recv(); !errors.Is(err, io.EOF) {
		s.t.Fatalf("the stream goes on: %v, %v", reply, err)
	}
}

func messageWithHeaders(method, path string, hasBody bool, more ...string) *extproc.ProcessingRequest {
	list := []*core.HeaderValue{
		{Key: ":method", RawValue: []byte(method)}, {Key: ":path", RawValue: []byte(path)},
		{Key: ":scheme", RawValue: []byte("https")}, {Key: ":authority", RawValue: []byte("shop.example")},
	}
	for i := 0; i < len(more); i += 2 {
		list = append(list, &core.HeaderValue{Key: more[i], RawValue: []byte(more[i+1])})
	}
	attributes, _ := structpb.NewStruct(map[string]any{
		"source.address": "192.0.2.7", "source.port": "4711", "destination.port": "443", "request.protocol": "HTTP/2",
		"request.id": "r-1",
	})
	return &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{
			Headers: &core.HeaderMap{Headers: list}, EndOfStream: !hasBody}},
		Attributes: map[string]*structpb.Struct{attributesNamespace: attributes},
	}
}

func form(body string) (*extproc.ProcessingRequest, *extproc.ProcessingRequest) {
	return messageWithHeaders("POST", "/form", true, "content-type", "application/x-www-form-urlencoded", "content-length", fmt.Sprint(len(body))),
		piece(body, true)
}

func piece(body string, last bool) *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{
		RequestBody: &extproc.HttpBody{Body: []byte(body), EndOfStream: last}}}
}

func response(code string, hasBody bool, more ...string) *extproc.ProcessingRequest {
	list := []*core.HeaderValue{{Key: ":status", RawValue: []byte(code)}}
	for i := 0; i < len(more); i += 2 {
		list = append(list, &core.HeaderValue{Key: more[i], RawValue: []byte(more[i+1])})
	}
	return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{
		Headers: &core.HeaderMap{Headers: list}, EndOfStream: !hasBody}}}
}

func responsePiece(body string) *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{
		ResponseBody: &extproc.HttpBody{Body: []byte(body), EndOfStream: true}}}
}

func withMetadata(message *extproc.ProcessingRequest, fields map[string]any) *extproc.ProcessingRequest {
	metadata, err := structpb.NewStruct(fields)
	if err != nil {
		panic(err)
	}
	message.MetadataContext = &core.Metadata{FilterMetadata: map[string]*structpb.Struct{metadataNamespace: metadata}}
	return message
}

func wantImmediate(t *testing.T, reply *extproc.ProcessingResponse, code int) *extproc.ImmediateResponse {
	t.Helper()
	immediate := reply.GetImmediateResponse()
	if immediate == nil || int(immediate.GetStatus().GetCode()) != code {
		t.Fatalf("want an immediate response with %d, have %v", code, reply)
	}
	return immediate
}

func wantModes(t *testing.T, reply *extproc.ProcessingResponse, request, response modes.ProcessingMode_BodySendMode) {
	t.Helper()
	if reply.GetImmediateResponse() != nil {
		t.Fatalf("interrupted: %v", reply)
	}
	if override := reply.GetModeOverride(); override.GetRequestBodyMode() != request || override.GetResponseBodyMode() != response {
		t.Fatalf("modes %v", override)
	}
}

func TestHarmlessExchangePassesAndLogsNothing(t *testing.T) {
	f := start(t, defaults())
	s := f.open()
	wantModes(t, s.ask(messageWithHeaders("GET", "/?q=fine", false)), modes.ProcessingMode_NONE, modes.ProcessingMode_NONE)
	reply := s.ask(response("200", true, "content-type", "image/png"))
	wantModes(t, reply, modes.ProcessingMode_NONE, modes.ProcessingMode_NONE)
	s.requireEnd()
	if entries := f.entries(); len(entries) != 0 {
		t.Fatalf("logged %v", entries)
	}
}

func TestInterruptionAnswersTheRequest(t *testing.T) {
	for _, test := range []struct {
		query, location string
		code            int
	}{{"denied", "", 406}, {"moved", "https://example.com/blocked", 302}, {"dropped", "", 403}} {
		t.Run(test.query, func(t *testing.T) {
			f := start(t, defaults())
			s := f.open()
			immediate := wantImmediate(t, s.ask(messageWithHeaders("GET", "/?q="+test.query, false)), test.code)
			s.requireEnd()
			location := ""
			for _, each := range immediate.GetHeaders().GetSetHeaders() {
				if each.GetHeader().GetKey() == "location" {
					location = string(each.GetHeader().GetRawValue())
				}
			}
			if location != test.location {
				t.Errorf("location %q", location)
			}
			if strings.Contains(string(immediate.GetBody()), "100") {
				t.Errorf("the client reads of a rule: %q", immediate.GetBody())
			}
			entries := f.entries()
			if len(entries) != 1 || !entries[0].Interrupted || entries[0].Status != test.code {
				t.Fatalf("logged %+v", entries)
			}
		})
	}
}

func TestAuditLineSaysWhoDidWhatAndWhichRuleMatched(t *testing.T) {
	f := start(t, defaults())
	s := f.open()
	s.ask(messageWithHeaders("GET", "/path?q=denied", false))
	entry := f.entries()[0]
	if entry.ID != "r-1" || entry.Client != "192.0.2.7" || entry.Host != "shop.example" || entry.Method != "GET" || entry.Path != "/path" ||
		entry.Protocol != "HTTP/2" || entry.Mode != "On" || entry.Severity != "critical" || entry.Configuration != "default" {
		t.Errorf("%+v", entry)
	}
	if len(entry.Rules) != 1 || entry.Rules[0].ID != 1001 || entry.Rules[0].Message != "denied by query" ||
		entry.Rules[0].Tags[0] != "test" || entry.Rules[0].Matches[0] != (audit.Match{Variable: "ARGS:q", Value: "denied"}) {
		t.Errorf("%+v", entry.Rules)
	}
	if *entry.Interruption != (audit.Decision{Rule: 1001, Action: "deny", Status: 406, Phase: phaseRequestHeaders}) {
		t.Errorf("%+v", entry.Interruption)
	}
}

func TestCookiesAndBodiesAreNotInTheAuditLog(t *testing.T) {
	f := start(t, defaults())
	s := f.open()
	s.ask(messageWithHeaders("GET", "/", false, "cookie", "session=hunter2"))
	s.ask(response("200", true, "content-type", "text/plain"))
	wantImmediate(t, s.ask(responsePiece("a secret is here")), 500)
	f.entries()
	content, _ := os.ReadFile(f.path)
	for _, private := range []string{"hunter2", "a secret is"} {
		if strings.Contains(string(content), private) {
			t.Errorf("%q is in %s", private, content)
		}
	}
	if !strings.Contains(string(content), "cookie [redacted]") {
		t.Errorf("%s", content)
	}
}

func TestBodyIsAskedForWholeAndExamined(t *testing.T) {
	f := start(t, defaults())
	s := f.open()
	head, body := form("field=bad")
	wantModes(t, s.ask(head), modes.ProcessingMode_BUFFERED, modes.ProcessingMode_NONE)
	wantImmediate(t, s.ask(body), 403)
	s.requireEnd()
	if entry := f.entries()[0]; entry.Interruption.Phase != phaseRequestBody || entry.Rules[0].ID != 1004 {
		t.Errorf("%+v", entry)
	}
}

func TestBodyWithoutALengthIsChunkedInHTTP1(t *testing.T) {
	settings := defaults()
	settings.Default.Directives = `SecRule REQUEST_HEADERS:Transfer-Encoding "@streq chunked" "id:7,phase:1,deny,status:411"`
	for _, test := range []struct {
		protocol string
		hasBody  bool
		more     []string
		refused  bool
	}{
		{"HTTP/1.1", true, nil, true},
		{"HTTP/1.1", false, nil, false},
		{"HTTP/1.1", true, []string{"content-length", "3"}, false},
		{"HTTP/2", true, nil, false},
	} {
		s := start(t, settings).open()
		head := messageWithHeaders("POST", "/", test.hasBody, test.more...)
		head.Attributes[attributesNamespace].Fields["request.protocol"] = structpb.NewStringValue(test.protocol)
		if refused := s.ask(head).GetImmediateResponse() != nil; refused != test.refused {
			t.Errorf("%+v: refused %v", test, refused)
		}
	}
}

func TestBodyIsNotAskedForWithoutAccess(t *testing.T) {
	settings := defaults()
	settings.Default.Directives += "SecRequestBodyAccess Off\nSecResponseBodyAccess Off\n"
	s := start(t, settings).open()
	head, _ := form("field=bad")
	wantModes(t, s.ask(head), modes.ProcessingMode_NONE, modes.ProcessingMode_NONE)
	wantModes(t, s.ask(response("200", true, "content-type", "text/plain")), modes.ProcessingMode_NONE, modes.ProcessingMode_NONE)
	s.requireEnd()
}

func TestResponseIsExamined(t *testing.T) {
	s := start(t, defaults()).open()
	s.ask(messageWithHeaders("GET", "/", false))
	wantImmediate(t, s.ask(response("200", false, "x-leak", "yes")), 502)
	s = start(t, defaults()).open()
	s.ask(messageWithHeaders("GET", "/", false))
	wantModes(t, s.ask(response("200", true, "content-type", "text/plain")), modes.ProcessingMode_NONE, modes.ProcessingMode_BUFFERED_PARTIAL)
	wantImmediate(t, s.ask(responsePiece("a secret")), 500)
	s.requireEnd()
}

func TestDetectionOnlyInterruptsNothing(t *testing.T) {
	f := start(t, defaults())
	s := f.open()
	head, body := form("field=bad")
	head.GetRequestHeaders().GetHeaders().GetHeaders()[1].RawValue = []byte("/?q=denied")
	wantModes(t, s.ask(withMetadata(head, map[string]any{"mode": "DetectionOnly", "directives": rules, "name": "Ingress shop/web"})),
		modes.ProcessingMode_BUFFERED_PARTIAL, modes.ProcessingMode_NONE)
	if reply := s.ask(body); reply.GetRequestBody() == nil {
		t.Fatalf("%v", reply)
	}
	s.ask(response("200", true, "content-type", "text/plain", "x-leak", "yes"))
	if reply := s.ask(responsePiece("a secret")); reply.GetResponseBody() == nil {
		t.Fatalf("%v", reply)
	}
	s.requireEnd()
	entry := f.entries()[0]
	if entry.Interrupted || entry.Status != 200 || entry.Configuration != "Ingress shop/web" || entry.Mode != "DetectionOnly" ||
		fmt.Sprint(entry.RuleIDs) != "[1001 1004 1005 1006]" || entry.Interruption.Rule != 1001 {
		t.Errorf("%+v", entry)
	}
}

func TestCoreRuleSetRefusesAnAttack(t *testing.T) {
	settings := defaults()
	settings.Default = configuration.Configuration{Mode: configuration.On, CoreRuleSet: true}
	f := start(t, settings)
	s := f.open()
	wantImmediate(t, s.ask(messageWithHeaders("GET", "/?q=%3Cscript%3Ealert(1)%3C/script%3E", false, "user-agent", "test", "accept", "*/*")), 403)
	if entry := f.entries()[0]; entry.Interruption.Rule != 949110 || entry.Rules[0].ID != 941100 {
		t.Errorf("%+v", entry)
	}
}

func TestInvalidConfigurationFailsItsStreamsAndIsLoggedOnce(t *testing.T) {
	f := start(t, defaults())
	for range 3 {
		_, err := f.open().try(withMetadata(messageWithHeaders("GET", "/", false), map[string]any{
			"mode": "On", "directives": `SecRule ARGS "@rx (" "id:1,deny"`, "name": "Ingress shop/broken"}))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "Ingress shop/broken") {
			t.Fatalf("%v", err)
		}
	}
	f.stop()
	if count := strings.Count(f.logged.String(), "Ingress shop/broken"); count != 1 {
		t.Errorf("logged %d times:\n%s", count, f.logged)
	}
}

func TestMetadataThatIsNotKnownIsRefused(t *testing.T) {
	f := start(t, defaults())
	for _, fields := range []map[string]any{
		{"mode": "On", "paranoia": 4}, {"mode": true}, {"mode": "Strict"}, {"core_rule_set": "true"}, {"directives": 1},
	} {
		if _, err := f.open().try(withMetadata(messageWithHeaders("GET", "/", false), fields)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", fields, err)
		}
	}
}

func TestBodyLimits(t *testing.T) {
	long := "field=good&more=" + strings.Repeat("x", 200) + "&field=bad"
	for _, test := range []struct {
		action string
		code   int
		mode   modes.ProcessingMode_BodySendMode
	}{{"Reject", 413, modes.ProcessingMode_BUFFERED}, {"ProcessPartial", 0, modes.ProcessingMode_BUFFERED_PARTIAL}} {
		settings := defaults()
		settings.Default.Directives += "SecRequestBodyLimit 100\nSecRequestBodyLimitAction " + test.action + "\n"
		s := start(t, settings).open()
		head, body := form(long)
		wantModes(t, s.ask(head), test.mode, modes.ProcessingMode_NONE)
		reply := s.ask(body)
		if test.code != 0 {
			wantImmediate(t, reply, test.code)
		} else if reply.GetRequestBody() == nil {
			t.Errorf("%s: %v", test.action, reply)
		}
	}
}

func TestPiecesAreRefusedWhereSomethingIsBlocked(t *testing.T) {
	s := start(t, defaults()).open()
	head, _ := form("field=bad")
	s.ask(head)
	if reply := s.ask(piece("fie", false)); reply.GetRequestBody() == nil {
		t.Fatalf("%v", reply)
	}
	if _, err := s.try(piece("ld=bad", true)); status.Code(err) != codes.FailedPrecondition {
		t.Fatalf("%v", err)
	}
}

func TestPiecesAreExaminedTogetherWhereNothingIsBlocked(t *testing.T) {
	settings := defaults()
	settings.Default.Mode = configuration.DetectionOnly
	f := start(t, settings)
	s := f.open()
	head, _ := form("field=bad")
	s.ask(head)
	s.ask(piece("fie", false))
	s.ask(piece("ld=bad", true))
	s.ask(response("200", false))
	s.requireEnd()
	if entries := f.entries(); len(entries) != 1 || entries[0].RuleIDs[0] != 1004 {
		t.Errorf("%+v", entries)
	}
}

func TestTrailersEndABody(t *testing.T) {
	settings := defaults()
	settings.Default.Mode = configuration.DetectionOnly
	f := start(t, settings)
	s := f.open()
	head, _ := form("field=bad")
	s.ask(head)
	s.ask(piece("field=bad", false))
	reply := s.ask(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestTrailers{RequestTrailers: &extproc.HttpTrailers{}}})
	if reply.GetRequestTrailers() == nil {
		t.Fatalf("%v", reply)
	}
	_ = s.CloseSend()
	if _, err := s.Recv(); err == nil {
		t.Fatal("the stream goes on")
	}
	if entries := f.entries(); len(entries) != 1 || entries[0].RuleIDs[0] != 1004 || entries[0].Status != 0 {
		t.Errorf("%+v", entries)
	}
}

func TestMessagesOutOfOrderFailTheStream(t *testing.T) {
	f := start(t, defaults())
	if _, err := f.open().try(piece("x", true)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("body first: %v", err)
	}
	s := f.open()
	s.ask(messageWithHeaders("GET", "/", false))
	if _, err := s.try(messageWithHeaders("GET", "/", false)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("headers twice: %v", err)
	}
}

func TestLimitsRefuseStreams(t *testing.T) {
	settings := defaults()
	settings.MaxTransactions, settings.MaxBuffered = 1, 4
	f := start(t, settings)
	first := f.open()
	head, body := form("field=bad")
	first.ask(head)
	if _, err := f.open().try(messageWithHeaders("GET", "/", false)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("transactions: %v", err)
	}
	if _, err := first.try(body); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("bodies: %v", err)
	}
	f.stop()
	if f.metrics.InFlight.Load() != 0 || f.metrics.Buffered() != 0 {
		t.Errorf("%d in flight, %d bytes", f.metrics.InFlight.Load(), f.metrics.Buffered())
	}
}

func TestPanicFailsItsStreamOnly(t *testing.T) {
	f := &fixture{t: t, metrics: metrics.New(), logged: &syncBuffer{}}
	// Without a cache, every transaction panics.
	f.serve(defaults(), New(defaults(), nil, nil, f.metrics, slog.New(slog.NewTextHandler(f.logged, nil))))
	for range 2 {
		if _, err := f.open().try(messageWithHeaders("GET", "/", false)); status.Code(err) != codes.Internal {
			t.Fatalf("%v", err)
		}
	}
	f.stop()
	if !strings.Contains(f.logged.String(), "panicked") || f.metrics.InFlight.Load() != 0 {
		t.Errorf("%d in flight; %s", f.metrics.InFlight.Load(), f.logged)
	}
}

func TestEngineThatIsOffSeesNothing(t *testing.T) {
	f := start(t, defaults())
	s := f.open()
	reply := s.ask(withMetadata(messageWithHeaders("GET", "/?q=denied", false), map[string]any{"mode": "Off", "directives": rules}))
	if reply.GetModeOverride().GetResponseHeaderMode() != modes.ProcessingMode_SKIP {
		t.Errorf("%v", reply)
	}
	s.requireEnd()
}

func TestStatusOfAnInterruptionIsOneThatHTTPHas(t *testing.T) {
	s := start(t, defaults()).open()
	const odd = `SecRule ARGS:q "@streq x" "id:1,phase:1,deny,status:299"`
	wantImmediate(t, s.ask(withMetadata(messageWithHeaders("GET", "/?q=x", false), map[string]any{"mode": "On", "directives": odd})), http.StatusForbidden)
}
