package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
)

// prometheusAddress is in the network of the testbed, where Prometheus runs as a process.
const prometheusAddress = "127.0.0.1:19090"

// scraping finds Fairway's pods as Prometheus does in a cluster, and names them as the chart's ServiceMonitor does.
const scraping = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
- job_name: fairway
  kubernetes_sd_configs: [{role: pod, kubeconfig_file: %s, namespaces: {names: [%s]}}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_container_port_number], regex: "%d", action: keep}
  - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
`

// quiet are expressions of the dashboard that have a result only after something that no scenario makes happen. They must be valid all
// the same.
var quiet = []string{
	"fairway_grpc_calls_total", // no gRPC
	"fairway_refused_connections_total",
	"fairway_upstream_hedges_total",
}

// prometheus runs Prometheus with the chart's alerts until the scenario ends.
func (s *stage) prometheus() {
	s.Helper()
	folder, err := testbed.ProgramFolder(s.Context(), "prometheus")
	s.must(err)
	directory := s.TempDir()
	file := filepath.Join(directory, "prometheus.yml")
	text := fmt.Sprintf(scraping, filepath.Join(testbed.Chart, "files/alerts.yaml"), os.Getenv("KUBECONFIG"), fairwayNamespace, probePort)
	s.must(os.WriteFile(file, []byte(text), 0o600))
	command := exec.Command(filepath.Join(folder, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(directory, "data"),
		"--web.listen-address="+prometheusAddress)
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	s.must(command.Start())
	s.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
		if s.Failed() {
			s.Logf("prometheus:\n%s", log.String()[max(0, log.Len()-4000):])
		}
	})
}

// query returns the response of Prometheus's API.
func query(ctx context.Context, path string, values url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+prometheusAddress+"/api/v1/"+path+"?"+values.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("prometheus: %s: %s", answer.Status, answer.Error)
	}
	return nil
}

// results is how many series an expression gives.
func results(ctx context.Context, expression string) (int, error) {
	var found struct{ Result []json.RawMessage }
	err := query(ctx, "query", url.Values{"query": {expression}}, &found)
	return len(found.Result), err
}

var (
	metricName = regexp.MustCompile(`\b(?:nginx_ingress_controller|fairway)_\w+`)
	variable   = regexp.MustCompile(`\$\w+`)
	condition  = regexp.MustCompile(` (?:>|==) [01]$`)
)

// dashboard are the expressions of the chart's dashboard, with every variable set to all.
func (s *stage) dashboard() []string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(testbed.Chart, "files/dashboard.json"))
	s.must(err)
	var board any
	s.must(json.Unmarshal(text, &board))
	var found []string
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, each := range value {
				walk(each)
			}
		case map[string]any:
			for key, each := range value {
				if expression, is := each.(string); is && key == "expr" {
					expression = strings.ReplaceAll(expression, "$__rate_interval", "30s")
					expression = variable.ReplaceAllString(expression, ".*")
					// What marks moments has a result at these moments alone.
					found = append(found, condition.ReplaceAllString(expression, ""))
				}
				walk(each)
			}
		}
	}
	walk(board)
	return found
}

// A real Prometheus scrapes Fairway: every expression of the dashboard is valid, and gives a result unless nothing happened that it
// counts; every alert can be evaluated, and every metric that they name is there.
func TestEcosystemPrometheusHasWhatDashboardAndAlertsAskFor(t *testing.T) {
	s := newStage(t, "prometheus")
	s.rate, s.requests = acmeRate, 0
	s.must(kube.Deploy(t.Context(), s.workload("backend", 2)))
	s.must(kube.Deploy(t.Context(), s.workload("canary", 1)))
	plan := s.secure("own", s.host)
	s.awaitServed(plan)
	// A canary, and an Ingress whose Service does not exist.
	canary := map[string]string{"nginx.ingress.kubernetes.io/canary": "true", "nginx.ingress.kubernetes.io/canary-weight": "50"}
	s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: "canary", Host: s.host, Service: "canary", Annotations: canary}))
	s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: "orphan", Host: "orphan." + s.host, Service: "missing"}))
	s.prometheus()
	s.traffic(plan)
	s.must(cluster.Eventually(s.Context(), time.Minute, "both replicas are scraped and count requests", func(ctx context.Context) (bool, string, error) {
		found, err := results(ctx, `up{job="fairway"} == 1 and on (pod) rate(nginx_ingress_controller_nginx_process_requests_total[10s]) > 0`)
		return found == fairwayReplicas, fmt.Sprint(found), err
	}))
	orphan := load.NewProbe(load.Plan{Address: cluster.Join(addresses[0], 80), Host: "orphan." + s.host, Reuse: load.NewConnection})
	orphan.Ask(s.Context())
	s.alertsEvaluated()

	expressions := s.dashboard()
	empty := 0
	for _, expression := range expressions {
		what := "the dashboard's expression has a result: " + expression
		err := cluster.Eventually(s.Context(), 40*time.Second, what, func(ctx context.Context) (bool, string, error) {
			found, err := results(ctx, expression)
			silent := slices.ContainsFunc(quiet, func(metric string) bool { return strings.Contains(expression, metric) })
			if found == 0 && err == nil && silent {
				empty++
				return true, "", nil
			}
			return found > 0, "", err
		})
		if err != nil {
			s.Error(err)
		}
	}
	s.metricsExist(expressions)
	s.figure("expressions of the dashboard", float64(len(expressions)), "", 0)
	s.figure("of them with a result", float64(len(expressions)-empty), "", 0)
	s.finish()
}

// alertsEvaluated waits until Prometheus has evaluated every alert of the chart, without an error.
func (s *stage) alertsEvaluated() {
	s.Helper()
	var alerts []string
	s.must(cluster.Eventually(s.Context(), time.Minute, "every alert is evaluated", func(ctx context.Context) (bool, string, error) {
		var found struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if err := query(ctx, "rules", nil, &found); err != nil {
			return false, "", err
		}
		alerts = nil
		for _, group := range found.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" {
					return false, fmt.Sprintf("%+v", rule), nil
				}
				alerts = append(alerts, rule.Name)
			}
		}
		return len(alerts) > 0, "", nil
	}))
	s.figure("alerts evaluated", float64(len(alerts)), "", 0)
}

// metricsExist fails for a metric that the expressions or the alerts name and no replica has.
func (s *stage) metricsExist(expressions []string) {
	s.Helper()
	alerts, err := os.ReadFile(filepath.Join(testbed.Chart, "files/alerts.yaml"))
	s.must(err)
	var names []string
	s.must(query(s.Context(), "label/__name__/values", nil, &names))
	wanted := metricName.FindAllString(strings.Join(expressions, "\n")+string(alerts), -1)
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	for _, each := range wanted {
		if !slices.Contains(names, each) && !slices.Contains(quiet, each) {
			s.Errorf("no replica has the metric %s", each)
		}
	}
	s.figure("metrics of dashboard and alerts", float64(len(wanted)), "", 0)
}
