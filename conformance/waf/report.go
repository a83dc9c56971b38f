package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
)

// results are written as results.json.
type results struct {
	Revision    string `json:"revision"`
	Coraza      string `json:"coraza"`
	CoreRuleSet string `json:"core_rule_set"`
	Runs        []*run `json:"runs"`
}

// run is all tests in one way.
type run struct {
	Path string `json:"path"` // direct or fairway
	HTTP string `json:"http"`
	Mode string `json:"mode"`
	// Total is the sum of the four below.
	Total      int    `json:"total"`
	Same       int    `json:"same"`
	Different  []note `json:"different"`
	Refused    []note `json:"refused"`     // by the proxy, before the WAF was asked
	NotSayable []note `json:"not_sayable"` // in this protocol
	// Expected is how many of the compared verdicts are those that the Core Rule Set's authors expect of Coraza alone; Unexpected are the
	// others, which are no fault of a proxy.
	Expected   int      `json:"expected"`
	Unexpected []string `json:"unexpected"`
}

type note struct {
	Test   string `json:"test"`
	Reason string `json:"reason"`
}

func newResults(revision string) *results {
	r := &results{Revision: revision}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "github.com/corazawaf/coraza/v3":
				r.Coraza = module.Version
			case "github.com/corazawaf/coraza-coreruleset/v4":
				r.CoreRuleSet = module.Version
			}
		}
	}
	return r
}

// expect counts whether Coraza alone does what a test expects.
func (r *run) expect(c testCase, v verdict) {
	met := true
	for _, id := range c.Expected.Log.Expect {
		met = met && slices.Contains(v.Rules, id)
	}
	for _, id := range c.Expected.Log.NoExpect {
		met = met && !slices.Contains(v.Rules, id)
	}
	if met {
		r.Expected++
	} else {
		r.Unexpected = append(r.Unexpected, c.ID)
	}
}

func (r *results) table(w io.Writer) {
	fmt.Fprintf(w, "Coraza %s, Core Rule Set %s\n\n", r.Coraza, r.CoreRuleSet)
	fmt.Fprintln(w, "| path | HTTP | mode | tests | same verdict | different | refused before the WAF | not sayable |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, each := range r.Runs {
		fmt.Fprintf(w, "| %s | %s | %s | %d | %d | %d | %d | %d |\n", each.Path, each.HTTP, each.Mode, each.Total, each.Same,
			len(each.Different), len(each.Refused), len(each.NotSayable))
	}
	for _, each := range r.Runs {
		fmt.Fprintf(w, "\n%s, HTTP/%s, %s: Coraza alone meets %d of %d expectations\n", each.Path, each.HTTP, each.Mode, each.Expected,
			each.Expected+len(each.Unexpected))
		for _, list := range []struct {
			name  string
			notes []note
		}{{"different", each.Different}, {"refused", each.Refused}, {"not sayable", each.NotSayable}} {
			for _, note := range list.notes {
				fmt.Fprintf(w, "  %s: %s: %s\n", list.name, note.Test, note.Reason)
			}
		}
	}
}

func (r *results) write(path string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}

func (r *results) different() int {
	count := 0
	for _, each := range r.Runs {
		count += len(each.Different)
	}
	return count
}
