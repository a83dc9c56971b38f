package main

import (
	"strings"
	"testing"
)

func TestTablesShowEachPeerAndWhatIsUnexpected(t *testing.T) {
	one, other := newResults(options{peer: "one"}), newResults(options{peer: "other"})
	one.add(result{Group: "hostile", Area: "streams", Name: "a", Rule: "RFC 1", Problems: []string{"line\r\nbreak | bar"}})
	one.add(result{Group: "hostile", Area: "streams", Name: "b", Rule: "RFC 2", Problems: []string{"line\r\nbreak | bar"}})
	other.add(result{Group: "hostile", Area: "streams", Name: "a"})
	other.add(result{Group: "smuggling", Name: "b"})
	page := tables([]*results{one, other})
	for _, want := range []string{
		"| cases as expected | one | other |\n", "| hostile: streams | 0/2 | 1/1 |\n", "| smuggling | - | 1/1 |\n",
		`| hostile: streams | a; b | line\r\nbreak \| bar | RFC 1; RFC 2 |`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "results of other") {
		t.Error(page)
	}
}

func TestFloodsAreBounded(t *testing.T) {
	right := flood{Answered: 10, MemoryBefore: 10 << 20, MemoryPeak: 20 << 20, Slowest: 100}
	large, silent, slow, failing := right, right, right, right
	large.MemoryPeak, silent.Answered, slow.Slowest, failing.Failed = 1<<30, 0, 3000, 1
	if found := right.problems(); len(found) > 0 {
		t.Error(found)
	}
	for _, one := range []flood{large, silent, slow, failing} {
		if len(one.problems()) != 1 {
			t.Errorf("%+v: %q", one, one.problems())
		}
	}
}
