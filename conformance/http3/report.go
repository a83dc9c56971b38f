package main

// This file owns the results, and their file.

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"fairway.dev/conformance/http3/peer"
)

// maxShown bounds the unexpected results of a group that are printed.
const maxShown = 40

// result is what became of a case.
type result struct {
	Group string `json:"group"`
	// Area is a part of a group.
	Area string `json:"area,omitempty"`
	Name string `json:"name"`
	// Rule is the section that requires the outcome.
	Rule string `json:"rule,omitempty"`
	// Want and Got are the expected and the actual outcome, in words.
	Want     string   `json:"want,omitempty"`
	Got      string   `json:"got,omitempty"`
	Problems []string `json:"problems,omitempty"`
	Seconds  float64  `json:"seconds"`
}

// area is the group, with the part of it that the case belongs to.
func (one result) area() string {
	if one.Area == "" {
		return one.Group
	}
	return one.Group + ": " + one.Area
}

// group is the summary of a group.
type group struct {
	Name         string  `json:"name"`
	Cases        int     `json:"cases"`
	Unexpected   int     `json:"unexpected"`
	Seconds      float64 `json:"seconds"`
	MemoryBefore int     `json:"memory_before"`
	MemoryAfter  int     `json:"memory_after"`
}

// flood is the outcome of a flood.
type flood struct {
	Name         string  `json:"name"`
	Sent         string  `json:"sent"`
	Seconds      float64 `json:"seconds"`
	MemoryBefore int     `json:"memory_before"`
	MemoryPeak   int     `json:"memory_peak"`
	MemoryAfter  int     `json:"memory_after"`
	// Answered are the requests of another client at the same time, and Median and Slowest their milliseconds.
	Answered int     `json:"answered"`
	Failed   int     `json:"failed"`
	Median   float64 `json:"median_ms"`
	Slowest  float64 `json:"slowest_ms"`
	// Connect is how long a new connection took meanwhile, in milliseconds.
	Connect float64 `json:"connect_ms"`
	// End is the server's reaction.
	End string `json:"end"`
}

// tally counts cases that were as expected.
type tally struct {
	Right int `json:"right"`
	All   int `json:"all"`
}

// results are those of a run.
type results struct {
	Command  string            `json:"command"`
	Peer     string            `json:"peer"`
	Version  string            `json:"version"`
	Revision string            `json:"revision"`
	Versions map[string]string `json:"versions"`
	Settings map[string]uint64 `json:"settings"`
	Groups   []group           `json:"groups"`
	Areas    []string          `json:"areas"`
	Tallies  map[string]*tally `json:"tallies"`
	Floods   []flood           `json:"floods,omitempty"`
	// Seed and Blocks are those of Throughputs.
	Seed        uint64       `json:"seed,omitempty"`
	Blocks      int          `json:"blocks,omitempty"`
	Throughputs []throughput `json:"throughputs,omitempty"`
	Unexpected  int          `json:"unexpected"`
	// Cases are all of them; the file has those that are not as expected.
	Cases []result `json:"cases"`
	shown map[string]int
}

func newResults(chosen options) *results {
	return &results{Command: "make http3", Peer: chosen.peer, Revision: chosen.revision, Tallies: map[string]*tally{}, shown: map[string]int{},
		Settings: map[string]uint64{}, Versions: map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go"), "quic-go": peer.Version("github.com/quic-go/quic-go")}}
}

// add notes a case, and prints it if it is not as expected.
func (results *results) add(one result) {
	area := one.area()
	if results.Tallies[area] == nil {
		results.Tallies[area] = &tally{}
		results.Areas = append(results.Areas, area)
	}
	results.Tallies[area].All++
	results.Cases = append(results.Cases, one)
	if len(one.Problems) == 0 {
		results.Tallies[area].Right++
		return
	}
	results.Unexpected++
	results.shown[one.Group]++
	switch shown := results.shown[one.Group]; {
	case shown <= maxShown:
		fmt.Printf("UNEXPECTED %s: %s: %s\n", area, one.Name, strings.Join(one.Problems, "; "))
	case shown == maxShown+1:
		fmt.Printf("UNEXPECTED %s: more are in the results\n", one.Group)
	}
}

// count is how many cases there were.
func (results *results) count() int {
	all := 0
	for _, tally := range results.Tallies {
		all += tally.All
	}
	return all
}

func (results *results) write(file string) error {
	if file == "" {
		return nil
	}
	kept := *results
	kept.Cases = slices.DeleteFunc(slices.Clone(results.Cases), func(one result) bool { return len(one.Problems) == 0 })
	text, err := json.MarshalIndent(kept, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
