// Package results is what becomes of a run: the outcome of each test, also of those that no profile of the report counts, and
// the table at its end. It runs no test.
package results

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// Outcome is what became of one test.
type Outcome int

const (
	// Passed is a test that ran and found nothing.
	Passed Outcome = iota
	// Failed is one that found something.
	Failed
	// Skipped is one that did not run.
	Skipped
)

// Book has the outcome of each test by its name. The suite writes into it from several tests at once.
type Book struct {
	mutex    sync.Mutex
	outcomes map[string]Outcome
}

// Record is called by the suite after each test.
func (b *Book) Record(t *testing.T, test suite.ConformanceTest, _ *suite.ConformanceTestSuite) {
	outcome := Passed
	switch {
	case t.Failed():
		outcome = Failed
	case t.Skipped():
		outcome = Skipped
	}
	b.Put(test.ShortName, outcome)
}

// Put keeps the outcome of a test.
func (b *Book) Put(name string, outcome Outcome) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.outcomes == nil {
		b.outcomes = map[string]Outcome{}
	}
	b.outcomes[name] = outcome
}

// Of is the outcome of a test, if it was selected.
func (b *Book) Of(name string) (outcome Outcome, known bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	outcome, known = b.outcomes[name]
	return outcome, known
}

// manySkipped bounds how many unselected tests are listed.
const manySkipped = 20

// Table shows a report, the outcomes of tests that are in no profile (`outside`, by name), and how long the run took.
func Table(report confv1.ConformanceReport, book *Book, outside []string, took time.Duration) string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "profile\tlevel\tresult\tpassed\tfailed\tskipped\tfeatures")
	profiles := slices.Clone(report.ProfileReports)
	slices.SortFunc(profiles, func(a, b confv1.ProfileReport) int { return strings.Compare(a.Name, b.Name) })
	var failed, skipped []string
	line := func(name, level string, status confv1.Status, features string) {
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", name, level, status.Result, status.Passed, status.Failed, status.Skipped, features)
		failed = append(failed, status.FailedTests...)
		skipped = append(skipped, status.SkippedTests...)
	}
	for _, profile := range profiles {
		line(profile.Name, "core", profile.Core, "")
		if extended := profile.Extended; extended != nil {
			claimed := len(extended.SupportedFeatures)
			line(profile.Name, "extended", extended.Status, fmt.Sprintf("%d of %d", claimed, claimed+len(extended.UnsupportedFeatures)))
		}
	}
	var counts [3]uint32
	for _, name := range outside {
		outcome, known := book.Of(name)
		if !known {
			outcome = Skipped
		}
		counts[outcome]++
		switch outcome {
		case Failed:
			failed = append(failed, name)
		case Skipped:
			skipped = append(skipped, name)
		}
	}
	if len(outside) > 0 {
		line("in no profile", "", confv1.Status{Result: result(counts), Statistics: confv1.Statistics{
			Passed: counts[Passed], Failed: counts[Failed], Skipped: counts[Skipped]}}, "")
	}
	out.Flush()
	name(&text, "failed", failed, math.MaxInt)
	name(&text, "skipped", skipped, manySkipped)
	fmt.Fprintf(&text, "Gateway API %s, %s channel, in %s\n", report.GatewayAPIVersion, report.GatewayAPIChannel, took.Round(time.Second))
	return text.String()
}

// name writes the names of tests, each once, or only how many there are when these are more than `most`.
func name(text *strings.Builder, what string, names []string, most int) {
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(names) > most:
		fmt.Fprintf(text, "%s: %d tests\n", what, len(names))
	case len(names) > 0:
		fmt.Fprintf(text, "%s: %s\n", what, strings.Join(names, ", "))
	}
}

// result is that of a report with these counts.
func result(counts [3]uint32) confv1.Result {
	switch {
	case counts[Failed] > 0:
		return confv1.Failure
	case counts[Skipped] > 0:
		return confv1.Partial
	}
	return confv1.Success
}
