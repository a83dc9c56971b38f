// Command http3 shows Fairway's HTTP/3 from outside, and that of quic-go as a peer; see README.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"

	"fairway.dev/conformance/http3/peer"
)

// options are the flags.
type options struct {
	fairway, peer      string
	revision, out      string
	only, match        string
	workers, blocks    int
	seed               uint64
	verbose, keepsLogs bool
}

func readOptions() options {
	var chosen options
	flag.StringVar(&chosen.fairway, "fairway", os.Getenv("FAIRWAY"), "the Fairway to test [env FAIRWAY]")
	flag.StringVar(&chosen.peer, "peer", "fairway", "what is tested: fairway, quic-go")
	flag.StringVar(&chosen.revision, "revision", "unknown", "Fairway's revision, for the results")
	flag.StringVar(&chosen.out, "out", "", "the file for the results, JSON")
	flag.StringVar(&chosen.only, "only", "", "groups, comma-separated: interop, network, smuggling, hostile, floods")
	flag.StringVar(&chosen.match, "match", "", "only cases whose names contain this")
	flag.IntVar(&chosen.workers, "workers", 4, "workers of Fairway")
	flag.Uint64Var(&chosen.seed, "seed", 0, "what the relay of network decides by; 0 takes one by chance, and it is printed")
	flag.IntVar(&chosen.blocks, "blocks", 7, "how often network measures each condition")
	flag.BoolVar(&chosen.verbose, "v", false, "prints each case")
	flag.BoolVar(&chosen.keepsLogs, "keep", false, "keeps the logs")
	flag.Parse()
	if chosen.seed == 0 {
		// Small enough to be copied by hand.
		chosen.seed = rand.Uint64N(1_000_000) + 1
	}
	chosen.blocks = max(chosen.blocks, 1)
	return chosen
}

// has reports whether a group was selected.
func (chosen options) has(group string) bool {
	return chosen.only == "" || strings.Contains(","+chosen.only+",", ","+group+",")
}

func main() {
	// Clients and servers of net/http and quic-go log faults here that the cases make on purpose.
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if len(os.Args) == 3 && os.Args[1] == peer.ServeArgument {
		if err := peer.ServeQUICGo(os.Args[2]); err != nil {
			fail(err)
		}
		return
	}
	if len(os.Args) >= 4 && os.Args[1] == "table" {
		if err := writeTable(os.Args[2], os.Args[3:]); err != nil {
			fail(err)
		}
		return
	}
	chosen := readOptions()
	found, err := prove(chosen)
	if err != nil {
		fail(err)
	}
	fmt.Printf("\n%d cases, %d unexpected\n", found.count(), found.Unexpected)
	// What a peer does differently is a result, and no failure.
	if found.Unexpected > 0 && chosen.peer == "fairway" {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "http3:", err)
	os.Exit(1)
}

// prove runs all groups.
func prove(chosen options) (*results, error) {
	lab, err := newLaboratory(chosen)
	if err != nil {
		return nil, err
	}
	defer lab.close()
	found := lab.results
	fmt.Printf("%s %s, %d CPUs\n", found.Peer, found.Version, runtime.NumCPU())
	for _, one := range []struct {
		name string
		run  func(*laboratory) error
	}{{"interop", interop}, {"network", network}, {"smuggling", smuggling}, {"hostile", hostile}, {"floods", floods}} {
		if !chosen.has(one.name) {
			continue
		}
		if err := lab.measure(one.name, one.run); err != nil {
			return nil, fmt.Errorf("%s: %w; the logs are in %s", one.name, err, lab.directory)
		}
		// Written after each group: a run that is interrupted leaves what it has.
		if err := found.write(chosen.out); err != nil {
			return nil, err
		}
	}
	lab.process.Terminate()
	if err := lab.process.Wait(); err != nil {
		found.add(result{Group: "end", Name: "the server ends when it is asked to", Problems: []string{err.Error()}})
	}
	return found, found.write(chosen.out)
}
