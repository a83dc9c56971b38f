package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/report"
)

const (
	// talking is how many connections are open all the time, and joining how many more are made when there are seven pods.
	talking = 24
	joining = 28
)

// talks are the long connections of a scenario.
type talks struct {
	*stage
	plan  load.TalkPlan
	begun time.Time
	all   []*load.Talking
}

// talks are long connections to an address; none is open yet.
func (s *stage) talks(address string, speech load.Speech) *talks {
	plan := load.TalkPlan{Address: address, Beat: 100 * time.Millisecond, Ports: clientPorts, Speech: speech}
	return &talks{stage: s, plan: plan, begun: time.Now()}
}

// open opens connections, and waits until each of them got a response.
func (c *talks) open(clients int) *load.Talking {
	c.Helper()
	plan := c.plan
	plan.Clients = clients
	talk := load.Talk(plan)
	c.Cleanup(func() { talk.Stop() })
	c.all = append(c.all, talk)
	c.answered(talk)
	return talk
}

// answered waits until each client has a connection with a response.
func (c *talks) answered(talk *load.Talking) {
	c.Helper()
	c.must(cluster.Eventually(c.Context(), time.Minute, "every client has a connection with a server", func(context.Context) (bool, string, error) {
		now := talk.Now()
		return now.AnsweredCount() == talk.Plan().Clients, fmt.Sprintf("%d have, after %d connections", now.AnsweredCount(), now.Connections), nil
	}))
}

// join makes more connections until each server has one, whichever will be removed.
func (c *talks) join(held *load.Talking, servers []string) *load.Talking {
	c.Helper()
	var joined *load.Talking
	c.must(cluster.Eventually(c.Context(), time.Minute, "every server has a connection", func(context.Context) (bool, string, error) {
		joined = c.open(joining)
		var without []string
		for _, server := range servers {
			if held.Now().Open[server]+joined.Now().Open[server] == 0 {
				without = append(without, server)
			}
		}
		if len(without) > 0 {
			joined.Stop()
		}
		return len(without) == 0, "none with " + strings.Join(without, ", "), nil
	}))
	return joined
}

// stop ends all connections.
func (c *talks) stop() {
	for _, each := range c.all {
		each.Stop()
	}
}

// answerCount is the number of responses.
func (c *talks) answerCount() int {
	all := 0
	for _, talk := range c.all {
		all += talk.Now().Answers
	}
	return all
}

// judge fails for wrong responses, and for connections that were cut although their server, of this kind, stayed.
func (c *talks) judge(kind, stream string, went func(server string, cut time.Time) bool) {
	c.Helper()
	line := report.Scenario{Name: c.name, Stream: stream, Classes: map[string]int{}, Took: time.Since(c.begun)}
	var wrong []load.Event
	var longest time.Duration
	gone := 0
	for _, talk := range c.all {
		seen := talk.Now()
		line.Requests += seen.Answers
		line.Connections += seen.Connections
		longest = max(longest, seen.Longest)
		wrong = append(wrong, seen.Wrong...)
		for _, cut := range seen.Cut {
			line.Classes[string(cut.Class)]++
			// A connection may have been made to a server that ended before it responded.
			unknown := cut.Server == "" && !cut.Connected.IsZero() && c.dying.Holds(cut.Begin, cut.End)
			if unknown || cut.Server != "" && went(cut.Server, cut.End) {
				gone++
			} else {
				wrong = append(wrong, cut.Event)
			}
		}
	}
	line.Failed, line.Apart = len(wrong), map[string]int{"connection cut with its " + kind: gone}
	line.Figures = []report.Figure{{Name: "longest connection", Value: longest.Seconds(), Unit: "s"}}
	book.Add(line)
	c.Logf("%s: %s: %d answers on %d connections, %d cut with their %s, the longest lived %s",
		c.name, stream, line.Requests, line.Connections, gone, kind, longest)
	if len(wrong) > 0 {
		c.Errorf("%s: %s: %d connections or answers failed: %s", c.name, stream, len(wrong), firstLines(texts(wrong)))
	}
	if gone == 0 {
		c.Errorf("%s: %s: no connection was with a %s that went: the scenario shows nothing", c.name, stream, kind)
	}
}
