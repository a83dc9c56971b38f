package fairway

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Samples are the values of one scrape: name, labels as they are written, value.
type Samples map[string]map[string]float64

// The metrics that a test asks for.
const (
	ItemsSent         = "fairway_otlp_items_sent_total"
	ItemsDropped      = "fairway_otlp_items_dropped_total"
	ExchangesDropped  = "fairway_trace_exchanges_dropped_total"
	UpstreamConnected = "fairway_upstream_connections_total"
	QueueItems        = "fairway_otlp_queue_items"
)

// sample is a line of the text format of Prometheus.
var sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)`)

// Scrape asks for the metrics.
func (process *Process) Scrape() (Samples, error) {
	client := http.Client{Timeout: scrapeTimeout}
	response, err := client.Get("http://" + process.Admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics returned %s", response.Status)
	}
	return readSamples(string(text)), nil
}

func readSamples(text string) Samples {
	samples := Samples{}
	for line := range strings.Lines(text) {
		found := sample.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue
		}
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			continue
		}
		if samples[found[1]] == nil {
			samples[found[1]] = map[string]float64{}
		}
		samples[found[1]][found[2]] = value
	}
	return samples
}

// Has says whether the scrape has the metric.
func (samples Samples) Has(name string) bool { return samples[name] != nil }

// Sum is the sum over all series of a metric whose labels contain each of these texts, as in `signal="traces"`.
func (samples Samples) Sum(name string, labels ...string) int {
	var sum float64
	for written, value := range samples[name] {
		matches := true
		for _, label := range labels {
			matches = matches && strings.Contains(written, label)
		}
		if matches {
			sum += value
		}
	}
	return int(sum)
}
