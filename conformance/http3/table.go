package main

// This file owns the tables of results in README.md.

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// The tables are between these lines.
const (
	tableBegin = "<!-- http3:begin -->\n"
	tableEnd   = "<!-- http3:end -->"
)

// writeTable replaces the tables of a page by those of the results in files.
func writeTable(page string, files []string) error {
	var all []*results
	for _, file := range files {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		found := &results{}
		if err := json.Unmarshal(text, found); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, found)
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
	return os.WriteFile(page, []byte(before+tableBegin+tables(all)+tableEnd+after), 0o644)
}

func tables(all []*results) string {
	var page strings.Builder
	for _, one := range all {
		var with []string
		for _, name := range slices.Sorted(maps.Keys(one.Versions)) {
			with = append(with, name+" "+one.Versions[name])
		}
		fmt.Fprintf(&page, "\n%s %s: revision %s, with %s. %d cases, %d unexpected.\n", one.Peer, one.Version, one.Revision, strings.Join(with, ", "),
			one.count(), one.Unexpected)
	}
	areasTable(&page, all)
	for _, one := range all {
		one.throughputTable(&page)
	}
	for _, one := range all {
		one.floodsTable(&page)
	}
	for index, one := range all {
		if index == 0 {
			one.unexpectedTable(&page)
		} else if one.Unexpected > 0 {
			fmt.Fprintf(&page, "\n[results-%[1]s.json](results-%[1]s.json) lists the unexpected results of %[1]s, with the rules.\n", one.Peer)
		}
	}
	return page.String()
}

// row writes cells. Nothing in a cell may end it.
func row(page *strings.Builder, cells ...string) {
	for index, cell := range cells {
		cells[index] = strings.NewReplacer("|", `\|`, "\r", `\r`, "\n", `\n`).Replace(cell)
	}
	fmt.Fprintf(page, "| %s |\n", strings.Join(cells, " | "))
}

// areasTable counts the cases that are as expected.
func areasTable(page *strings.Builder, all []*results) {
	header, line := []string{"cases as expected"}, []string{"---"}
	var areas []string
	for _, one := range all {
		header, line = append(header, one.Peer), append(line, "---")
		for _, area := range one.Areas {
			if !slices.Contains(areas, area) && area != "floods" {
				areas = append(areas, area)
			}
		}
	}
	page.WriteString("\n")
	row(page, header...)
	row(page, line...)
	for _, area := range areas {
		cells := []string{area}
		for _, one := range all {
			cell := "-"
			if tally := one.Tallies[area]; tally != nil {
				cell = fmt.Sprintf("%d/%d", tally.Right, tally.All)
			}
			cells = append(cells, cell)
		}
		row(page, cells...)
	}
}

func (results *results) floodsTable(page *strings.Builder) {
	if len(results.Floods) == 0 {
		return
	}
	fmt.Fprintf(page, "\nFloods of %s. Latencies are those of another client's sequential requests during the flood.\n\n", results.Peer)
	row(page, "flood", "sent", "seconds", "memory, MiB: before, peak, after", "median, slowest, ms", "slowest new connection, ms", "the server")
	row(page, "---", "---", "---", "---", "---", "---", "---")
	for _, one := range results.Floods {
		row(page, one.Name, one.Sent, fmt.Sprintf("%.1f", one.Seconds),
			fmt.Sprintf("%d, %d, %d", one.MemoryBefore>>20, one.MemoryPeak>>20, one.MemoryAfter>>20),
			fmt.Sprintf("%.1f, %.1f", one.Median, one.Slowest), fmt.Sprintf("%.1f", one.Connect), one.End)
	}
}

// unexpectedTable shows the cases that are not as expected; those of an area with the same result share a row.
func (results *results) unexpectedTable(page *strings.Builder) {
	if results.Unexpected == 0 {
		return
	}
	fmt.Fprintf(page, "\nUnexpected results of %s:\n\n", results.Peer)
	row(page, "where", "cases", "what is not as expected", "rules")
	row(page, "---", "---", "---", "---")
	type same struct{ area, what string }
	names, rules := map[same][]string{}, map[same][]string{}
	var order []same
	for _, one := range results.Cases {
		if len(one.Problems) == 0 {
			continue
		}
		key := same{one.area(), strings.ReplaceAll(strings.Join(one.Problems, "; "), " ("+one.Rule+")", "")}
		if names[key] == nil {
			order = append(order, key)
		}
		names[key] = append(names[key], one.Name)
		if !slices.Contains(rules[key], one.Rule) {
			rules[key] = append(rules[key], one.Rule)
		}
	}
	for _, key := range order {
		row(page, key.area, strings.Join(names[key], "; "), key.what, strings.Join(rules[key], "; "))
	}
}
