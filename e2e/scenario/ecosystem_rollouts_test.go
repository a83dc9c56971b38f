package scenario

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
)

//go:embed ecosystem/argo-rollouts.yaml
var rolloutObjects string

// Argo Rollouts shifts requests with the annotations of a canary Ingress, which it makes itself.
func TestEcosystemArgoRolloutsShiftsAnIngress(t *testing.T) {
	begun := time.Now()
	s := newStage(t, "rollouts")
	s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: "web", Host: s.host, Service: "stable"}))
	r := newRollout(s, cluster.Join(addresses[0], 80), rolloutWords{
		routing: "{nginx: {stableIngress: web, additionalIngressAnnotations: {canary-by-header: X-Canary}}}",
	})
	r.shifts(map[string]string{"always": "canary", "never": "stable"})
	// ingress-nginx gives requests of a canary without pods to the main Service.
	r.aborts(map[string]string{"always": "stable", "never": "stable"})
	r.publish(begun)
}

// rolloutWords are what differs between the two ways to shift requests.
type rolloutWords struct{ routing, header, plugins, configuration string }

// rollout is a Rollout with its measurements.
type rollout struct {
	*stage
	address string
	// pauses are the numbers of the steps that wait to be promoted.
	pauses [3]int64
}

// newRollout installs Argo Rollouts and makes a Rollout whose first version is called `one`.
func newRollout(s *stage, address string, words rolloutWords) *rollout {
	s.Helper()
	r := &rollout{stage: s, address: address, pauses: [3]int64{1, 3, 5}}
	if words.header != "" {
		r.pauses = [3]int64{2, 4, 6}
	}
	if words.plugins == "" {
		words.plugins = s.TempDir()
	}
	s.Cleanup(func() { s.printLogOnFailure("argo-rollouts") })
	module, err := testbed.ModuleFolder(s.Context(), "argo-rollouts", "github.com/argoproj/argo-rollouts")
	s.must(err)
	_, err = testbed.Kubectl(s.Context(), "apply", "--server-side", "-k", filepath.Join(module, "manifests", "crds"))
	s.must(err)
	_, err = testbed.Kubectl(s.Context(), "apply", "-f", filepath.Join(module, "manifests", "role", "argo-rollouts-clusterrole.yaml"))
	s.must(err)
	_, err = testbed.Kubectl(s.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "rollouts.argoproj.io", "analysisruns.argoproj.io",
		"analysistemplates.argoproj.io", "clusteranalysistemplates.argoproj.io", "experiments.argoproj.io")
	s.must(err)
	s.objects("argo-rollouts", strings.NewReplacer("@NAMESPACE@", s.namespace, "@IMAGE@", testbed.ProgramImage("rollouts-controller"),
		"@BACKEND@", testbed.Backend, "@LEDGER@", posts.Address(), "@ROUTING@", words.routing, "@HEADER@", words.header,
		"@PLUGINS@", words.plugins, "@CONFIGURATION@", words.configuration).Replace(rolloutObjects))
	s.must(kube.AwaitSettled(s.Context(), s.namespace, "argo-rollouts"))
	r.reaches("Healthy", -1)
	s.awaitServedAt(address)
	s.rate = how.beside
	s.traffic(load.Plan{Address: address})
	return r
}

// shifts brings the version `two` in three steps, and then for good.
func (r *rollout) shifts(headers map[string]string) {
	r.Helper()
	r.brings("two")
	r.reaches("Paused", r.pauses[0])
	r.shares("one", "two", 5)
	r.directed(headers, "one", "two")
	r.promotes()
	r.reaches("Paused", r.pauses[1])
	r.shares("one", "two", 50)
	r.directed(headers, "one", "two")
	r.promotes()
	r.reaches("Paused", r.pauses[2])
	r.shares("one", "two", 100)
	r.promotes()
	r.reaches("Healthy", -1)
	r.shares("two", "one", 0)
	// The pods of the old version end now.
	r.settles(3)
	r.shares("two", "one", 0)
}

// aborts brings the version `three` in two steps and takes it back.
func (r *rollout) aborts(headers map[string]string) {
	r.Helper()
	r.brings("three")
	r.reaches("Paused", r.pauses[0])
	r.shares("two", "three", 5)
	r.promotes()
	r.reaches("Paused", r.pauses[1])
	r.shares("two", "three", 50)
	r.patch("--subresource=status", `{"status": {"abort": true}}`)
	r.reaches("Degraded", 0)
	r.shares("two", "three", 0)
	// The pods of the version that was taken back end now.
	r.settles(3)
	r.shares("two", "three", 0)
	r.directed(headers, "two", "three")
}

func (r *rollout) publish(begun time.Time) {
	r.Helper()
	// Every request of the streams counts, whatever shifted.
	r.more(max(r.rate, r.requests-r.requestCount()))
	r.figure("wall time", time.Since(begun).Seconds(), "s", 0)
	r.finish()
}

var rollouts = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}

// reaches waits until the controller has seen the Rollout and brought it to a phase, and to a step unless that is -1.
func (r *rollout) reaches(phase string, step int64) {
	r.Helper()
	what := fmt.Sprintf("the Rollout is %s at step %d", phase, step)
	r.must(cluster.Eventually(r.Context(), 2*time.Minute, what, func(ctx context.Context) (bool, string, error) {
		object, err := kube.Objects.Resource(rollouts).Namespace(r.namespace).Get(ctx, "web", meta.GetOptions{})
		if err != nil {
			return false, "", err
		}
		now, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		at, _, _ := unstructured.NestedInt64(object.Object, "status", "currentStepIndex")
		seen, _, _ := unstructured.NestedString(object.Object, "status", "observedGeneration")
		message, _, _ := unstructured.NestedString(object.Object, "status", "message")
		right := now == phase && (step < 0 || at == step) && seen == fmt.Sprint(object.GetGeneration())
		return right, fmt.Sprintf("%s at step %d, generation %s of %d: %s", now, at, seen, object.GetGeneration(), message), nil
	}))
}

func (r *rollout) patch(more, change string) {
	r.Helper()
	_, err := testbed.Kubectl(r.Context(), "patch", "rollout", "web", "--namespace", r.namespace, "--type=merge", more, "--patch", change)
	r.must(err)
}

// brings changes the template to another version.
func (r *rollout) brings(version string) {
	r.Helper()
	_, err := testbed.Kubectl(r.Context(), "patch", "rollout", "web", "--namespace", r.namespace, "--type=json", "--patch",
		`[{"op": "replace", "path": "/spec/template/spec/containers/0/env/0/value", "value": "`+version+`"}]`)
	r.must(err)
}

// promotes does what `kubectl argo rollouts promote` does.
func (r *rollout) promotes() {
	r.Helper()
	r.patch("--subresource=status", `{"status": {"pauseConditions": null}}`)
}

// settles waits until there are as many pods and none is on its way out.
func (r *rollout) settles(count int) {
	r.Helper()
	r.must(cluster.Eventually(r.Context(), 2*time.Minute, fmt.Sprintf("there are %d pods", count), func(ctx context.Context) (bool, string, error) {
		pods, err := kube.API.CoreV1().Pods(r.namespace).List(ctx, meta.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return false, "", err
		}
		return len(pods.Items) == count, fmt.Sprint(len(pods.Items)), nil
	}))
}

// tolerated is how many percentage points a measured share may be away.
const tolerated = 1.0

// shares counts responses by version, and fails if the canary's share is not that of the step: exactly, at the ends.
func (r *rollout) shares(stable, canary string, percent float64) {
	r.Helper()
	// The change is on its way to the replicas for some milliseconds; a share of a few requests says roughly that it has arrived.
	what := fmt.Sprintf("about %g %% of the requests are answered by %s", percent, canary)
	r.must(cluster.Eventually(r.Context(), promptly, what, func(context.Context) (bool, string, error) {
		counts := r.count(1_000, "")
		share := 100 * float64(counts[canary]) / 1_000
		near := math.Abs(share-percent) < 8
		if percent == 0 || percent == 100 {
			near = share == percent
		}
		return near, fmt.Sprint(counts), nil
	}))
	// Chance alone makes a half stray by a point in 20,000 requests once in 200 times, in 60,000 never.
	requests := 20_000
	if percent == 50 {
		requests = 60_000
	}
	counts := r.count(requests, "")
	share := 100 * float64(counts[canary]) / float64(requests)
	r.Logf("%s: %g %% for %s: %v", r.name, percent, canary, counts)
	if percent > 0 {
		r.figure(fmt.Sprintf("share of %s with weight %g", canary, percent), share, "%", 0)
	}
	if counts[stable]+counts[canary] != requests {
		r.Errorf("%s: of %d requests some were answered by neither %s nor %s: %v", r.name, requests, stable, canary, counts)
	}
	if off := math.Abs(share - percent); off > tolerated || (percent == 0 || percent == 100) && off != 0 {
		r.Errorf("%s: with weight %g, %s got %.2f %% of %d requests: %v", r.name, percent, canary, share, requests, counts)
	}
}

// directed: a header decides alone; one with "" decides nothing.
func (r *rollout) directed(headers map[string]string, stable, canary string) {
	r.Helper()
	const requests = 1_000
	for value, goes := range headers {
		counts := r.count(requests, value)
		r.Logf("%s: with X-Canary: %s: %v", r.name, value, counts)
		version := map[string]string{"stable": stable, "canary": canary}[goes]
		if version != "" && counts[version] != requests || counts[stable]+counts[canary] != requests {
			r.Errorf("%s: with X-Canary: %s, which leads to %q, the answers were from %v", r.name, value, version, counts)
		}
	}
}

// count sends requests with a value of X-Canary, or without one, and counts the responses by version, or the failures.
func (r *rollout) count(requests int, value string) map[string]int {
	r.Helper()
	const clients = 16
	transport := &http.Transport{
		MaxIdleConnsPerHost: clients,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, r.address)
		},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	var lock sync.Mutex
	counts := map[string]int{}
	var all sync.WaitGroup
	for number := range clients {
		all.Go(func() {
			own := map[string]int{}
			for range (requests + number) / clients {
				own[r.ask(client, value)]++
			}
			lock.Lock()
			defer lock.Unlock()
			for version, count := range own {
				counts[version] += count
			}
		})
	}
	all.Wait()
	return counts
}

// ask returns the version that responds.
func (r *rollout) ask(client *http.Client, value string) string {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+r.host+"/?id=share", nil)
	if err != nil {
		return err.Error()
	}
	if value != "" {
		request.Header.Set("X-Canary", value)
	}
	answer, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	version, found := strings.CutPrefix(strings.SplitN(string(body), " ", 2)[0], "pod=")
	if answer.StatusCode != http.StatusOK || !found {
		return fmt.Sprintf("status %d: %.80s", answer.StatusCode, body)
	}
	return version
}
