package metrics

import (
	"strings"
	"testing"
	"time"
)

func TestSeriesOfRulesAreBounded(t *testing.T) {
	m := New()
	for rule := range 3 * maxRules {
		m.Finished(Interrupted, "request_body", []int{rule})
	}
	m.Finished(Passed, "", []int{0})
	m.Step("logging", 3*time.Millisecond)
	m.Step("logging", time.Minute)
	var out strings.Builder
	m.Write(&out)
	if count := strings.Count(out.String(), "fairway_waf_rule_matches_total{"); count != maxRules+1 {
		t.Errorf("%d series", count)
	}
	for _, line := range []string{
		`fairway_waf_rule_matches_total{rule="0"} 2`,
		`fairway_waf_rule_matches_total{rule="other"} 1024`,
		`fairway_waf_transactions_total{result="interrupted"} 1536`,
		`fairway_waf_interruptions_total{phase="request_body"} 1536`,
		`fairway_waf_phase_duration_seconds_bucket{phase="logging",le="0.0025"} 0`,
		`fairway_waf_phase_duration_seconds_bucket{phase="logging",le="0.005"} 1`,
		`fairway_waf_phase_duration_seconds_bucket{phase="logging",le="+Inf"} 2`,
		`fairway_waf_phase_duration_seconds_count{phase="logging"} 2`,
		`fairway_waf_compile_duration_seconds_count 0`,
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no %s in\n%s", line, out.String())
		}
	}
}
