package main

import (
	"errors"
	"strings"
	"testing"

	"fairway.dev/conformance/http3/relay"
)

func passages(seconds ...float64) (all []passage) {
	for _, one := range seconds {
		all = append(all, passage{seconds: [len(measures)]float64{one, one, one}})
	}
	return all
}

func TestThroughputIsThatOfPairs(t *testing.T) {
	one, other := passages(1, 2, 4), passages(2, 2, 2)
	found := newThroughput(condition{name: "here", size: 8 << 20}, one, other)
	if want := (comparison{4, 4, 1, 0.5, 2}); found.Download != want || found.Upload != want {
		t.Errorf("%+v", found)
	}
	if want := (comparison{2000, 2000, 1, 0.5, 2}); found.Requests != want {
		t.Errorf("%+v", found)
	}
	one[0].problems[1] = errors.New("cut off")
	found = newThroughput(condition{name: "here", size: 8 << 20}, one, other)
	if found.Failed != 1 || found.FailedQUICGo != 0 || found.Upload.Most != 1 || found.Download.Most != 2 {
		t.Errorf("%+v", found)
	}
	none := newThroughput(condition{name: "here", size: 1}, one, nil)
	all := newResults(options{peer: "fairway"})
	all.Throughputs, all.Blocks, all.Seed = []throughput{found, none}, 3, 7
	page := tables([]*results{all})
	for _, want := range []string{"medians of 3 blocks, seed 7", "| here | 4.0, 4.0 | 1.00 (0.50-2.00) |", "| here | - | - | - | - | - | - | 1, 0 |"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

func TestMedianIsInTheMiddle(t *testing.T) {
	if median([]float64{3, 1, 2}) != 2 || median([]float64{4, 1, 2, 3}) != 2.5 {
		t.Error(median([]float64{3, 1, 2}), median([]float64{4, 1, 2, 3}))
	}
}

func TestRelayMustHaveDoneItsPart(t *testing.T) {
	for name, one := range map[string]struct {
		network relay.Network
		counts  relay.Counts
		isRight bool
	}{
		"nothing":           {relay.Network{}, relay.Counts{}, false},
		"plain":             {relay.Network{}, relay.Counts{Passed: 1}, true},
		"plain with loss":   {relay.Network{}, relay.Counts{Passed: 1, Lost: 1}, false},
		"loss":              {relay.Network{Loss: 0.1}, relay.Counts{Passed: 1, Lost: 1}, true},
		"loss without loss": {relay.Network{Loss: 0.1}, relay.Counts{Passed: 1}, false},
		"never held back":   {relay.Network{Held: 0.1}, relay.Counts{Passed: 1}, false},
		"never rebound":     {relay.Network{RebindEvery: 1}, relay.Counts{Passed: 1}, false},
	} {
		err := condition{network: one.network}.checkRelay([]passage{{counts: one.counts}})
		if (err == nil) != one.isRight {
			t.Errorf("%s: %v", name, err)
		}
	}
}
