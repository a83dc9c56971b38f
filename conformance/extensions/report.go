package main

// This file owns the results: cases, known differences of peers, and the summary as JSON.

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// maxShown bounds the unexpected results of a part that are printed.
const maxShown = 25

// result is what became of a case.
type result struct {
	Part     string   `json:"part"`
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`
	Status   int      `json:"status,omitempty"`
	Took     float64  `json:"seconds"`
	Problems []string `json:"problems,omitempty"`
	// Difference is why a peer is not as expected here, where that is known.
	Difference string `json:"difference,omitempty"`
	Detail     string `json:"detail,omitempty"`
	IsTorn     bool   `json:"torn,omitempty"`
}

// part is the summary of a part.
type part struct {
	Name         string  `json:"name"`
	Cases        int     `json:"cases"`
	Unexpected   int     `json:"unexpected"`
	Differences  int     `json:"differences"`
	Hangs        int     `json:"hangs"`
	Torn         int     `json:"torn"`
	Crashes      int     `json:"crashes"`
	Seconds      float64 `json:"seconds"`
	MemoryBefore int     `json:"memory_before"`
	MemoryAfter  int     `json:"memory_after"`
	MemoryPeak   int     `json:"memory_peak"`
}

// results are the findings of a run.
type results struct {
	Command    string            `json:"command"`
	Peer       string            `json:"peer"`
	Version    string            `json:"version"`
	Revision   string            `json:"revision"`
	Versions   map[string]string `json:"versions"`
	Parts      []part            `json:"parts"`
	Unexpected int               `json:"unexpected"`
	// Differences counts cases in which a peer is known to differ.
	Differences int `json:"differences"`
	// Modes and Failures count cases for the tables.
	Modes    tallies `json:"modes"`
	Failures tallies `json:"failures"`
	// Cases are all of them; the file has those that are not as expected.
	Cases []result `json:"cases"`
	shown map[string]int
}

// add notes a case, and prints it if it is not as expected.
func (results *results) add(one result) {
	if len(one.Problems) > 0 {
		if one.Difference = differenceOf(results.Peer, one); one.Difference != "" {
			results.Differences++
		} else {
			results.Unexpected++
			results.show(one)
		}
	}
	results.Cases = append(results.Cases, one)
}

func (results *results) show(one result) {
	if results.shown == nil {
		results.shown = map[string]int{}
	}
	results.shown[one.Part]++
	switch shown := results.shown[one.Part]; {
	case shown <= maxShown:
		fmt.Printf("UNEXPECTED %s/%s: %s (%s)\n", one.Part, one.Name, strings.Join(one.Problems, "; "), one.Detail)
	case shown == maxShown+1:
		fmt.Printf("UNEXPECTED %s: more are in the results\n", one.Part)
	}
}

func (results *results) write(file string) error {
	if file == "" {
		return nil
	}
	kept := *results
	kept.Modes, kept.Failures = results.countModes(), results.countFailures()
	kept.Cases = slices.DeleteFunc(slices.Clone(results.Cases), func(one result) bool { return len(one.Problems) == 0 })
	text, err := json.MarshalIndent(kept, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// versions are those of the programs in the proof.
func versions() map[string]string {
	found := map[string]string{}
	build, isKnown := debug.ReadBuildInfo()
	if !isKnown {
		return found
	}
	found["Go"] = strings.TrimPrefix(build.GoVersion, "go")
	names := map[string]string{"github.com/envoyproxy/go-control-plane/envoy": "Envoy API", "google.golang.org/grpc": "grpc-go"}
	for _, module := range build.Deps {
		if name := names[module.Path]; name != "" {
			found[name] = module.Version
		}
	}
	return found
}
