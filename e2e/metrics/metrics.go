// Package metrics reads what a process says of itself in the Prometheus text format. It knows no names of metrics.
package metrics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sample is one line: a series and its value.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Page is a scrape of a process.
type Page []Sample

// Read fetches a page.
func Read(ctx context.Context, address string) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s for metrics: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s for metrics: %w", address, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s for metrics: answered %s", address, response.Status)
	}
	return Parse(response.Body)
}

// Parse reads the text format.
func Parse(text io.Reader) (Page, error) {
	var page Page
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		sample, err := parseLine(line)
		if err != nil {
			return nil, err
		}
		page = append(page, sample)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return page, nil
}

func parseLine(line string) (Sample, error) {
	series, rest, found := cutSeries(line)
	if !found {
		return Sample{}, fmt.Errorf("%q is no metric", line)
	}
	value, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		return Sample{}, fmt.Errorf("%q is no metric: %w", line, err)
	}
	name, labels, _ := strings.Cut(series, "{")
	return Sample{Name: name, Labels: parseLabels(strings.TrimSuffix(labels, "}")), Value: value}, nil
}

// cutSeries cuts a line after its labels, in whose values there may be blanks.
func cutSeries(line string) (series, rest string, found bool) {
	end := strings.Index(line, " ")
	if brace := strings.LastIndex(line, "}"); brace >= 0 {
		end = brace + 1
	}
	if end < 0 || strings.TrimSpace(line[end:]) == "" {
		return "", "", false
	}
	return line[:end], line[end:], true
}

func parseLabels(text string) map[string]string {
	labels := map[string]string{}
	for text != "" {
		name, rest, found := strings.Cut(text, `="`)
		if !found {
			return labels
		}
		value, after, _ := strings.Cut(rest, `"`)
		labels[strings.Trim(name, ", ")] = value
		text = after
	}
	return labels
}

// Value of the series of a name whose labels have the given values, all of them added up; false when there is none.
func (p Page) Value(name string, labels map[string]string) (float64, bool) {
	all, found := 0.0, false
	for _, sample := range p {
		if sample.Name == name && has(sample.Labels, labels) {
			all, found = all+sample.Value, true
		}
	}
	return all, found
}

// Histogram is counts by upper bound, of all series of a name together.
type Histogram map[float64]float64

// Histogram reads the buckets of a name whose labels have the given values; an empty one when there are none.
func (p Page) Histogram(name string, labels map[string]string) Histogram {
	histogram := Histogram{}
	for _, sample := range p {
		if sample.Name != name+"_bucket" || !has(sample.Labels, labels) {
			continue
		}
		if bound, err := strconv.ParseFloat(sample.Labels["le"], 64); err == nil {
			histogram[bound] += sample.Value
		}
	}
	return histogram
}

func has(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// Add returns the sum of two histograms with the same bounds.
func (h Histogram) Add(other Histogram) Histogram {
	sum := Histogram{}
	for bound, count := range h {
		sum[bound] += count
	}
	for bound, count := range other {
		sum[bound] += count
	}
	return sum
}

// Since returns the difference to an earlier state.
func (h Histogram) Since(before Histogram) Histogram {
	difference := Histogram{}
	for bound, count := range h {
		difference[bound] = count - before[bound]
	}
	return difference
}

// Count of all observations.
func (h Histogram) Count() float64 { return h[math.Inf(1)] }

// PercentileBound returns the upper bound of the bucket that holds the percentile; share is from 0 to 1.
func (h Histogram) PercentileBound(share float64) float64 {
	var bounds []float64
	for bound := range h {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	for _, bound := range bounds {
		if h[bound] >= share*h.Count() {
			return bound
		}
	}
	return math.Inf(1)
}
