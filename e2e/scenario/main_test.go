// Package scenario holds the end-to-end tests: Fairway as the chart installs it, in a cluster of its own, with streams of
// requests from outside of the pods while something happens. `make e2e` runs it; without a testbed it says so.
package scenario

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"fairway/e2e/bed"
	"fairway/e2e/cluster"
	"fairway/e2e/ledger"
	"fairway/e2e/load"
	"fairway/e2e/report"
)

// Where the chart is installed.
const (
	fairwayNamespace = "fairway-system"
	fairwayName      = "fairway"
	fairwayReplicas  = 2
	// probePort serves /readyz and /metrics.
	probePort = 10255
)

// What all scenarios share.
var (
	testbed bed.Bed
	kube    *cluster.Cluster
	posts   *ledger.Ledger
	book    report.Book
	how     form
	// addresses of Fairway's Service, IPv4 first.
	addresses []netip.Addr
)

// form says how long and how hard.
type form struct {
	name string
	// requests of each scenario, over all its streams.
	requests int
	// alone and beside are the rates of a scenario that has the machine for itself and of one that has not, in requests per
	// second over all its streams.
	alone, beside int
	// up and down are how long study 1 stays at 7 and at 5 replicas; 0: until a thousand requests have completed.
	up, down time.Duration
	// unreachable is how long the API server does not respond.
	unreachable time.Duration
	// changes whose propagation is measured, of each kind.
	changes int
	// streamed are the requests of the scenarios with HTTP/2, gRPC and HTTP/3, and held the open gRPC streams.
	streamed, held int
}

var (
	inCI    = form{"ci", 10_000, 1_000, 400, 0, 0, 15 * time.Second, 60, 20_000, 20}
	nightly = form{"nightly", 200_000, 1_200, 600, 12 * time.Second, 10 * time.Second, time.Minute, 500, 500_000, 40}
)

func TestMain(m *testing.M) {
	if err := prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(2)
	}
	code := m.Run()
	path := filepath.Join(testbed.Results, testbed.Suite+".json")
	if err := book.Write(path, how.name); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 2
	}
	fmt.Print("\n", book.Table(), "\n")
	// Times say something about Fairway on a quiet machine only.
	if missed := book.Missed(); testbed.Quiet && len(missed) > 0 {
		fmt.Fprintf(os.Stderr, "e2e: promises that were missed on a machine said to be quiet:\n%s\n", strings.Join(missed, "\n"))
		code = max(code, 1)
	}
	os.Exit(code)
}

func prepare(ctx context.Context) error {
	var err error
	if testbed, err = bed.FromEnvironment(); err != nil {
		return err
	}
	how = inCI
	if testbed.Nightly {
		how = nightly
	}
	if err := partPorts(); err != nil {
		return err
	}
	if kube, err = cluster.Connect(os.Getenv("KUBECONFIG")); err != nil {
		return err
	}
	node, err := kube.NodeAddress(ctx)
	if err != nil {
		return err
	}
	if posts, err = ledger.Open(cluster.Join(node, 0)); err != nil {
		return err
	}
	for _, namespace := range permitted {
		if err := kube.Namespace(ctx, namespace); err != nil {
			return err
		}
	}
	return install(ctx)
}

// clientPorts are those of all streams together. With up to 770 new connections a second a port rests for a minute. Between
// the two ranges are the NodePorts.
var clientPorts = load.NewPorts(load.PortRange{First: 16_384, Last: 29_999}, load.PortRange{First: 32_768, Last: 65_535})

// otherPorts are those of everything else in the testbed's network.
const otherPorts = "10240 16383"

// partPorts keeps the ports of clients to them, in this network alone.
func partPorts() error {
	for name, value := range map[string]string{"ip_local_port_range": otherPorts} {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0o644); err != nil {
			return fmt.Errorf("keep ports for clients: %w", err)
		}
	}
	return nil
}

// permitted are the namespaces whose Secrets Fairway may read; others are refused by the API server.
var permitted = []string{fairwayNamespace, "e2e-rotation", "e2e-removal", "e2e-broken", "e2e-granted", "e2e-streams", "e2e-http3",
	"e2e-http3-moved", "e2e-tickets", "e2e-upgrade", "e2e-cert-ingress", "e2e-cert-route", "e2e-cert-listeners", "e2e-cert-owned",
	"e2e-external-dns", "e2e-prometheus"}

// install installs the chart with its own permissions, but that Secrets are readable in some namespaces only.
func install(ctx context.Context, values ...string) error {
	if err := upgrade(ctx, testbed.Image, values...); err != nil {
		return err
	}
	if err := kube.AwaitSettled(ctx, fairwayNamespace, fairwayName); err != nil {
		return err
	}
	var err error
	if addresses, err = kube.ServiceAddresses(ctx, fairwayNamespace, fairwayName); err != nil {
		return err
	}
	for _, address := range addresses {
		if err := kube.AwaitReachable(ctx, address, 80); err != nil {
			return err
		}
	}
	return nil
}

// upgrade installs or upgrades the release with an image; it does not wait for pods.
func upgrade(ctx context.Context, image string, more ...string) error {
	return upgradeTo(ctx, testbed, image, more...)
}

// upgradeTo does so with the chart of this bed.
func upgradeTo(ctx context.Context, testbed bed.Bed, image string, more ...string) error {
	name, tag, found := cutLast(image, ":")
	if !found {
		return fmt.Errorf("image %q has no tag", image)
	}
	readable, err := kube.Living(ctx, permitted)
	if err != nil {
		return err
	}
	values := []string{
		"image.repository=" + name,
		"image.tag=" + tag,
		fmt.Sprintf("replicas=%d", fairwayReplicas),
		// Scenarios delete their namespaces when they end, and no Role can be created in a deleted one.
		"rbac.secretNamespaces={" + strings.Join(readable, ",") + "}",
		// Two CPUs carry up to eight pods, and requests here last milliseconds.
		"resources.requests.cpu=50m",
		"drain.delay=5", "drain.timeout=30", "drain.margin=5",
		"logs.access=off",
	}
	return testbed.Install(ctx, fairwayNamespace, fairwayName, append(values, more...)...)
}

func cutLast(text, separator string) (before, after string, found bool) {
	place := strings.LastIndex(text, separator)
	if place < 0 {
		return text, "", false
	}
	return text[:place], text[place+len(separator):], true
}

// replicas are Fairway's pods that are ready.
func replicas(ctx context.Context) ([]core.Pod, error) {
	pods, err := kube.Pods(ctx, fairwayNamespace, fairwayName)
	if err != nil {
		return nil, err
	}
	var ready []core.Pod
	for _, pod := range pods {
		if cluster.IsReady(pod) {
			ready = append(ready, pod)
		}
	}
	if len(ready) == 0 {
		return nil, fmt.Errorf("no pod of Fairway is ready, of %d", len(pods))
	}
	return ready, nil
}

// replicaAddresses are those of Fairway's ready pods.
func replicaAddresses(ctx context.Context) ([]netip.Addr, error) {
	pods, err := replicas(ctx)
	if err != nil {
		return nil, err
	}
	var found []netip.Addr
	for _, pod := range pods {
		address, err := netip.ParseAddr(pod.Status.PodIP)
		if err != nil {
			return nil, fmt.Errorf("pod %s has the address %q: %w", pod.Name, pod.Status.PodIP, err)
		}
		found = append(found, address)
	}
	return found, nil
}
