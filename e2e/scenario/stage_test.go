package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairway/e2e/cluster"
	"fairway/e2e/ledger"
	"fairway/e2e/load"
	"fairway/e2e/report"
	"fairway/e2e/verdict"
)

// stage is one scenario: a namespace, what runs there, the streams, and the times in which something was being killed.
type stage struct {
	*testing.T
	name      string
	namespace string
	host      string
	// rate is in requests per second, over all streams, and requests how many there are at least.
	rate     int
	requests int
	streams  []*load.Stream
	figures  []report.Figure
	// dying: pods are on their way out; kills: processes are being killed; absent: a killed Fairway is not yet back.
	dying, kills, absent verdict.Windows
}

// newParallelStage starts a scenario that runs in parallel with others.
func newParallelStage(t *testing.T, name string) *stage {
	t.Helper()
	t.Parallel()
	s := newStage(t, name)
	s.rate = how.beside
	return s
}

// newStage begins a scenario that has the machine for itself. Its namespace goes when the test ends.
func newStage(t *testing.T, name string) *stage {
	t.Helper()
	s := &stage{T: t, name: name, namespace: "e2e-" + name, host: name + ".example", rate: how.alone, requests: how.requests}
	s.must(kube.Namespace(t.Context(), s.namespace))
	t.Cleanup(func() {
		for _, stream := range s.streams {
			stream.Stop()
		}
		if t.Failed() {
			s.printState()
		}
		if err := kube.DeleteNamespace(context.Background(), s.namespace); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// backends deploys pods behind a Service `backend` and a route of the scenario's host, and waits until every replica of
// Fairway serves it.
func (s *stage) backends(replicas int32) {
	s.Helper()
	s.must(kube.Deploy(s.Context(), s.workload("backend", replicas)))
	s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: "backend", Host: s.host, Service: "backend"}))
	s.awaitServed(load.Plan{Host: s.host})
}

func (s *stage) workload(name string, replicas int32) cluster.Workload {
	return cluster.Workload{Namespace: s.namespace, Name: name, Image: testbed.Backend, Replicas: replicas, Ledger: posts.Address()}
}

// promptly bounds what Fairway does within a second even on a busy machine.
const promptly = 30 * time.Second

// awaitServed waits until every replica of Fairway returns 200; of the plan its host, path and TLS count.
func (s *stage) awaitServed(plan load.Plan) {
	s.Helper()
	s.awaitOnEveryReplica(plan, "is served", func(sight load.Sight) bool { return sight.Class == load.OK })
}

// awaitOnEveryReplica waits until every replica of Fairway gives the expected response.
func (s *stage) awaitOnEveryReplica(plan load.Plan, what string, right func(load.Sight) bool) {
	s.Helper()
	replicas, err := replicaAddresses(s.Context())
	s.must(err)
	for _, address := range replicas {
		direct := plan
		direct.Address, direct.Reuse = cluster.Join(address, port(plan, 8080, 8443)), load.NewConnection
		probe := load.NewProbe(direct)
		s.must(cluster.Eventually(s.Context(), promptly, fmt.Sprintf("%s%s %s by %s", plan.Host, plan.Path, what, address),
			func(ctx context.Context) (bool, string, error) {
				sight := probe.Ask(ctx)
				return right(sight), fmt.Sprintf("%+v", sight), nil
			}))
	}
}

func port(plan load.Plan, plain, secure int) int {
	if plan.TLS != nil {
		return secure
	}
	return plain
}

// Starts the streams of a scenario: one that keeps its connections and one with a new connection for each request. Fields of
// the plan that are set are kept.
func (s *stage) traffic(plan load.Plan) {
	keep, fresh := plan, plan
	if plan.Clients == 0 {
		plan.Clients = 20
	}
	keep.Reuse, keep.Clients, keep.Rate = load.KeepAlive, plan.Clients, s.rate*7/10
	fresh.Reuse, fresh.Clients, fresh.Rate = load.NewConnection, plan.Clients/2, s.rate*3/10
	s.stream(keep)
	s.stream(fresh)
}

// stream begins one stream, through the Service of Fairway unless the plan says where to.
func (s *stage) stream(plan load.Plan) {
	s.Helper()
	if plan.Address == "" {
		plan.Address = cluster.Join(addresses[0], port(plan, 80, 443))
	}
	if plan.Host == "" {
		plan.Host = s.host
	}
	if plan.PostEvery == 0 {
		plan.PostEvery = 5
	}
	if plan.Delay == 0 {
		// So that requests are in flight whenever a process dies.
		plan.Delay = 10 * time.Millisecond
	}
	plan.Ports = clientPorts
	plan.Name = fmt.Sprintf("%s.%d", s.name, len(s.streams))
	s.streams = append(s.streams, load.Start(plan))
}

// requestCount is the number of requests with an outcome, over all streams.
func (s *stage) requestCount() int {
	all := 0
	for _, stream := range s.streams {
		all += stream.Counts().Requests
	}
	return all
}

// more waits until as many more requests have an outcome.
func (s *stage) more(count int) {
	s.Helper()
	wanted := s.requestCount() + count
	what := fmt.Sprintf("%d requests of scenario %s are answered", wanted, s.name)
	s.must(cluster.Eventually(s.Context(), 10*time.Minute, what, func(context.Context) (bool, string, error) {
		got := s.requestCount()
		return got >= wanted, fmt.Sprint(got), nil
	}))
}

// lasting waits for the time of a protocol, or in its fast form until some requests have completed.
func (s *stage) lasting(protocol time.Duration) {
	s.Helper()
	if protocol == 0 {
		s.more(s.rate)
		return
	}
	select {
	case <-s.Context().Done():
	case <-time.After(protocol):
	}
}

// repeat goes through the cycle until all requests of the form were sent, at least once.
func (s *stage) repeat(cycle func()) {
	s.Helper()
	s.more(s.rate)
	for first := true; first || s.requestCount() < s.requests; first = false {
		cycle()
	}
	s.more(s.rate)
}

// finish stops the streams, applies the allowances to failures, and fails for the others.
func (s *stage) finish(allowances ...verdict.Allowance) {
	s.Helper()
	streams := s.streams
	s.streams = nil
	sent := 0
	for _, stream := range streams {
		seen := stream.Stop()
		sent += seen.Counts.Requests
		s.checkReport(seen, allowances)
	}
	if len(s.figures) > 0 {
		book.Add(report.Scenario{Name: s.name, Figures: s.figures})
	}
	if sent < s.requests {
		s.Errorf("%d requests were sent, not %d", sent, s.requests)
	}
}

// noticeable is the latency that a person notices.
const noticeable = 2 * time.Second

func (s *stage) checkReport(seen load.Report, allowances []verdict.Allowance) {
	s.Helper()
	found := verdict.Judge(seen, allowances...)
	noted := s.recorded(seen)
	line := s.line(seen)
	line.Failed, line.Apart, line.Doubled = found.Failures(), found.Apart, len(noted.Doubled)
	book.Add(line)
	if found.Failures() > 0 {
		s.Errorf("%s, %s: %d of %d requests failed: %v; the first:\n%s", s.name, seen.Plan.Reuse, found.Failures(),
			seen.Counts.Requests, seen.Counts.Failed, found.Examples(10))
	}
	if len(noted.Doubled) > 0 {
		s.Errorf("%s: %d POSTs were given to backends twice: %s", s.name, len(noted.Doubled), firstLines(noted.Doubled))
	}
	if len(noted.Unnoted) > 0 || len(noted.Bad) > 0 {
		s.Errorf("%s: the ledger is wrong: not noted: %s; unreadable: %s", s.name, firstLines(noted.Unnoted), firstLines(noted.Bad))
	}
	if len(seen.Slowest) > 0 && seen.Slowest[0].End.Sub(seen.Slowest[0].Begin) > noticeable {
		s.Logf("%s, %s: the slowest: %v", s.name, seen.Plan.Reuse, seen.Slowest[:min(3, len(seen.Slowest))])
	}
	if seen.Counts.Repeated > 0 {
		s.Logf("%s: %d GETs found their connection closed and were sent again; the first: %s", s.name, seen.Counts.Repeated, seen.Repeats[0])
	}
}

// arriving bounds how long a note may be on its way. Packets of a pod whose address was cut off are sent again after waits
// that double: the last of them ends at most as long after the cut as the cut lasted, which is under a minute.
const arriving = 2 * time.Minute

// recorded is what the ledger has of a stream, once every note has arrived.
func (s *stage) recorded(seen load.Report) ledger.Findings {
	var found ledger.Findings
	for end := time.Now().Add(arriving); ; time.Sleep(10 * time.Millisecond) {
		found = posts.Findings(seen.Plan.Name+"-", seen.Posted)
		if len(found.Unnoted) == 0 || time.Now().After(end) {
			return found
		}
	}
}

func firstLines(lines []string) string { return strings.Join(lines[:min(5, len(lines))], "; ") }

func (s *stage) line(seen load.Report) report.Scenario {
	classes := map[string]int{}
	for class, count := range seen.Counts.Failed {
		classes[string(class)] = count
	}
	slow := map[string]int{}
	for phase, count := range seen.Slow {
		slow[string(phase)] = count
	}
	kind := seen.Plan.Reuse.String()
	if seen.Plan.Protocol != load.HTTP1 {
		kind = seen.Plan.Protocol.String()
		if seen.Plan.Reuse == load.NewConnection {
			kind += ", " + seen.Plan.Reuse.String()
		}
	}
	if seen.Plan.Delay >= time.Second {
		kind += fmt.Sprintf(", %s each", seen.Plan.Delay)
	}
	if strings.HasPrefix(seen.Plan.Address, "[") {
		kind += ", IPv6"
	}
	if seen.Plan.TLS != nil {
		kind += ", TLS"
	}
	return report.Scenario{
		Name:        s.name,
		Stream:      kind,
		Requests:    seen.Counts.Requests,
		Posts:       seen.Counts.Posts,
		Classes:     classes,
		Repeated:    seen.Counts.Repeated,
		Connections: seen.Counts.Connections,
		Announced:   seen.Counts.Announced,
		P50:         load.Percentile(seen.Latencies, 0.50),
		P99:         load.Percentile(seen.Latencies, 0.99),
		Max:         load.Percentile(seen.Latencies, 1),
		Slow:        slow,
		Took:        seen.Took,
	}
}

// told is the number of printed lines of each kind, the last ones.
const told = 60

// printState prints what helps to understand a failure: Events of the namespace, and the logs of Fairway.
func (s *stage) printState() {
	for _, arguments := range [][]string{
		{"get", "pods,ingresses,endpointslices", "-n", s.namespace, "-o", "wide"},
		{"get", "pods,leases", "-n", fairwayNamespace, "-o", "wide"},
		{"get", "events", "-n", s.namespace, "--sort-by=.lastTimestamp"},
		{"logs", "-n", fairwayNamespace, "-l", "app.kubernetes.io/name=fairway", "--tail=40", "--prefix"},
		{"logs", "-n", fairwayNamespace, "-l", "app.kubernetes.io/name=fairway", "--tail=40", "--prefix", "--previous", "--ignore-errors"},
	} {
		s.kubectlSays(arguments...)
	}
}

// kubectlSays prints the end of kubectl's output.
func (s *stage) kubectlSays(arguments ...string) {
	text, err := testbed.Kubectl(context.Background(), arguments...)
	if err != nil {
		text = err.Error()
	}
	lines := strings.Split(text, "\n")
	if len(lines) > told {
		lines = append([]string{fmt.Sprintf("(%d lines before)", len(lines)-told)}, lines[len(lines)-told:]...)
	}
	s.Logf("%s: kubectl %s:\n%s", s.name, strings.Join(arguments, " "), strings.Join(lines, "\n"))
}
