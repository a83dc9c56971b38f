package verdict

import (
	"testing"
	"time"

	"fairway/e2e/load"
)

func event(class load.Class, reason, method string, begin time.Time) load.Event {
	return load.Event{Class: class, Reason: reason, Method: method, Begin: begin, End: begin.Add(10 * time.Millisecond)}
}

// fixed is one window of a second that begins now.
func fixed() (*Windows, time.Time) {
	now := time.Now()
	return &Windows{all: []Window{{From: now, To: now.Add(time.Second)}}}, now
}

func verdictOf(events []load.Event, allowances ...Allowance) Verdict {
	report := load.Report{Events: events}
	report.Counts.Requests = len(events)
	return Judge(report, allowances...)
}

func TestWithoutAnAllowanceEverythingHasFailed(t *testing.T) {
	v := verdictOf([]load.Event{event("status 502", "upstream_closed", "POST", time.Now())})
	if v.Failures() != 1 || len(v.Apart) != 0 {
		t.Fatalf("%+v", v)
	}
}

func TestOnlyPostsThatWereToldSoWhileAPodDiedAreLostToIt(t *testing.T) {
	dying, now := fixed()
	in := now.Add(100 * time.Millisecond)
	v := verdictOf([]load.Event{
		event("status 502", "upstream_closed", "POST", in),
		event("status 504", "upstream_timeout", "POST", in),
		event("status 504", "upstream_unreachable", "POST", in),
		event("status 502", "upstream_closed", "GET", in),
		event("status 502", "connect_failed", "POST", in),
		event(load.Reset, "", "POST", in),
		event("status 502", "upstream_closed", "POST", now.Add(2*time.Second)),
	}, PostLostToDyingPod(dying))
	if v.Failures() != 4 || v.Apart["POST already written to a dying pod"] != 3 {
		t.Fatalf("%+v", v)
	}
}

func TestOnlyCallsThatWereToldSoWhileAPodDiedAreLostToIt(t *testing.T) {
	dying, now := fixed()
	in := now.Add(100 * time.Millisecond)
	v := verdictOf([]load.Event{
		event("grpc Unavailable", "upstream_closed", "POST", in),
		event("grpc Unavailable", "upstream_truncated", "POST", in),
		event("grpc Unavailable", "no_endpoint", "POST", in),
		event("grpc Internal", "upstream_closed", "POST", in),
		event(load.Hanging, "", "POST", in),
		event("grpc Unavailable", "upstream_closed", "POST", now.Add(2*time.Second)),
	}, CallLostToDyingPod(dying))
	if v.Failures() != 4 || v.Apart["call already written to a dying pod"] != 2 {
		t.Fatalf("%+v", v)
	}
}

func TestAKilledFairwayMayCutAndRefuseButNotAnswerWrongly(t *testing.T) {
	kills, now := fixed()
	v := verdictOf([]load.Event{
		event(load.Reset, "", "GET", now),
		event(load.EOFBeforeHead, "", "POST", now),
		event(load.ConnectRefused, "", "GET", now),
		event(load.ConnectTimeout, "", "GET", now),
		event(load.WrongBody, "", "GET", now),
		event("status 503", "no_endpoint", "GET", now),
	}, CutInKilledFairway(kills), RefusedByKilledFairway(kills))
	if v.Failures() != 3 || len(v.Apart) != 2 {
		t.Fatalf("%+v", v)
	}
}

func TestAnOpenWindowHoldsUntilItsEnd(t *testing.T) {
	var windows Windows
	before := time.Now()
	end := windows.Open()
	if !windows.Holds(time.Now(), time.Now()) || windows.Holds(before.Add(-time.Second), before.Add(-time.Millisecond)) {
		t.Fatal("the open window")
	}
	end()
	if later := time.Now().Add(time.Millisecond); windows.Holds(later, later.Add(time.Second)) {
		t.Fatal("the window has ended")
	}
}

func TestEventsThatWereNotKeptHaveFailed(t *testing.T) {
	var report load.Report
	report.Counts.Requests, report.Counts.OK = 10, 7
	if got := Judge(report).Failures(); got != 3 {
		t.Fatalf("%d", got)
	}
}
