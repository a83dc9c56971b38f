package scenario

import (
	"context"
	"encoding/json"
	"net/netip"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/metrics"
)

const (
	ownZone, otherZone = "e2e-own", "e2e-other"
	// zonedService has the endpoints of both zones.
	zonedService = "zoned"
)

// Requests stay in the zone of Fairway's node while it has endpoints, and none fails when these vanish and come back.
func TestRequestsStayInTheZoneAndNoneFailsWhenItsEndpointsVanish(t *testing.T) {
	s := newStage(t, "zones")
	s.labelNodes(ownZone)
	defer s.labelNodes("")
	// Fairway reads the label at its start.
	s.must(kube.Restart(s.Context(), fairwayNamespace, fairwayName))
	s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))

	for _, name := range []string{"near", "far"} {
		s.must(kube.Deploy(s.Context(), s.workload(name, 2)))
	}
	near, far := s.zoned("near", ownZone), s.zoned("far", otherZone)
	service := &core.Service{ObjectMeta: meta.ObjectMeta{Name: zonedService}, Spec: core.ServiceSpec{Ports: []core.ServicePort{{Name: "http", Port: 80}}}}
	_, err := kube.API.CoreV1().Services(s.namespace).Create(s.Context(), service, meta.CreateOptions{})
	s.must(err)
	slice := endpointSlice(zonedService)
	slice.Endpoints = append(near, far...)
	_, err = kube.API.DiscoveryV1().EndpointSlices(s.namespace).Create(s.Context(), slice, meta.CreateOptions{})
	s.must(err)
	s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: zonedService, Host: s.host, Service: zonedService,
		Annotations: map[string]string{"fairway.dev/traffic-distribution": "PreferSameZone"}}))
	s.awaitServed(load.Plan{Host: s.host})

	s.traffic(load.Plan{})
	s.repeat(func() {
		before := s.attemptsByZone()
		s.more(s.rate)
		after := s.attemptsByZone()
		if after.own == before.own || after.other != before.other {
			s.Errorf("with endpoints in both zones, attempts went from %+v to %+v; expected only those in Fairway's zone to grow", before, after)
		}
		s.setEndpoints(slice, far)
		s.awaitOnEveryReplica(load.Plan{Host: s.host}, "is served by the other zone", servedBy(s, far))
		s.more(s.rate)
		s.setEndpoints(slice, append(near, far...))
		s.awaitOnEveryReplica(load.Plan{Host: s.host}, "is served by Fairway's zone again", servedBy(s, near))
		s.more(s.rate)
	})
	s.finish()
}

// zoned are the pods of a Deployment as ready endpoints of a zone.
func (s *stage) zoned(name, zone string) []discovery.Endpoint {
	s.Helper()
	pods, err := kube.Pods(s.Context(), s.namespace, name)
	s.must(err)
	var all []netip.Addr
	for _, pod := range pods {
		address, err := netip.ParseAddr(pod.Status.PodIP)
		s.must(err)
		all = append(all, address)
	}
	endpoints := endpointSlice(zonedService, all...).Endpoints
	for index := range endpoints {
		endpoints[index].Zone = &zone
		endpoints[index].TargetRef = &core.ObjectReference{Kind: "Pod", Namespace: s.namespace, Name: pods[index].Name}
	}
	return endpoints
}

func (s *stage) setEndpoints(slice *discovery.EndpointSlice, endpoints []discovery.Endpoint) {
	s.Helper()
	slice.Endpoints = endpoints
	_, err := kube.API.DiscoveryV1().EndpointSlices(s.namespace).Update(s.Context(), slice, meta.UpdateOptions{})
	s.must(err)
}

// servedBy is whether one of these endpoints sent the response.
func servedBy(s *stage, endpoints []discovery.Endpoint) func(load.Sight) bool {
	return func(sight load.Sight) bool {
		for _, endpoint := range endpoints {
			if sight.Class == load.OK && sight.Pod == endpoint.TargetRef.Name {
				return true
			}
		}
		return false
	}
}

// labelNodes gives every node a zone; "" removes it.
func (s *stage) labelNodes(zone string) {
	s.Helper()
	var value any
	if zone != "" {
		value = zone
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{core.LabelTopologyZone: value}}})
	s.must(err)
	ctx := context.WithoutCancel(s.Context())
	nodes, err := kube.API.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	s.must(err)
	for _, node := range nodes.Items {
		_, err := kube.API.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, body, meta.PatchOptions{})
		s.must(err)
	}
}

// zoneAttempts are requests that all replicas sent to endpoints, by whether these are in their zone.
type zoneAttempts struct{ own, other float64 }

func (s *stage) attemptsByZone() (sum zoneAttempts) {
	s.Helper()
	pods, err := replicaAddresses(s.Context())
	s.must(err)
	for _, address := range pods {
		page, err := metrics.Read(s.Context(), cluster.Join(address, probePort))
		s.must(err)
		own, _ := page.Value("fairway_zone_attempts_total", map[string]string{"own": "true"})
		other, _ := page.Value("fairway_zone_attempts_total", map[string]string{"own": "false"})
		sum.own += own
		sum.other += other
	}
	return sum
}
