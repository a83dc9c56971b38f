package fairway

import "testing"

func TestSamplesAreReadWithTheirLabels(t *testing.T) {
	samples := readSamples(`# HELP a_total something
# TYPE a_total counter
a_total{signal="traces",reason="queue_full"} 3
a_total{signal="traces",reason="rejected"} 4
a_total{signal="logs",reason="queue_full"} 5 1700000000
b 1e3
not a sample
`)
	for _, one := range []struct {
		name   string
		labels []string
		want   int
	}{
		{"a_total", nil, 12}, {"a_total", []string{`signal="traces"`}, 7}, {"a_total", []string{`signal="traces"`, `reason="rejected"`}, 4},
		{"b", nil, 1000}, {"c", nil, 0},
	} {
		if got := samples.Sum(one.name, one.labels...); got != one.want {
			t.Errorf("%s %v: %d and not %d", one.name, one.labels, got, one.want)
		}
	}
	if !samples.Has("b") || samples.Has("c") {
		t.Error(samples)
	}
}
