package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheTableAndTheFileSayTheSame(t *testing.T) {
	var book Book
	book.Add(Scenario{
		Name: "kill", Stream: "keep-alive", Requests: 12_000, Apart: map[string]int{"refused": 3}, Slow: map[string]int{"connecting": 2},
		P50: 1500 * time.Microsecond, Took: 20 * time.Second,
	})
	book.Add(Scenario{Name: "propagation", Figures: []Figure{{Name: "p99", Value: 12.5, Unit: "ms", Promise: 100}}})
	table := book.Table()
	for _, expected := range []string{"kill", "12000", "1.5", "counted apart: 3 refused", "500 ms or more: 2 connecting", "p99 12.5 ms (promised: 100)"} {
		if !strings.Contains(table, expected) {
			t.Errorf("no %q in\n%s", expected, table)
		}
	}
	if missed := book.Missed(); len(missed) > 0 {
		t.Errorf("a promise that was kept is missed: %v", missed)
	}
	path := filepath.Join(t.TempDir(), "results.json")
	if err := book.Write(path, "ci"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Form      string
		Scenarios []struct {
			Scenario string
			Requests int
			P50      float64 `json:"p50_ms"`
		}
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if read.Form != "ci" || len(read.Scenarios) != 2 || read.Scenarios[0].Requests != 12_000 || read.Scenarios[0].P50 != 1.5 {
		t.Fatalf("%s", text)
	}
}

func TestAPromiseThatWasMissedIsNamed(t *testing.T) {
	var book Book
	book.Add(Scenario{Name: "size", Figures: []Figure{
		{Name: "memory", Value: 160, Unit: "MiB", Promise: 150}, {Name: "hosts", Value: 5000},
	}})
	const expected = "size: memory 160 MiB (MISSED: promised is 150)"
	if missed := book.Missed(); len(missed) != 1 || missed[0] != expected {
		t.Errorf("%q, expected %q", missed, expected)
	}
	if table := book.Table(); !strings.Contains(table, expected) {
		t.Errorf("no %q in\n%s", expected, table)
	}
}
