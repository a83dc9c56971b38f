package main

// This file owns the comparison of throughput through the relay, and its table.

import (
	"fmt"
	"slices"
	"strings"
)

// throughput compares two servers in one condition.
type throughput struct {
	Condition string `json:"condition"`
	Bytes     int64  `json:"bytes"`
	// Download and Upload are MiB/s, and Requests milliseconds for all requests.
	Download comparison `json:"download_mib_s"`
	Upload   comparison `json:"upload_mib_s"`
	Requests comparison `json:"requests_ms"`
	// Failed are the transfers of the one and of the other that did not succeed; they are in no figure.
	Failed       int `json:"failed"`
	FailedQUICGo int `json:"quic_go_failed"`
	// Passed and Lost are the datagrams that the relay forwarded and dropped, for whatever reason, for both.
	Passed       int64 `json:"passed"`
	PassedQUICGo int64 `json:"quic_go_passed"`
	Lost         int64 `json:"lost"`
	LostQUICGo   int64 `json:"quic_go_lost"`
}

// comparison has the medians of two servers, and how many times as fast as quic-go's Fairway was in a block: the median, the least and
// the most.
type comparison struct {
	Fairway float64 `json:"fairway"`
	QUICGo  float64 `json:"quic_go"`
	Ratio   float64 `json:"ratio"`
	Least   float64 `json:"least"`
	Most    float64 `json:"most"`
}

// newThroughput compares the passages of two servers, of which those of the same place belong together.
func newThroughput(condition condition, fairway, other []passage) throughput {
	perSecond := func(seconds float64) float64 { return float64(condition.size) / (1 << 20) / seconds }
	milliseconds := func(seconds float64) float64 { return seconds * 1000 }
	found := throughput{Condition: condition.name, Bytes: condition.size,
		Download: compared(fairway, other, 0, perSecond), Upload: compared(fairway, other, 1, perSecond), Requests: compared(fairway, other, 2, milliseconds),
		Failed: failed(fairway), FailedQUICGo: failed(other)}
	counts, others := sum(fairway), sum(other)
	found.Passed, found.Lost = counts.Passed, counts.Lost+counts.Full+counts.TooLong
	found.PassedQUICGo, found.LostQUICGo = others.Passed, others.Lost+others.Full+others.TooLong
	return found
}

// compared leaves out blocks in which one of both failed.
func compared(fairway, other []passage, measure int, unit func(seconds float64) float64) comparison {
	var one, two, ratios []float64
	for block := range min(len(fairway), len(other)) {
		if fairway[block].problems[measure] != nil || other[block].problems[measure] != nil {
			continue
		}
		mine, theirs := fairway[block].seconds[measure], other[block].seconds[measure]
		one, two, ratios = append(one, unit(mine)), append(two, unit(theirs)), append(ratios, theirs/mine)
	}
	if len(ratios) == 0 {
		return comparison{}
	}
	return comparison{median(one), median(two), median(ratios), slices.Min(ratios), slices.Max(ratios)}
}

func failed(passages []passage) int {
	count := 0
	for _, one := range passages {
		for _, err := range one.problems {
			if err != nil {
				count++
			}
		}
	}
	return count
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// cells are the columns of a comparison.
func (one comparison) cells(format string) []string {
	if one.Ratio == 0 {
		return []string{"-", "-"}
	}
	return []string{fmt.Sprintf(format+", "+format, one.Fairway, one.QUICGo), fmt.Sprintf("%.2f (%.2f-%.2f)", one.Ratio, one.Least, one.Most)}
}

// cells are the columns of a row.
func (one throughput) cells() []string {
	cells := append([]string{one.Condition}, one.Download.cells("%.1f")...)
	cells = append(append(cells, one.Upload.cells("%.1f")...), one.Requests.cells("%.0f")...)
	return append(cells, fmt.Sprintf("%d, %d", one.Failed, one.FailedQUICGo))
}

func (one throughput) String() string {
	return fmt.Sprintf("%s; datagrams passed %d, %d; dropped %d, %d", strings.Join(one.cells(), " | "), one.Passed, one.PassedQUICGo, one.Lost, one.LostQUICGo)
}

func (results *results) throughputTable(page *strings.Builder) {
	if len(results.Throughputs) == 0 {
		return
	}
	fmt.Fprintf(page, "\nThroughput of %s and, after the comma, of quic-go's server through the relay: medians of %d blocks, seed %d. Ratios above 1 mean that\n"+
		"%s was faster; they are the median, the smallest and the largest of the blocks.\n\n", results.Peer, results.Blocks, results.Seed, results.Peer)
	row(page, "network", "download, MiB/s", "ratio", "upload, MiB/s", "ratio", fmt.Sprint(streamsAtOnce, " requests at once, ms"), "ratio", "failed")
	row(page, "---", "---", "---", "---", "---", "---", "---", "---")
	for _, one := range results.Throughputs {
		row(page, one.cells()...)
	}
}
