// Command extensions proves ext_proc and ext_authz of Fairway, and of Envoy as a peer; see README.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strings"
)

// options are the flags.
type options struct {
	fairway, envoy, peer string
	opa, opaModule       string
	revision, out, only  string
	match                string
	verbose, keepsLogs   bool
}

func readOptions() options {
	var chosen options
	flag.StringVar(&chosen.fairway, "fairway", os.Getenv("FAIRWAY"), "the Fairway to test [env FAIRWAY]")
	flag.StringVar(&chosen.envoy, "envoy", os.Getenv("ENVOY"), "the Envoy to test [env ENVOY]")
	flag.StringVar(&chosen.peer, "peer", "fairway", "what is tested: fairway, envoy")
	flag.StringVar(&chosen.opa, "opa", "", "OPA with its plugin for Envoy; without it, the part `opa` is left out")
	flag.StringVar(&chosen.opaModule, "opa-module", "", "the folder of the plugin's module, with its documented example")
	flag.StringVar(&chosen.revision, "revision", "unknown", "Fairway's revision, for the results")
	flag.StringVar(&chosen.out, "out", "", "the file for the results, JSON")
	flag.StringVar(&chosen.only, "only", "", "parts of the proof, comma-separated: modes, changes, failures, liars, authorization, opa")
	flag.StringVar(&chosen.match, "match", "", "only cases whose names contain this")
	flag.BoolVar(&chosen.verbose, "v", false, "prints each case")
	flag.BoolVar(&chosen.keepsLogs, "keep", false, "keeps the logs")
	flag.Parse()
	return chosen
}

// has reports whether a part of the proof was selected.
func (chosen options) has(part string) bool {
	return chosen.only == "" || strings.Contains(","+chosen.only+",", ","+part+",")
}

func main() {
	// Clients and servers of net/http complain here of what this proof does on purpose.
	log.SetOutput(io.Discard)
	if len(os.Args) >= 4 && os.Args[1] == "table" {
		if err := writeTable(os.Args[2], os.Args[3:]); err != nil {
			fail(err)
		}
		return
	}
	chosen := readOptions()
	unexpected, err := prove(chosen)
	if err != nil {
		fail(err)
	}
	fmt.Printf("\n%d unexpected results\n", unexpected)
	if unexpected > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "extensions:", err)
	os.Exit(1)
}

// prove runs all parts and returns how many results were not as expected.
func prove(chosen options) (int, error) {
	lab, err := newLaboratory(chosen)
	if err != nil {
		return 0, err
	}
	defer lab.close()
	lab.results = &results{Command: "make extensions", Peer: lab.proxy.Name(), Version: lab.proxy.Version(),
		Revision: chosen.revision, Versions: versions()}
	fmt.Printf("%s %s, %d CPUs\n", lab.proxy.Name(), lab.proxy.Version(), runtime.NumCPU())
	for _, part := range []struct {
		name string
		run  func(*laboratory) error
	}{{"modes", modes}, {"changes", changes}, {"failures", failures}, {"liars", runLiars}, {"authorization", authorization}, {"opa", policies}} {
		if !chosen.has(part.name) {
			continue
		}
		if err := lab.measure(part.name, part.run); err != nil {
			return 0, fmt.Errorf("%s: %w; the logs are in %s", part.name, err, lab.directory)
		}
		// Written after each part: a run that is interrupted leaves what it has.
		if err := lab.results.write(chosen.out); err != nil {
			return 0, err
		}
	}
	if err := lab.proxy.Stop(); err != nil {
		lab.results.add(result{Part: "end", Name: "the proxy ends when it is asked to", Problems: []string{err.Error()}})
	}
	if err := lab.results.write(chosen.out); err != nil {
		return 0, err
	}
	return lab.results.Unexpected, nil
}
