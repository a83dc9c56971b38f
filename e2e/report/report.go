// Package report keeps the figures of all scenarios: a table for people, JSON for the closing note. It never decides whether
// a scenario passed.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Figure is a measured value with its unit, such as {"propagation p99", 12.5, "ms"}.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Promise is the largest value that was promised for a quiet machine; 0 when nothing was.
	Promise float64 `json:"promise,omitempty"`
}

// Scenario is one line of the table.
type Scenario struct {
	Name     string `json:"scenario"`
	Stream   string `json:"stream,omitempty"`
	Requests int    `json:"requests"`
	Posts    int    `json:"posts"`
	Failed   int    `json:"failed"`
	// Apart counts requests that the client saw fail and that no promise covers, by kind.
	Apart map[string]int `json:"counted_apart"`
	// Classes counts the same requests as the client saw them.
	Classes map[string]int `json:"classes"`
	// Repeated GETs had their idle connection closed under them and were sent again by the client.
	Repeated int `json:"repeated_by_client"`
	Doubled  int `json:"doubled_posts"`
	// Connections that the client opened, and how many of them the server announced to close.
	Connections int           `json:"connections"`
	Announced   int           `json:"closed_as_announced"`
	P50         time.Duration `json:"-"`
	P99         time.Duration `json:"-"`
	Max         time.Duration `json:"-"`
	// Slow counts responses that took 500 ms or more, by the step that took most of the time.
	Slow    map[string]int `json:"slow,omitempty"`
	Took    time.Duration  `json:"-"`
	Figures []Figure       `json:"figures,omitempty"`
}

// MarshalJSON writes durations as milliseconds and seconds.
func (s Scenario) MarshalJSON() ([]byte, error) {
	type plain Scenario
	return json.Marshal(struct {
		plain
		P50     float64 `json:"p50_ms"`
		P99     float64 `json:"p99_ms"`
		Max     float64 `json:"max_ms"`
		Seconds float64 `json:"seconds"`
	}{plain(s), milliseconds(s.P50), milliseconds(s.P99), milliseconds(s.Max), s.Took.Seconds()})
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Book collects the scenarios of a run.
type Book struct {
	lock      sync.Mutex
	scenarios []Scenario
}

// Add takes the figures of one scenario.
func (b *Book) Add(s Scenario) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.scenarios = append(b.scenarios, s)
}

// Write puts everything into a JSON file, with the revision that E2E_REVISION names.
func (b *Book) Write(path, form string) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	origin := map[string]any{"command": "make e2e", "revision": os.Getenv("E2E_REVISION"), "unix_seconds": time.Now().Unix()}
	text, err := json.MarshalIndent(map[string]any{"form": form, "origin": origin, "scenarios": b.scenarios}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the results as JSON: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	return nil
}

// Missed are the figures above their bounds.
func (b *Book) Missed() []string {
	b.lock.Lock()
	defer b.lock.Unlock()
	var missed []string
	for _, s := range b.scenarios {
		for _, figure := range s.Figures {
			if figure.missed() {
				missed = append(missed, strings.TrimSpace(s.Name+" "+s.Stream)+": "+figure.String())
			}
		}
	}
	return missed
}

func (f Figure) missed() bool { return f.Promise > 0 && f.Value > f.Promise }

// String is the figure in a line for people.
func (f Figure) String() string {
	text := strings.TrimSpace(fmt.Sprintf("%s %.4g %s", f.Name, f.Value, f.Unit))
	switch {
	case f.missed():
		text += fmt.Sprintf(" (MISSED: promised is %.4g)", f.Promise)
	case f.Promise > 0:
		text += fmt.Sprintf(" (promised: %.4g)", f.Promise)
	}
	return text
}

// Table is everything for people.
func (b *Book) Table() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "scenario\tstream\trequests\tfailed\tapart\tdoubled\trepeated\tp50 ms\tp99 ms\tmax ms\ts")
	for _, s := range b.scenarios {
		if s.Requests == 0 {
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%.0f\t%.0f\n", s.Name, s.Stream, s.Requests, s.Failed,
			sum(s.Apart), s.Doubled, s.Repeated, milliseconds(s.P50), milliseconds(s.P99), milliseconds(s.Max), s.Took.Seconds())
	}
	_ = table.Flush() // into memory: cannot fail
	for _, s := range b.scenarios {
		text.WriteString(s.details())
	}
	return text.String()
}

// details are figures without a column.
func (s Scenario) details() string {
	var text strings.Builder
	label := strings.TrimSpace(s.Name + " " + s.Stream)
	for _, name := range sorted(s.Apart) {
		fmt.Fprintf(&text, "%s: counted apart: %d %s\n", label, s.Apart[name], name)
	}
	for _, phase := range sorted(s.Slow) {
		fmt.Fprintf(&text, "%s: 500 ms or more: %d %s\n", label, s.Slow[phase], phase)
	}
	for _, figure := range s.Figures {
		fmt.Fprintf(&text, "%s: %s\n", label, figure)
	}
	return text.String()
}

func sum(counts map[string]int) int {
	all := 0
	for _, count := range counts {
		all += count
	}
	return all
}

func sorted(counts map[string]int) []string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	sort.Strings(names)
	return slices.Compact(names)
}
