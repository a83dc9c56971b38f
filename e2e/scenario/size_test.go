package scenario

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/report"
)

// A large configuration, and its bounds.
const (
	ingresses   = 5_000
	endpoints   = 20_000
	largeReady  = 3 * time.Second
	largeMemory = 150.0 // MiB
	largeChange = 5 * time.Millisecond
	largeShare  = 0.1
	// largeChanges is the number of changes.
	largeChanges = 50
)

// A process of its own next to the cluster's, so that its start and its memory can be looked at: it reads the same API. What
// it costs is asserted in CPU time, which a busy machine stretches little; how long it takes is published.
func TestALargeConfigurationIsReadSoonAndChangesCheaply(t *testing.T) {
	s := newStage(t, "size")
	s.backends(1)
	s.large()
	own, ready := s.run()
	s.figure(fmt.Sprintf("ready with %d Ingresses and %d endpoints", ingresses, endpoints), ready.Seconds(), "s", largeReady.Seconds())
	reading := own.cpu(s)
	s.figure("CPU time until then", reading, "s", largeReady.Seconds())
	s.keeps(reading <= largeReady.Seconds(), "it took %.2f s of CPU time to be ready", reading)
	probe := load.NewProbe(load.Plan{Address: own.http, Host: s.host})
	if sight := probe.Ask(t.Context()); sight.Class != load.OK {
		t.Errorf("it said that it was ready and answered %+v", sight)
	}
	memory := own.memory(s)
	s.figure("resident memory when ready", memory, "MiB", largeMemory)

	before := own.propagation(s)
	for n := range largeChanges {
		s.changeLarge(own, n)
	}
	change := (own.cpu(s) - reading) / largeChanges
	s.figure("CPU time of one change, with the questions whether it was adopted", change*1000, "ms", 0)
	s.keeps(change <= largeShare*reading, "a change costs %.3f s of CPU time, not much less than reading everything", change)
	took := own.propagation(s).Since(before)
	s.figure("one change, Fairway's own time, p50 at most", took.PercentileBound(0.5)*1000, "ms", largeChange.Seconds()*1000)
	s.figure("one change, Fairway's own time, p90 at most", took.PercentileBound(0.9)*1000, "ms", 0)
	memory = max(memory, own.memory(s))
	s.figure("resident memory after changes", memory, "MiB", largeMemory)
	s.keeps(memory <= largeMemory, "it has %.0f MiB in memory", memory)
	book.Add(report.Scenario{Name: s.name, Figures: s.figures})
	s.clear()
}

// clear waits until all objects are gone, so that later scenarios have the machine for themselves.
func (s *stage) clear() {
	s.Helper()
	s.must(kube.DeleteNamespace(s.Context(), s.namespace))
	s.must(cluster.Eventually(s.Context(), 3*time.Minute, "namespace "+s.namespace+" is gone", func(ctx context.Context) (bool, string, error) {
		_, err := kube.API.CoreV1().Namespaces().Get(ctx, s.namespace, meta.GetOptions{})
		if errors.IsNotFound(err) {
			return true, "", nil
		}
		return false, "it is there", err
	}))
}

func (s *stage) keeps(promise bool, format string, value any) {
	s.Helper()
	if !promise {
		s.Errorf("with %d Ingresses and %d endpoints "+format, ingresses, endpoints, value)
	}
}

// perService is how many endpoints each Service has; there are as many Services as the endpoints need.
const perService = 100

const largeServices = endpoints / perService

func largeService(n int) string { return fmt.Sprintf("large-%d", n%largeServices) }

// large creates Services with unreachable endpoints, and Ingresses for them. kube-proxy ignores them.
func (s *stage) large() {
	s.Helper()
	s.runConcurrently(largeServices, s.largeBackend)
	s.runConcurrently(ingresses, func(n int) error {
		name := fmt.Sprintf("large-%d", n)
		return kube.Route(s.Context(), cluster.Route{
			Namespace: s.namespace, Name: name, Host: name + "." + s.host, Service: largeService(n),
		})
	})
}

// runConcurrently runs many tasks, sixteen at a time.
func (s *stage) runConcurrently(count int, do func(n int) error) {
	s.Helper()
	var (
		working sync.WaitGroup
		lock    sync.Mutex
		failed  error
	)
	for worker := range 16 {
		working.Go(func() {
			for n := worker; n < count; n += 16 {
				if err := do(n); err != nil {
					lock.Lock()
					failed = err
					lock.Unlock()
					return
				}
			}
		})
	}
	working.Wait()
	s.must(failed)
}

// notProxied is the label by which kube-proxy leaves a Service and its EndpointSlices alone.
const notProxied = "service.kubernetes.io/service-proxy-name"

func (s *stage) largeBackend(n int) error {
	name := largeService(n)
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{notProxied: "none"}},
		Spec:       core.ServiceSpec{Ports: []core.ServicePort{{Name: "http", Port: 80}}},
	}
	if _, err := kube.API.CoreV1().Services(s.namespace).Create(s.Context(), service, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create Service %s: %w", name, err)
	}
	slice := largeSlice(n, perService)
	if _, err := kube.API.DiscoveryV1().EndpointSlices(s.namespace).Create(s.Context(), slice, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create EndpointSlice %s: %w", slice.Name, err)
	}
	return nil
}

// largeSlice has addresses of the range for benchmarks (RFC 2544 appendix C), which lead nowhere.
func largeSlice(n, count int) *discovery.EndpointSlice {
	var all []netip.Addr
	for k := range count {
		all = append(all, netip.AddrFrom4([4]byte{198, 18, byte(n), byte(k + 1)}))
	}
	slice := endpointSlice(largeService(n), all...)
	slice.Labels[notProxied] = "none"
	return slice
}

// changeLarge takes an endpoint from a Service, or gives it back, and waits until the process has adopted it: changes that
// come at once are adopted at once.
func (s *stage) changeLarge(own *process, n int) {
	s.Helper()
	place := n % largeServices
	count := perService - 1 + n/largeServices%2
	seen := own.propagation(s).Count()
	_, err := kube.API.DiscoveryV1().EndpointSlices(s.namespace).Update(s.Context(), largeSlice(place, count), meta.UpdateOptions{})
	s.must(err)
	s.must(cluster.Eventually(s.Context(), promptly, fmt.Sprintf("change %d is adopted", n), func(context.Context) (bool, string, error) {
		count := own.propagation(s).Count()
		return count > seen, fmt.Sprint(count), nil
	}))
}
