package metrics

import (
	"math"
	"strings"
	"testing"
)

const text = `# TYPE took histogram
took_bucket{source="a b",le="0.001"} 90
took_bucket{source="a b",le="0.005"} 99
took_bucket{source="a b",le="+Inf"} 100
took_bucket{source="other",le="0.001"} 0
took_bucket{source="other",le="0.005"} 10
took_bucket{source="other",le="+Inf"} 10
plain 4
labelled{worker="1"} 2
labelled{worker="2"} 3.5
`

func TestReadsValuesAndHistograms(t *testing.T) {
	page, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if value, found := page.Value("labelled", nil); value != 5.5 || !found {
		t.Errorf("labelled is %v", value)
	}
	if value, found := page.Value("labelled", map[string]string{"worker": "2"}); value != 3.5 || !found {
		t.Errorf("labelled of worker 2 is %v", value)
	}
	if _, found := page.Value("missing", nil); found {
		t.Error("found what is not there")
	}
	all := page.Histogram("took", nil)
	if all.Count() != 110 || all.PercentileBound(0.5) != 0.001 || all.PercentileBound(0.95) != 0.005 || !math.IsInf(all.PercentileBound(1), 1) {
		t.Errorf("%v", all)
	}
	one := page.Histogram("took", map[string]string{"source": "other"})
	if one.Count() != 10 || one.PercentileBound(0.01) != 0.005 {
		t.Errorf("%v", one)
	}
	if later := all.Since(one); later.Count() != 100 || later.Add(one).Count() != 110 {
		t.Errorf("%v", later)
	}
}

func TestSaysWhatIsNoMetric(t *testing.T) {
	for _, line := range []string{"alone", "name{a=\"b\"}", "name value"} {
		if _, err := Parse(strings.NewReader(line)); err == nil {
			t.Errorf("%q was taken", line)
		}
	}
}
