package main

// This file owns the results: problems, versions, and the summary as JSON.

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

// maxShown bounds the problems of a run that are printed and stored.
const maxShown = 20

// results are the findings of a run.
type results struct {
	Command   string            `json:"command"`
	Revision  string            `json:"revision"`
	Seed      uint64            `json:"seed"`
	Versions  map[string]string `json:"versions"`
	Trees     []treeResult      `json:"trees,omitempty"`
	Untouched int               `json:"requests_without_traces,omitempty"`
	Loss      []lossResult      `json:"loss,omitempty"`
	Lies      []lieResult       `json:"lies,omitempty"`
	Signals   []signalResult    `json:"signals,omitempty"`
	// Problems are all that were found.
	Problems []string `json:"problems"`
	shown    map[string]int
}

// add notes a problem and prints it, unless its run has had many.
func (results *results) add(run, problem string) {
	if results.shown == nil {
		results.shown = map[string]int{}
	}
	results.Problems = append(results.Problems, run+": "+problem)
	results.shown[run]++
	switch shown := results.shown[run]; {
	case shown <= maxShown:
		fmt.Printf("PROBLEM %s: %s\n", run, problem)
	case shown == maxShown+1:
		fmt.Printf("PROBLEM %s: more are not shown\n", run)
	}
}

func (results *results) write(file string) error {
	if file == "" {
		return nil
	}
	kept := *results
	kept.Problems = append([]string{}, results.Problems[:min(len(results.Problems), 10*maxShown)]...)
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// versions are those of what Fairway is proved against.
func versions() map[string]string {
	found := map[string]string{}
	build, isKnown := debug.ReadBuildInfo()
	if !isKnown {
		return found
	}
	found["Go"] = strings.TrimPrefix(build.GoVersion, "go")
	names := map[string]string{"go.opentelemetry.io/collector/otelcol": "OpenTelemetry collector", "google.golang.org/grpc": "grpc-go"}
	for _, module := range build.Deps {
		if name := names[module.Path]; name != "" {
			found[name] = module.Version
		}
	}
	return found
}
