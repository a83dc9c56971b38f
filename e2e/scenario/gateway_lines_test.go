package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/metrics"
	"fairway/e2e/report"
)

const (
	// talking is how many connections are open all the time, and joining how many more are made when there are seven pods.
	talking = 24
	joining = 28
)

// Long connections through a TCPRoute, while the pods behind it go 5, 7, 5. A connection may end only if its pod was removed, and
// Fairway counts as many ends as clients saw.
func TestALongConnectionThroughAGatewayEndsOnlyWithItsPod(t *testing.T) {
	s := begin(t, "gateway-lines")
	address := s.lineGateway(5)
	c := &talks{
		stage:   s,
		plan:    load.LinesPlan{Address: address, Beat: 100 * time.Millisecond, Ports: clientPorts},
		begun:   time.Now(),
		before:  s.nothingForwarded(),
		removed: map[string]time.Time{},
	}
	held := c.talk(talking)
	for first := true; first || c.lines() < s.requests; first = false {
		c.upAndDown(held)
	}
	for _, each := range c.all {
		each.Stop()
	}
	c.judge(c.balanced())
}

// talks are the long connections of a scenario.
type talks struct {
	*stage
	plan  load.LinesPlan
	begun time.Time
	// before is what Fairway had counted before the first connection.
	before streamCounts
	all    []*load.Talking
	// removed are the pods that were removed, with the time when that began.
	removed map[string]time.Time
}

// talk begins connections, and waits until each of them was answered.
func (c *talks) talk(clients int) *load.Talking {
	c.Helper()
	plan := c.plan
	plan.Clients = clients
	talk := load.Talk(plan)
	c.Cleanup(func() { talk.Stop() })
	c.all = append(c.all, talk)
	c.answered(talk)
	return talk
}

// answered waits until each client has a connection that was answered.
func (c *talks) answered(talk *load.Talking) {
	c.Helper()
	c.must(cluster.Eventually(c.Context(), time.Minute, "every client has a connection with a pod", func(context.Context) (bool, string, error) {
		now := talk.Now()
		return now.Answered() == talk.Plan().Clients, fmt.Sprintf("%d have, after %d connections", now.Answered(), now.Connections), nil
	}))
}

func (c *talks) lines() int {
	all := 0
	for _, talk := range c.all {
		all += talk.Now().Lines
	}
	return all
}

// upAndDown is one cycle. Clients whose pod was removed make another connection at once.
func (c *talks) upAndDown(held *load.Talking) {
	c.Helper()
	c.scale("backend", 7)
	pods := c.podNames()
	joined := c.join(held, pods)
	c.balanced()
	begun := time.Now()
	c.scale("backend", 5)
	stayed := c.podNames()
	for _, pod := range pods {
		if !slices.Contains(stayed, pod) {
			c.removed[pod] = begun
		}
	}
	c.answered(held)
	c.answered(joined)
	c.balanced()
	joined.Stop()
}

// join makes more connections until each pod has one, whichever will be removed.
func (c *talks) join(held *load.Talking, pods []string) *load.Talking {
	c.Helper()
	var joined *load.Talking
	c.must(cluster.Eventually(c.Context(), time.Minute, "every pod has a connection", func(context.Context) (bool, string, error) {
		joined = c.talk(joining)
		var without []string
		for _, pod := range pods {
			if held.Now().Open[pod]+joined.Now().Open[pod] == 0 {
				without = append(without, pod)
			}
		}
		if len(without) > 0 {
			joined.Stop()
		}
		return len(without) == 0, "none with " + strings.Join(without, ", "), nil
	}))
	return joined
}

// balanced waits until Fairway has counted the end of every connection that has ended for its client, of no other, and has the
// others open.
func (c *talks) balanced() streamCounts {
	c.Helper()
	var now streamCounts
	c.must(cluster.Eventually(c.Context(), 2*time.Minute, "Fairway has counted as many ends as clients saw", func(ctx context.Context) (bool, string, error) {
		var err error
		if now, err = countStreams(ctx); err != nil {
			return false, "", err
		}
		open, ended := 0, 0
		for _, talk := range c.all {
			seen := talk.Now()
			open += seen.Answered()
			ended += seen.Connections - seen.Answered()
		}
		saw := fmt.Sprintf("clients: %d open, %d ended; Fairway: %v open, ended %v, before that %v", open, ended, now.open, now.ended, c.before.ended)
		return now.open == float64(open) && now.total()-c.before.total() == float64(ended), saw, nil
	}))
	return now
}

// judge fails for connections that were cut although their pod stayed, and for ends that were Fairway's own.
func (c *talks) judge(now streamCounts) {
	c.Helper()
	line := report.Scenario{Name: c.name, Stream: "TCP, long connections", Classes: map[string]int{}, Took: time.Since(c.begun)}
	var wrong []load.Event
	var longest time.Duration
	gone := 0
	for _, talk := range c.all {
		seen := talk.Now()
		line.Requests += seen.Lines
		line.Connections += seen.Connections
		longest = max(longest, seen.Longest)
		wrong = append(wrong, seen.Wrong...)
		for _, cut := range seen.Cut {
			line.Classes[string(cut.Class)]++
			if c.withItsPod(cut) {
				gone++
			} else {
				wrong = append(wrong, cut.Event)
			}
		}
	}
	line.Failed, line.Apart = len(wrong), map[string]int{"connection cut with its pod": gone}
	line.Figures = []report.Figure{{Name: "longest connection", Value: longest.Seconds(), Unit: "s"}}
	book.Add(line)
	ended := now.since(c.before)
	c.Logf("%s: %d lines on %d connections, %d cut with their pod, the longest lived %s; Fairway counted %v",
		c.name, line.Requests, line.Connections, gone, longest, ended)
	if len(wrong) > 0 {
		c.Errorf("%s: %d connections or lines failed: %s", c.name, len(wrong), first(texts(wrong)))
	}
	for _, reason := range []string{"idle", "drained", "listener_full", "overloaded", "local_shortage"} {
		if ended[reason] > 0 {
			c.Errorf("%s: Fairway ended %v connections itself: %s", c.name, ended[reason], reason)
		}
	}
	if gone == 0 {
		c.Errorf("%s: no connection was with a pod that went: the scenario shows nothing", c.name)
	}
}

// withItsPod says whether a connection ended after its pod began to be removed. One may have been made to a pod that went before
// it said who it is.
func (c *talks) withItsPod(cut load.Cut) bool {
	if cut.Server == "" {
		return !cut.Connected.IsZero() && c.dying.Holds(cut.Begin, cut.End)
	}
	begun, removed := c.removed[cut.Server]
	return removed && cut.End.After(begun)
}

func (c *talks) podNames() []string {
	c.Helper()
	pods, err := kube.Pods(c.Context(), c.namespace, "backend")
	c.must(err)
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// lineGateway makes a Gateway for TCP with a route to backends that answer lines, and waits until every replica of Fairway leads
// there. Gives its address.
func (s *stage) lineGateway(pods int32) string {
	s.Helper()
	s.serveGateways()
	backend := s.workload("backend", pods)
	backend.Lines = true
	s.must(kube.Deploy(s.Context(), backend))
	s.must(kube.Gateway(s.Context(), s.namespace, gatewayName, "TCP", cluster.LinesPort))
	s.must(kube.StreamRoute(s.Context(), s.namespace, gatewayName, backend.Name, cluster.LinesPort))
	found, err := kube.GatewayAddress(s.Context(), s.namespace, gatewayName)
	s.must(err)
	address := cluster.Join(found, cluster.LinesPort)
	s.inARow(address+" answers lines", func(ctx context.Context) (bool, string) {
		pod, err := load.AskLine(ctx, address)
		return err == nil, fmt.Sprintf("%s %v", pod, err)
	})
	return address
}

// nothingForwarded waits until Fairway forwards no connection, and gives what it has counted until then.
func (s *stage) nothingForwarded() streamCounts {
	s.Helper()
	var now streamCounts
	s.must(cluster.Eventually(s.Context(), time.Minute, "Fairway forwards no connection", func(ctx context.Context) (bool, string, error) {
		var err error
		now, err = countStreams(ctx)
		return now.open == 0, fmt.Sprintf("%v are open", now.open), err
	}))
	return now
}

// streamCounts are the connections that all replicas of Fairway forward together, and those that have ended, by reason.
type streamCounts struct {
	open  float64
	ended map[string]float64
}

func countStreams(ctx context.Context) (streamCounts, error) {
	counts := streamCounts{ended: map[string]float64{}}
	replicas, err := replicaAddresses(ctx)
	if err != nil {
		return counts, err
	}
	for _, address := range replicas {
		page, err := metrics.Read(ctx, cluster.Join(address, probePort))
		if err != nil {
			return counts, err
		}
		open, found := page.Value("fairway_streams_open", nil)
		if !found {
			return counts, fmt.Errorf("%s has no fairway_streams_open", address)
		}
		counts.open += open
		for _, sample := range page {
			if sample.Name == "fairway_streams_ended_total" {
				counts.ended[sample.Labels["reason"]] += sample.Value
			}
		}
	}
	return counts, nil
}

// total is how many have ended.
func (c streamCounts) total() float64 {
	all := 0.0
	for _, count := range c.ended {
		all += count
	}
	return all
}

// since is what has ended after an earlier count, by reason.
func (c streamCounts) since(before streamCounts) map[string]float64 {
	later := map[string]float64{}
	for reason, count := range c.ended {
		if count > before.ended[reason] {
			later[reason] = count - before.ended[reason]
		}
	}
	return later
}
