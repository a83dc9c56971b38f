package results

import (
	"fmt"
	"strings"
	"testing"
	"time"

	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
)

func TestTheTableHasEveryProfileAndNamesWhatDidNotPass(t *testing.T) {
	var book Book
	book.Put("Outside", Failed)
	report := confv1.ConformanceReport{
		GatewayAPIVersion: "v1.6.3", GatewayAPIChannel: "experimental",
		ProfileReports: []confv1.ProfileReport{
			{Name: "GATEWAY-TLS", Core: confv1.Status{Result: confv1.Success, Statistics: confv1.Statistics{Passed: 3}}},
			{
				Name: "GATEWAY-HTTP",
				Core: confv1.Status{Result: confv1.Failure, FailedTests: []string{"Weight"}, Statistics: confv1.Statistics{Passed: 36, Failed: 1}},
				Extended: &confv1.ExtendedStatus{
					Status:            confv1.Status{Result: confv1.Partial, SkippedTests: []string{"CORS"}, Statistics: confv1.Statistics{Passed: 56, Skipped: 1}},
					SupportedFeatures: []string{"a", "b"}, UnsupportedFeatures: []string{"c"},
				},
			},
		},
	}
	table := Table(report, &book, []string{"Outside", "NeverRun"}, 90*time.Second)
	rows := map[string]string{}
	var order []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		rows[strings.Join(fields[:min(2, len(fields))], " ")] = strings.Join(fields, " ")
		order = append(order, fields[0])
	}
	for _, want := range []string{
		"GATEWAY-HTTP core failure 36 1 0",
		"GATEWAY-HTTP extended partial 56 0 1 2 of 3",
		"GATEWAY-TLS core success 3 0 0",
		"in no profile failure 0 1 1",
		"failed: Outside, Weight",
		"skipped: CORS, NeverRun",
		"Gateway API v1.6.3, experimental channel, in 1m30s",
	} {
		found := false
		for _, row := range rows {
			found = found || row == want
		}
		if !found {
			t.Errorf("no line %q in\n%s", want, table)
		}
	}
	if strings.Join(order[:4], " ") != "profile GATEWAY-HTTP GATEWAY-HTTP GATEWAY-TLS" {
		t.Errorf("the lines are in the order %v", order)
	}
}

func TestManySkippedTestsAreCountedAndFailedOnesNamed(t *testing.T) {
	names := make([]string, 30)
	for index := range names {
		names[index] = fmt.Sprintf("Test%02d", index)
	}
	report := confv1.ConformanceReport{ProfileReports: []confv1.ProfileReport{{
		Core:     confv1.Status{SkippedTests: names, FailedTests: names},
		Extended: &confv1.ExtendedStatus{Status: confv1.Status{SkippedTests: names[:1]}},
	}}}
	table := Table(report, &Book{}, nil, time.Second)
	if !strings.Contains(table, "skipped: 30 tests\n") || !strings.Contains(table, "failed: "+strings.Join(names, ", ")+"\n") {
		t.Error(table)
	}
}

func TestTheBookTellsFailedSkippedAndPassedTestsApart(t *testing.T) {
	var book Book
	for name, body := range map[string]func(*testing.T){
		"passes": func(*testing.T) {},
		"skips":  func(t *testing.T) { t.Skip() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { book.Record(t, suite.ConformanceTest{ShortName: name}, nil) })
			body(t)
		})
	}
	for name, want := range map[string]Outcome{"passes": Passed, "skips": Skipped} {
		if got, known := book.Of(name); got != want || !known {
			t.Errorf("%s: %v, %v", name, got, known)
		}
	}
	if _, known := book.Of("other"); known {
		t.Error("a test that nobody asked for has an outcome")
	}
}
