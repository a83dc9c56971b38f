package scenario

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/metrics"
)

// Long connections through a TCPRoute, while the pods behind it go 5, 7, 5. A connection may end only if its pod was removed, and
// Fairway counts as many ends as clients saw.
func TestALongConnectionThroughAGatewayEndsOnlyWithItsPod(t *testing.T) {
	s := newStage(t, "gateway-lines")
	address := s.lineGateway(5)
	c := &lines{talks: s.talks(address, load.LineSpeech), before: s.nothingForwarded(), removed: map[string]time.Time{}}
	held := c.open(talking)
	for first := true; first || c.answerCount() < s.requests; first = false {
		c.upAndDown(held)
	}
	c.stop()
	now := c.balanced()
	c.judge("pod", "TCP, long connections", c.wasRemoved)
	c.checkEnds(now.since(c.before))
}

// lines are the connections of lines, and what Fairway counts of them.
type lines struct {
	*talks
	// before is what Fairway had counted before the first connection.
	before streamCounts
	// removed are the pods that were removed, with the time when that began.
	removed map[string]time.Time
}

// upAndDown is one cycle. Clients whose pod was removed make another connection at once.
func (c *lines) upAndDown(held *load.Talking) {
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

// balanced waits until Fairway has counted the end of every connection that has ended for its client, of no other, and has the
// others open.
func (c *lines) balanced() streamCounts {
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
			open += seen.AnsweredCount()
			ended += seen.Connections - seen.AnsweredCount()
		}
		saw := fmt.Sprintf("clients: %d open, %d ended; Fairway: %v open, ended %v, before that %v", open, ended, now.open, now.ended, c.before.ended)
		return now.open == float64(open) && now.total()-c.before.total() == float64(ended), saw, nil
	}))
	return now
}

// wasRemoved says whether a pod began to be removed before its connection was cut.
func (c *lines) wasRemoved(pod string, cut time.Time) bool {
	begun, removed := c.removed[pod]
	return removed && cut.After(begun)
}

// checkEnds fails for ends that were Fairway's own.
func (c *lines) checkEnds(ended map[string]float64) {
	c.Helper()
	c.Logf("%s: Fairway counted %v", c.name, ended)
	for _, reason := range []string{"idle", "drained", "listener_full", "overloaded", "local_shortage"} {
		if ended[reason] > 0 {
			c.Errorf("%s: Fairway ended %v connections itself: %s", c.name, ended[reason], reason)
		}
	}
}

func (c *lines) podNames() []string {
	c.Helper()
	pods, err := kube.Pods(c.Context(), c.namespace, "backend")
	c.must(err)
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// lineGateway creates a Gateway for TCP with a route to backends that serve lines, and waits until every replica of Fairway
// serves it. It returns its address.
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
	s.awaitConsecutive(address+" answers lines", func(ctx context.Context) (bool, string) {
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

// since returns the ends after an earlier count, by reason.
func (c streamCounts) since(before streamCounts) map[string]float64 {
	later := map[string]float64{}
	for reason, count := range c.ended {
		if count > before.ended[reason] {
			later[reason] = count - before.ended[reason]
		}
	}
	return later
}
