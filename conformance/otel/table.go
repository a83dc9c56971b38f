package main

// This file owns the table of results in README.md.

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// The table is between these lines.
const (
	tableBegin = "<!-- otel:begin -->\n"
	tableEnd   = "<!-- otel:end -->"
)

// writeTable replaces the table of a page by that of the results in a file.
func writeTable(resultsFile, page string) error {
	text, err := os.ReadFile(resultsFile)
	if err != nil {
		return err
	}
	var found results
	if err := json.Unmarshal(text, &found); err != nil {
		return err
	}
	document, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, hasBegin := strings.Cut(string(document), tableBegin)
	_, after, hasEnd := strings.Cut(rest, tableEnd)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s has no place for the table", page)
	}
	return os.WriteFile(page, []byte(before+tableBegin+found.table()+tableEnd+after), 0o644)
}

func (results *results) table() string {
	var page strings.Builder
	var measured []string
	for _, name := range slices.Sorted(maps.Keys(results.Versions)) {
		measured = append(measured, name+" "+results.Versions[name])
	}
	fmt.Fprintf(&page, "Measured at revision %s with %s; seed %d; %d problems.\n", results.Revision, strings.Join(measured, ", "), results.Seed, len(results.Problems))
	if len(results.Trees) > 0 {
		page.WriteString("\n| run | OTLP | requests | attempts | hedged | sampled | spans | new traces: sampled | expected | problems |\n" +
			"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	}
	for _, run := range results.Trees {
		sum := run.sum()
		fmt.Fprintf(&page, "| %s | %s | %d | %d | %d | %d | %d | %d of %d | %d to %d | %d |\n", run.Name, run.Protocol, sum.Requests, sum.Attempts,
			sum.Hedged, sum.Sampled, run.Received, run.Chance.Sampled, run.Chance.Requests, run.Chance.Low, run.Chance.High, run.Problems)
	}
	if len(results.Loss) > 0 {
		page.WriteString("\n| collector killed | OTLP | p99, ms: before, killed, back | without Fairway | memory: before, killed, back | spans | sent | dropped | received |\n" +
			"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	}
	for _, run := range results.Loss {
		var latencies, past, memory []string
		for _, part := range run.Phases {
			latencies = append(latencies, fmt.Sprintf("%.2f", part.P99))
			past = append(past, fmt.Sprintf("%.2f", part.Control))
			memory = append(memory, mebibytes(part.Memory))
		}
		fmt.Fprintf(&page, "| %.0f s | %s | %s | %s | %s | %d | %d | %d | %d |\n", run.Outage, run.Protocol, strings.Join(latencies, ", "),
			strings.Join(past, ", "), strings.Join(memory, ", "), run.Made, run.Counted.Sent, run.Counted.Dropped, run.Received)
	}
	if len(results.Lies) > 0 {
		page.WriteString("\n| faulty collector | OTLP | requests | failed | p99, ms | memory |\n| --- | --- | --- | --- | --- | --- |\n")
	}
	for _, lie := range results.Lies {
		fmt.Fprintf(&page, "| %s | %s | %d | %d | %.2f | %s |\n", lie.Name, lie.Protocol, lie.Requests, lie.Failed, lie.P99, mebibytes(lie.Memory))
	}
	if len(results.Signals) > 0 {
		page.WriteString("\n| signals | requests | log records | with their span's trace | metrics |\n| --- | --- | --- | --- | --- |\n")
	}
	for _, run := range results.Signals {
		fmt.Fprintf(&page, "| %s | %d | %d | %d | %d |\n", run.Protocol, run.Requests, run.Logs, run.WithSpan, run.Metrics)
	}
	return page.String()
}
