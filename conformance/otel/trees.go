package main

// This file owns the first part: requests of all kinds, and whether each has the spans that it should have and no others.

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"fairway.dev/conformance/otel/traffic"
	"fairway.dev/conformance/otel/tree"
)

// concurrent bounds the requests under way. Those with a black hole or a client that leaves take a while.
const concurrent = 96

// leastHedged is how many connects of the first run must have been hedged, in a thousandth of its requests.
const leastHedged = 5

// treeRun is a run with a configuration of its own.
type treeRun struct {
	name     string
	protocol string
	settings traffic.Settings
	requests int
}

// treeResult is the result of a run.
type treeResult struct {
	Name      string               `json:"name"`
	Protocol  string               `json:"protocol"`
	Settings  traffic.Settings     `json:"settings"`
	Requests  int                  `json:"requests"`
	Kinds     map[string]*tree.Row `json:"kinds"`
	Contexts  map[string]int       `json:"contexts"`
	Spans     map[string]int       `json:"spans"`
	Chance    chance               `json:"sampler"`
	Exported  counted              `json:"exported"`
	Received  int                  `json:"received"`
	Problems  int                  `json:"problems"`
	kindOrder []string
}

// chance compares the sampler with its ratio.
type chance struct {
	Requests int `json:"requests"`
	Sampled  int `json:"sampled"`
	Low      int `json:"low"`
	High     int `json:"high"`
}

func trees(lab *laboratory, results *results) error {
	ratio, fifth := lab.chosen.ratio, max(1, lab.chosen.requests/5)
	runs := []treeRun{
		{"believes", "grpc", traffic.Settings{Ratio: ratio, IsParentBased: true, TrustsIncoming: true, HasB3: true}, lab.chosen.requests},
		{"ratio", "http", traffic.Settings{Ratio: ratio, TrustsIncoming: true}, fifth},
		{"doubts", "http", traffic.Settings{Ratio: 2 * ratio, IsParentBased: true}, fifth},
		{"everything", "grpc", traffic.Settings{Ratio: 1, HasB3: true, TrustsIncoming: true}, fifth},
	}
	if err := lab.startCollector(); err != nil {
		return err
	}
	for index, run := range runs {
		if err := lab.runTree(run, uint64(index), results); err != nil {
			return fmt.Errorf("%s: %w", run.name, err)
		}
	}
	return nil
}

func (lab *laboratory) runTree(run treeRun, stream uint64, results *results) error {
	process, clients, err := lab.startFairway(lab.tracingFlags(run.protocol, run.settings))
	if err != nil {
		return err
	}
	defer process.Kill()
	defer clients.Close()
	kinds := traffic.Kinds(holes)
	cases := traffic.Cases(run.name, run.requests, kinds, rand.New(rand.NewPCG(lab.chosen.seed, stream)))
	outcomes := clients.SendAll(cases, lab.chosen.perSecond, concurrent)
	exported, err := lab.settle(process)
	if err != nil {
		return err
	}
	if _, err := process.Stop(stopTimeout); err != nil {
		results.add(run.name, err.Error())
	}
	checked := tree.Check(tree.Options{Settings: run.settings, Service: service}, lab.exchanges(process, outcomes), lab.sink.Spans())
	low, high := tree.Interval(checked.Chance.Requests, run.settings.Ratio)
	result := treeResult{
		Name: run.name, Protocol: run.protocol, Settings: run.settings, Requests: len(outcomes),
		Kinds: checked.Rows, Contexts: checked.Contexts, Spans: checked.Spans,
		Chance:   chance{checked.Chance.Requests, checked.Chance.Sampled, low, high},
		Exported: exported, Received: lab.sink.Received().Traces, Problems: len(checked.Problems),
	}
	for _, kind := range kinds {
		result.kindOrder = append(result.kindOrder, kind.Name)
	}
	for _, problem := range checked.Problems {
		results.add(run.name, problem.String())
	}
	lab.judgeTree(run, &result, process.Unreadable(), results)
	results.Trees = append(results.Trees, result)
	result.print()
	return nil
}

// judgeTree checks the sums of a run.
func (lab *laboratory) judgeTree(run treeRun, result *treeResult, unreadable int, results *results) {
	sum := result.sum()
	if drawn := result.Chance; drawn.Sampled < drawn.Low || drawn.Sampled > drawn.High {
		results.add(run.name, fmt.Sprintf("%d of %d were sampled, and %d to %d is likely (%g)", drawn.Sampled, drawn.Requests, drawn.Low, drawn.High, tree.Confidence))
	}
	if result.Exported.Dropped > 0 || result.Exported.ExchangesDropped > 0 {
		results.add(run.name, fmt.Sprintf("spans were dropped while the collector was there: %+v", result.Exported))
	}
	if result.Exported.Sent != result.Received {
		results.add(run.name, fmt.Sprintf("%d spans were sent, and %d arrived", result.Exported.Sent, result.Received))
	}
	if repeated := lab.sink.Repeated(); repeated > 0 {
		results.add(run.name, fmt.Sprintf("%d spans arrived twice", repeated))
	}
	if sum.Sampled == 0 {
		results.add(run.name, "no exchange was sampled")
	}
	if sum.Hedged*1000 < leastHedged*result.Requests {
		results.add(run.name, fmt.Sprintf("only %d connects were hedged", sum.Hedged))
	}
	if unreadable > 0 {
		results.add(run.name, fmt.Sprintf("%d lines of the access log could not be read", unreadable))
	}
}

// checkTracesOff checks that nothing happens where traces are off.
func checkTracesOff(lab *laboratory, results *results) error {
	const name = "off"
	process, clients, err := lab.startFairway(nil)
	if err != nil {
		return err
	}
	defer process.Kill()
	defer clients.Close()
	cases := traffic.Cases(name, max(1, lab.chosen.requests/5), traffic.Kinds(holes), rand.New(rand.NewPCG(lab.chosen.seed, 99)))
	outcomes := clients.SendAll(cases, lab.chosen.perSecond, concurrent)
	if _, err := process.Stop(stopTimeout); err != nil {
		results.add(name, err.Error())
	}
	checked := tree.Untouched(lab.exchanges(process, outcomes), lab.sink.Spans())
	for _, problem := range checked.Problems {
		results.add(name, problem.String())
	}
	result := treeResult{Kinds: checked.Rows}
	results.Untouched = len(outcomes)
	fmt.Printf("\n%s: %d requests without traces, %d attempts, %d hedged connects, %d problems\n", name, len(outcomes), result.sum().Attempts,
		result.sum().Hedged, len(checked.Problems))
	return nil
}

func (result *treeResult) print() {
	fmt.Printf("\n%s, OTLP over %s: ratio %g, parent-based %t, incoming %t, B3 %t\n", result.Name, result.Protocol, result.Settings.Ratio,
		result.Settings.IsParentBased, result.Settings.TrustsIncoming, result.Settings.HasB3)
	fmt.Printf("  %-26s %9s %9s %9s %9s %9s %9s\n", "requests", "number", "attempts", "hedged", "sampled", "spans", "problems")
	line := func(name string, row tree.Row) {
		fmt.Printf("  %-26s %9d %9d %9d %9d %9d %9d\n", name, row.Requests, row.Attempts, row.Hedged, row.Sampled, row.Spans, row.Problems)
	}
	for _, name := range result.kindOrder {
		line(name, *result.Kinds[name])
	}
	line("all", result.sum())
	drawn := result.Chance
	fmt.Printf("  left to chance: %d sampled of %d; %d to %d is likely. %d contexts. Sent %d spans, received %d, dropped %d\n",
		drawn.Sampled, drawn.Requests, drawn.Low, drawn.High, len(result.Contexts), result.Exported.Sent, result.Received, result.Exported.Dropped)
	fmt.Println("  spans by kind:", strings.TrimPrefix(fmt.Sprint(result.Spans), "map"))
}

// sum adds up all kinds.
func (result *treeResult) sum() tree.Row {
	var sum tree.Row
	for _, row := range result.Kinds {
		sum.Requests += row.Requests
		sum.Attempts += row.Attempts
		sum.Hedged += row.Hedged
		sum.Sampled += row.Sampled
		sum.Spans += row.Spans
		sum.Problems += row.Problems
	}
	return sum
}
