package main

import (
	"testing"

	"fairway.dev/conformance/http3/backend"
	"fairway.dev/conformance/http3/peer"
)

func TestHostileCasesAreWhole(t *testing.T) {
	for _, table := range []struct {
		capacity, blocked uint64
		least             int
	}{{0, 0, 200}, {4096, 16, 220}, {4096, 0, 200}} {
		cases := hostileCases(table.capacity, table.blocked)
		if len(cases) < table.least {
			t.Errorf("only %d cases", len(cases))
		}
		names := map[string]bool{}
		for _, one := range cases {
			name := one.area + ": " + one.name
			if names[name] {
				t.Errorf("%s: twice", name)
			}
			names[name] = true
			if one.rule == "" || len(one.wants) == 0 || len(one.steps) == 0 {
				t.Errorf("%s: not whole: %+v", name, one)
			}
			for _, step := range one.steps {
				if (step.stream == "") != (step.then == stopServer) {
					t.Errorf("%s: a step without a stream", name)
				}
			}
		}
	}
}

func TestOutcomesAreCompared(t *testing.T) {
	for _, one := range []struct {
		got, want outcome
		is        bool
	}{
		{outcome{kind: response, status: "431"}, outcome{kind: response, status: "4xx"}, true},
		{outcome{kind: response, status: "200"}, outcome{kind: response, status: "4xx"}, false},
		{outcome{kind: response}, outcome{kind: response, status: "4xx"}, false},
		{outcome{kind: streamError, code: messageError}, outcome{kind: streamError, code: messageError}, true},
		{outcome{kind: connectionError, code: messageError}, outcome{kind: streamError, code: messageError}, false},
		{outcome{kind: streamError, code: frameError}, outcome{kind: streamError, code: messageError}, false},
	} {
		if one.got.is(one.want) != one.is {
			t.Errorf("%s is %s", one.got, one.want)
		}
	}
}

func TestSmugglingCasesAreWhole(t *testing.T) {
	names := map[string]bool{}
	for _, one := range smuggledCases() {
		if names[one.name] {
			t.Errorf("%s: twice", one.name)
		}
		names[one.name] = true
		if one.rule == "" || one.want == "" || len(one.fields) == 0 {
			t.Errorf("%s: not whole: %+v", one.name, one)
		}
	}
	if len(names) < 100 {
		t.Errorf("only %d cases", len(names))
	}
}

func TestJudgeSeesWhatASmuggledRequestLeaves(t *testing.T) {
	marked := backend.Recorded{Method: "GET", Target: marker, Authority: peer.RawHost, IsWhole: true}
	one := backend.Recorded{Method: "POST", Target: "/case", Authority: peer.RawHost, Body: []byte("body"), IsWhole: true}
	other, partial, torn, poisoned := one, one, one, marked
	other.Target, partial.IsWhole, torn.Body, poisoned.Body = "/smuggled", false, nil, []byte("x")
	sent := smuggledCase{fields: rawHead("POST", "/case"), want: forwarded, body: "body"}
	unwanted := smuggledCase{fields: rawHead("POST", "/case"), want: refused}
	bounded := smuggledCase{fields: rawHead("POST", "/case"), want: cut, body: "body"}
	for name, check := range map[string]struct {
		sent    smuggledCase
		answer  string
		seen    []backend.Recorded
		isRight bool
	}{
		"forwarded":             {sent, "200", []backend.Recorded{one, marked}, true},
		"not forwarded":         {sent, "400", []backend.Recorded{marked}, false},
		"two requests":          {sent, "200", []backend.Recorded{one, other, marked}, false},
		"another target":        {sent, "200", []backend.Recorded{other, marked}, false},
		"another body":          {sent, "200", []backend.Recorded{torn, marked}, false},
		"no marker":             {sent, "200", []backend.Recorded{one}, false},
		"a marker with a body":  {sent, "200", []backend.Recorded{one, poisoned}, false},
		"refused":               {unwanted, "400", []backend.Recorded{marked}, true},
		"refused while it came": {unwanted, "stream error", []backend.Recorded{partial, marked}, true},
		"cut at its length":     {bounded, "stream error", []backend.Recorded{one, marked}, true},
		"cut before it":         {bounded, "stream error", []backend.Recorded{partial, marked}, true},
		"cut and answered":      {bounded, "200", []backend.Recorded{one, marked}, false},
		"not refused":           {unwanted, "200", []backend.Recorded{one, marked}, false},
	} {
		if problems := judge(check.sent, peer.RawHost, check.answer, check.seen); (len(problems) == 0) != check.isRight {
			t.Errorf("%s: %q", name, problems)
		}
	}
}
