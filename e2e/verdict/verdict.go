// Package verdict says which of the requests that ended badly a scenario counts apart, and which are failures. Everything is
// a failure unless an allowance with a reason, a class and a time takes it. It never sends and never changes an event.
package verdict

import (
	"strings"
	"sync"
	"time"

	"fairway/e2e/load"
)

// Window is a time in which something was being killed. It is open until its end is known.
type Window struct{ From, To time.Time }

// Windows are those of one kind of fault; a scenario opens and closes them while streams run.
type Windows struct {
	lock sync.Mutex
	all  []Window
}

// Open begins a window now; the function that it returns ends it.
func (w *Windows) Open() (end func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.all = append(w.all, Window{From: time.Now()})
	place := len(w.all) - 1
	return func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.all[place].To = time.Now()
	}
}

// Holds says whether the time from begin to end touches a window.
func (w *Windows) Holds(begin, end time.Time) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, window := range w.all {
		if end.After(window.From) && (window.To.IsZero() || begin.Before(window.To)) {
			return true
		}
	}
	return false
}

// Allowance takes events that the client sees as errors and that are no failures of Fairway.
type Allowance struct {
	// Name is how they are counted apart.
	Name string
	// Takes says whether an event is one of them.
	Takes func(load.Event) bool
}

// PostLostToDyingPod takes POSTs that Fairway had written to an endpoint when it died, and that must not be sent again: the
// client is told so with 502 and the reason `upstream_closed`, while a pod was going. A black hole says nothing, so there it
// is 504 `upstream_timeout`, or `upstream_unreachable` on a connection that was made before.
func PostLostToDyingPod(dying *Windows) Allowance {
	return Allowance{Name: "POST already written to a dying pod", Takes: func(e load.Event) bool {
		told := e.Class == "status 502" && e.Reason == "upstream_closed" || e.Class == "status 504" && (e.Reason == "upstream_timeout" || e.Reason == "upstream_unreachable")
		return e.Method == "POST" && told && dying.Holds(e.Begin, e.End)
	}}
}

// CallLostToDyingPod accepts gRPC calls that Fairway had written to an endpoint when it died: the client gets UNAVAILABLE.
func CallLostToDyingPod(dying *Windows) Allowance {
	return Allowance{Name: "call already written to a dying pod", Takes: func(e load.Event) bool {
		told := e.Class == "grpc Unavailable" && (e.Reason == "upstream_closed" || e.Reason == "upstream_truncated" || e.Reason == "upstream_unreachable")
		return told && dying.Holds(e.Begin, e.End)
	}}
}

// AnswerCutByKill accepts responses that a backend had begun when it was killed with -9: the client sees them end early.
func AnswerCutByKill(kills *Windows) Allowance {
	return Allowance{Name: "answer cut by kill -9 of its backend", Takes: func(e load.Event) bool {
		return e.Class == load.Truncated && kills.Holds(e.Begin, e.End)
	}}
}

// CutInKilledFairway takes requests whose connection was in a Fairway process when that was killed with -9: they end with a
// reset or an end, on a connection that was opened before the kill was over.
func CutInKilledFairway(kills *Windows) Allowance {
	return Allowance{Name: "inside a Fairway process killed with -9", Takes: func(e load.Event) bool {
		cut := e.Class == load.Reset || e.Class == load.EOFBeforeHead || e.Class == load.Truncated
		return cut && kills.Holds(e.Begin, e.End)
	}}
}

// RefusedByKilledFairway takes connections that were refused because the Service still had the address of a killed container.
func RefusedByKilledFairway(absent *Windows) Allowance {
	return Allowance{Name: "refused by a killed Fairway container", Takes: func(e load.Event) bool {
		return e.Class == load.ConnectRefused && absent.Holds(e.Begin, e.End)
	}}
}

// Verdict is what became of the events of a stream.
type Verdict struct {
	Failed []load.Event
	// Apart counts events by the allowance that took them.
	Apart map[string]int
	// Uncounted are failed requests beyond the recorded events: they count as failed.
	Uncounted int
}

// Judge gives each event to the first allowance that accepts it; the others have failed.
func Judge(report load.Report, allowances ...Allowance) Verdict {
	v := Verdict{Apart: map[string]int{}, Uncounted: report.Counts.Requests - report.Counts.OK - len(report.Events)}
	for _, event := range report.Events {
		if name := acceptingAllowance(event, allowances); name != "" {
			v.Apart[name]++
		} else {
			v.Failed = append(v.Failed, event)
		}
	}
	return v
}

func acceptingAllowance(event load.Event, allowances []Allowance) string {
	for _, allowance := range allowances {
		if allowance.Takes(event) {
			return allowance.Name
		}
	}
	return ""
}

// Failures is how many requests failed.
func (v Verdict) Failures() int { return len(v.Failed) + v.Uncounted }

// Examples is the first failures, one in a line.
func (v Verdict) Examples(count int) string {
	var lines []string
	for _, event := range v.Failed[:min(count, len(v.Failed))] {
		lines = append(lines, "  "+event.String())
	}
	return strings.Join(lines, "\n")
}
