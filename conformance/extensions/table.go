package main

// This file owns the tables of results in README.md.

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"fairway.dev/conformance/extensions/proxy"
)

// The tables are between these lines.
const (
	tableBegin = "<!-- extensions:begin -->\n"
	tableEnd   = "<!-- extensions:end -->"
)

// writeTable replaces the tables of a page by those of the results in files.
func writeTable(page string, files []string) error {
	var tables strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		var found results
		if err := json.Unmarshal(text, &found); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		tables.WriteString(found.table())
	}
	document, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, hasBegin := strings.Cut(string(document), tableBegin)
	_, after, hasEnd := strings.Cut(rest, tableEnd)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s has no place for the tables", page)
	}
	return os.WriteFile(page, []byte(before+tableBegin+tables.String()+tableEnd+after), 0o644)
}

func (results *results) table() string {
	var page strings.Builder
	var with []string
	for _, name := range slices.Sorted(maps.Keys(results.Versions)) {
		with = append(with, name+" "+results.Versions[name])
	}
	fmt.Fprintf(&page, "\n### %s %s\n\nRevision %s, with %s: %d unexpected results.\n\n", results.Peer, results.Version, results.Revision,
		strings.Join(with, ", "), results.Unexpected)
	page.WriteString("| part | cases | unexpected | known differences | hangs | torn bodies | crashes | seconds | memory, MiB: before, after, peak |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, one := range results.Parts {
		fmt.Fprintf(&page, "| `%s` | %d | %d | %d | %d | %d | %d | %.0f | %d, %d, %d |\n", one.Name, one.Cases, one.Unexpected, one.Differences, one.Hangs, one.Torn,
			one.Crashes, one.Seconds,
			one.MemoryBefore>>20, one.MemoryAfter>>20, one.MemoryPeak>>20)
	}
	results.modesTable(&page)
	results.failuresTable(&page)
	results.differencesTable(&page)
	return page.String()
}

// tally counts cases that were as expected.
type tally struct {
	Right int `json:"right"`
	All   int `json:"all"`
}

// tallies are by row and column of a table.
type tallies map[string]map[string]*tally

func (tally *tally) String() string {
	if tally == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d", tally.Right, tally.All)
}

// count groups the cases of a part by two parts of their names.
func (results *results) count(part string, row, column func(names []string) string) tallies {
	found := tallies{}
	for _, one := range results.Cases {
		names := strings.Split(one.Name, "/")
		if one.Part != part || len(names) < 4 {
			continue
		}
		row, column := row(names), column(names)
		if found[row] == nil {
			found[row] = map[string]*tally{}
		}
		if found[row][column] == nil {
			found[row][column] = &tally{}
		}
		found[row][column].All++
		if len(one.Problems) == 0 {
			found[row][column].Right++
		}
	}
	return found
}

func (results *results) countModes() tallies {
	return results.count("modes", func(names []string) string { return "`" + names[0] + "` | `" + names[1] + "`" },
		func(names []string) string { return names[2] })
}

func (results *results) countFailures() tallies {
	return results.count("failures", func(names []string) string {
		_, kind, _ := strings.Cut(names[3], ": ")
		return kind
	}, func(names []string) string { return names[0] + " " + names[1] })
}

// sum adds up the columns of rows.
func (tallies tallies) sum(rows ...string) *tally {
	sum := &tally{}
	for _, row := range rows {
		for _, one := range tallies[row] {
			sum.Right += one.Right
			sum.All += one.All
		}
	}
	return sum
}

// hasDifferences tells whether a case was not as expected.
func (tallies tallies) hasDifferences() bool {
	sum := tallies.sum(slices.Collect(maps.Keys(tallies))...)
	return sum.Right != sum.All
}

// modesTable shows each pair of modes, over all pairs of protocols, if a case was not as expected.
func (results *results) modesTable(page *strings.Builder) {
	counts := results.Modes
	if !counts.hasDifferences() {
		return
	}
	page.WriteString("\nCases of `modes` as expected, by the mode of the request body (rows) and of the response body (columns):\n\n| request |")
	for _, response := range proxy.BodyModes {
		fmt.Fprintf(page, " `%s` |", response)
	}
	page.WriteString("\n| --- |" + strings.Repeat(" --- |", len(proxy.BodyModes)) + "\n")
	for _, request := range proxy.BodyModes {
		fmt.Fprintf(page, "| `%s` |", request)
		for _, response := range proxy.BodyModes {
			fmt.Fprintf(page, " %s |", counts.sum("`"+request+"` | `"+response+"`"))
		}
		page.WriteString("\n")
	}
}

// failuresTable shows the failures of which a case was not as expected, with each failure mode.
func (results *results) failuresTable(page *strings.Builder) {
	counts := results.Failures
	if !counts.hasDifferences() {
		return
	}
	page.WriteString("\nFailures of a service of which not every case was as expected, at each of the six messages, with HTTP/1 and HTTP/2:\n\n| the service |")
	var columns []string
	for _, mode := range failureModes {
		columns = append(columns, mode+" closed", mode+" open")
	}
	for _, column := range columns {
		fmt.Fprintf(page, " %s |", column)
	}
	page.WriteString("\n| --- |" + strings.Repeat(" --- |", len(columns)) + "\n")
	for _, kind := range failureKinds {
		if sum := counts.sum(kind.name); sum.Right == sum.All {
			continue
		}
		fmt.Fprintf(page, "| %s |", kind.name)
		for _, column := range columns {
			fmt.Fprintf(page, " %s |", counts[kind.name][column])
		}
		page.WriteString("\n")
	}
}

// differencesTable shows where a peer is known to do something else.
func (results *results) differencesTable(page *strings.Builder) {
	counts := map[string]int{}
	for _, one := range results.Cases {
		if one.Difference != "" {
			counts[one.Difference]++
		}
	}
	if len(counts) == 0 {
		return
	}
	fmt.Fprintf(page, "\nKnown differences of %s from the expected results:\n\n| cases | what it does |\n| --- | --- |\n", results.Peer)
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(page, "| %d | %s |\n", counts[why], why)
	}
}
