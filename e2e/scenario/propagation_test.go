package scenario

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/metrics"
	"fairway/e2e/report"
)

// Publishes the time from the moment at which a write is sent to the API to the end of the first answer that follows it, on
// the slowest replica. So the time of the API server and of one request is in it. A change that is not served fails.
func TestEveryChangeIsServedByTheSlowestReplica(t *testing.T) {
	s := newStage(t, "propagation")
	targets := s.targets()
	s.handMade(targets[0])
	s.must(kube.Route(t.Context(), cluster.Route{Namespace: s.namespace, Name: "moving", Host: s.host, Service: "moving"}))
	s.awaitServed(load.Plan{Host: s.host})
	// A pod is ready before its EndpointSlice says so, half a second on a busy machine, and Ingresses will move to both.
	for _, target := range targets {
		host := target.service + "." + s.host
		s.must(kube.Route(t.Context(), cluster.Route{Namespace: s.namespace, Name: target.service, Host: host, Service: target.service}))
		s.awaitServed(load.Plan{Host: host})
	}
	before := s.ownShare()

	s.measure("EndpointSlice", func(n int) (string, func() error) {
		target := targets[(n+1)%2]
		object := endpointSlice("moving", target.address)
		return target.pod, func() error {
			_, err := kube.API.DiscoveryV1().EndpointSlices(s.namespace).Update(s.Context(), object, meta.UpdateOptions{})
			return err
		}
	})
	last := targets[how.changes%2].pod
	s.measure("Ingress", func(n int) (string, func() error) {
		// Alternately away from where the last measurement left it, and back.
		service, pod := "moving", last
		if n%2 == 0 {
			target := targets[0]
			if target.pod == last {
				target = targets[1]
			}
			service, pod = target.service, target.pod
		}
		object := cluster.Route{Namespace: s.namespace, Name: "moving", Host: s.host, Service: service}.Ingress()
		return pod, func() error { return s.replace(object) }
	})
	own := s.ownShare().Since(before)
	s.figure("Fairway's own share, p50 at most", own.PercentileBound(0.50)*1000, "ms", 5)
	s.figure("Fairway's own share, p99 at most", own.PercentileBound(0.99)*1000, "ms", 5)
	book.Add(report.Scenario{Name: s.name, Figures: s.figures})
}

// propagation is Fairway's histogram of the time from a watch event to the adoption by its last worker.
const propagation = "fairway_config_propagation_seconds"

// ownShare is that histogram, of all replicas together.
func (s *stage) ownShare() metrics.Histogram {
	s.Helper()
	replicas, err := replicaAddresses(s.Context())
	s.must(err)
	all := metrics.Histogram{}
	for _, address := range replicas {
		page, err := metrics.Read(s.Context(), cluster.Join(address, probePort))
		s.must(err)
		histogram := page.Histogram(propagation, nil)
		if len(histogram) == 0 {
			s.Fatalf("the metrics of %s have no %s", address, propagation)
		}
		all = all.Add(histogram)
	}
	return all
}

// target is a backend of one pod with a Service of its own.
type target struct {
	service string
	pod     string
	address netip.Addr
}

func (s *stage) targets() []target {
	s.Helper()
	var found []target
	for _, name := range []string{"left", "right"} {
		s.must(kube.Deploy(s.Context(), s.workload(name, 1)))
		pods, err := kube.Pods(s.Context(), s.namespace, name)
		s.must(err)
		address, err := netip.ParseAddr(pods[0].Status.PodIP)
		s.must(err)
		found = append(found, target{name, pods[0].Name, address})
	}
	return found
}

// handMade is a Service whose EndpointSlice only the test writes.
func (s *stage) handMade(first target) {
	s.Helper()
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: "moving"},
		Spec:       core.ServiceSpec{Ports: []core.ServicePort{{Name: "http", Port: 80}}},
	}
	_, err := kube.API.CoreV1().Services(s.namespace).Create(s.Context(), service, meta.CreateOptions{})
	s.must(err)
	_, err = kube.API.DiscoveryV1().EndpointSlices(s.namespace).Create(s.Context(), endpointSlice("moving", first.address), meta.CreateOptions{})
	s.must(err)
}

// endpointSlice is the one slice of a Service, with ready endpoints.
func endpointSlice(service string, addresses ...netip.Addr) *discovery.EndpointSlice {
	name, port, ready := "http", int32(cluster.Port), true
	var endpoints []discovery.Endpoint
	for _, address := range addresses {
		endpoints = append(endpoints, discovery.Endpoint{
			Addresses:  []string{address.String()},
			Conditions: discovery.EndpointConditions{Ready: &ready},
		})
	}
	return &discovery.EndpointSlice{
		ObjectMeta:  meta.ObjectMeta{Name: service + "-by-hand", Labels: map[string]string{discovery.LabelServiceName: service}},
		AddressType: discovery.AddressTypeIPv4,
		Endpoints:   endpoints,
		Ports:       []discovery.EndpointPort{{Name: &name, Port: &port}},
	}
}

// replace overwrites the Ingress of that name.
func (s *stage) replace(ingress *networking.Ingress) error {
	_, err := kube.API.NetworkingV1().Ingresses(s.namespace).Update(s.Context(), ingress, meta.UpdateOptions{})
	return err
}

// measure makes changes one after another; change returns the pod that serves after the nth one.
func (s *stage) measure(kind string, change func(n int) (pod string, write func() error)) {
	s.Helper()
	replicas, err := replicaAddresses(s.Context())
	s.must(err)
	var probes []*load.Probe
	for _, address := range replicas {
		probe := load.NewProbe(load.Plan{Address: cluster.Join(address, 8080), Host: s.host})
		defer probe.Close()
		probes = append(probes, probe)
	}
	var sent, accepted []time.Duration
	for n := range how.changes {
		pod, write := change(n)
		arrival := s.arrival(probes, pod)
		begun := time.Now()
		s.must(write())
		written := time.Now()
		slowest, err := arrival()
		s.must(err)
		sent = append(sent, slowest.Sub(begun))
		accepted = append(accepted, max(0, slowest.Sub(written)))
	}
	slices.Sort(sent)
	slices.Sort(accepted)
	s.figure(kind+": write sent to served, p50", load.Percentile(sent, 0.50).Seconds()*1000, "ms", 20)
	s.figure(kind+": write sent to served, p99", load.Percentile(sent, 0.99).Seconds()*1000, "ms", 100)
	s.figure(kind+": write answered to served, p50", load.Percentile(accepted, 0.50).Seconds()*1000, "ms", 0)
	s.figure(kind+": write answered to served, p99", load.Percentile(accepted, 0.99).Seconds()*1000, "ms", 0)
	s.figure(kind+": changes", float64(len(sent)), "", 0)
}

// arrival starts to query all replicas; the returned function waits until each was served by the pod and returns the time of
// the last one.
func (s *stage) arrival(probes []*load.Probe, pod string) func() (time.Time, error) {
	var (
		asking sync.WaitGroup
		lock   sync.Mutex
		last   time.Time
		failed error
	)
	for _, probe := range probes {
		asking.Go(func() {
			at, err := awaitPod(s.Context(), probe, pod)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed = err
			}
			if at.After(last) {
				last = at
			}
		})
	}
	return func() (time.Time, error) {
		asking.Wait()
		return last, failed
	}
}

// awaitPod asks every millisecond: often enough to measure, seldom enough to leave the CPU to those who are measured.
func awaitPod(ctx context.Context, probe *load.Probe, pod string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, promptly)
	defer cancel()
	for {
		sight := probe.Ask(ctx)
		if sight.Class != load.OK {
			return sight.At, fmt.Errorf("while a change was awaited: %+v", sight)
		}
		if sight.Pod == pod {
			return sight.At, nil
		}
		select {
		case <-ctx.Done():
			return sight.At, fmt.Errorf("the change to pod %s is not served after %s", pod, promptly)
		case <-time.After(time.Millisecond):
		}
	}
}
