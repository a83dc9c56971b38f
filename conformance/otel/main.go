// Command otel proves Fairway's traces against the real OpenTelemetry collector; see README.md.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
	"time"

	"fairway.dev/conformance/otel/collector"
)

// options are the flags.
type options struct {
	binary, revision, out string
	requests, perSecond   int
	ratio                 float64
	seed                  uint64
	outage, steady, lie   time.Duration
	loadPerSecond         int
	only                  string
}

func readOptions() options {
	var chosen options
	flag.StringVar(&chosen.binary, "fairway", os.Getenv("FAIRWAY"), "the program to test [env FAIRWAY]")
	flag.StringVar(&chosen.revision, "revision", "unknown", "its revision, for the results")
	flag.StringVar(&chosen.out, "out", "", "the file for the results, JSON")
	flag.IntVar(&chosen.requests, "requests", 10_000, "requests of the first run of `trees`; other runs have a fifth")
	flag.IntVar(&chosen.perSecond, "per-second", 800, "how many of these are sent in a second")
	flag.Float64Var(&chosen.ratio, "ratio", 0.25, "the ratio of the sampler")
	flag.Uint64Var(&chosen.seed, "seed", uint64(time.Now().UnixNano()), "chooses requests and their headers")
	flag.DurationVar(&chosen.outage, "outage", time.Minute, "how long the collector is away in `loss`")
	flag.DurationVar(&chosen.steady, "steady", 15*time.Second, "how long it is there before and after that")
	flag.DurationVar(&chosen.lie, "lie", 6*time.Second, "how long each collector of `lies` is there, at least")
	flag.IntVar(&chosen.loadPerSecond, "load-per-second", 200, "requests in a second in `loss`; half of them in `lies`")
	flag.StringVar(&chosen.only, "only", "", "parts of the proof, comma-separated: off, trees, loss, lies, signals")
	flag.Parse()
	return chosen
}

// has reports whether a part of the proof was selected.
func (chosen options) has(part string) bool {
	return chosen.only == "" || strings.Contains(","+chosen.only+",", ","+part+",")
}

func main() {
	log.SetFlags(0)
	if len(os.Args) == 5 && os.Args[1] == collector.Argument {
		if err := collector.Main(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) == 4 && os.Args[1] == "table" {
		if err := writeTable(os.Args[2], os.Args[3]); err != nil {
			log.Fatal("otel: ", err)
		}
		return
	}
	chosen := readOptions()
	if chosen.binary == "" {
		log.Fatal("otel: no program to test; use -fairway or FAIRWAY")
	}
	problems, err := prove(chosen)
	if err != nil {
		log.Fatal("otel: ", err)
	}
	fmt.Printf("\n%d problems\n", problems)
	if problems > 0 {
		os.Exit(1)
	}
}

// prove runs all parts and returns how many problems they showed.
func prove(chosen options) (int, error) {
	lab, err := newLaboratory(chosen)
	if err != nil {
		return 0, err
	}
	defer lab.close()
	found := &results{Command: "make otel", Revision: chosen.revision, Seed: chosen.seed, Versions: versions()}
	fmt.Printf("seed %d, %d CPUs, %s\n", chosen.seed, runtime.NumCPU(), found.Versions)
	for _, part := range []struct {
		name string
		run  func(*laboratory, *results) error
	}{{"off", checkTracesOff}, {"trees", trees}, {"loss", loss}, {"lies", lies}, {"signals", signals}} {
		if !chosen.has(part.name) {
			continue
		}
		if err := part.run(lab, found); err != nil {
			return 0, fmt.Errorf("%s: %w; the logs are in %s", part.name, err, lab.directory)
		}
		// Written after each part: a run that is interrupted leaves what it has.
		if err := found.write(chosen.out); err != nil {
			return 0, err
		}
	}
	lab.keepLogs = len(found.Problems) > 0
	return len(found.Problems), nil
}
