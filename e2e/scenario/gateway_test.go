package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/verdict"
)

// These scenarios change the installation of Fairway, so none runs in parallel. Requests go to the address of a Gateway.

// gatewayAPI are the values with which the chart serves Gateway API.
var gatewayAPI = []string{"gatewayApi.enabled=true", "gatewayApi.gatewayClass.enabled=true"}

// gatewayName is that of the Gateway of a scenario.
const gatewayName = "edge"

func TestRollingFairwayLosesNoRequestThroughAGateway(t *testing.T) {
	s := newStage(t, "gateway-roll")
	address := s.gateway()
	s.traffic(load.Plan{Address: address})
	s.repeat(func() {
		for _, image := range []string{testbed.Next, testbed.Image} {
			s.must(upgrade(s.Context(), image, gatewayAPI...))
			s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
			s.runs(image)
			s.more(s.rate)
		}
	})
	s.finish()
}

// A change of a route moves all requests to other pods, back and forth.
func TestAChangedRouteOfAGatewayLosesNoRequest(t *testing.T) {
	s := newStage(t, "gateway-route")
	address := s.gateway()
	s.must(kube.Deploy(s.Context(), s.workload("other", 3)))
	s.traffic(load.Plan{Address: address})
	s.repeat(func() {
		for _, service := range []string{"other", "backend"} {
			s.must(kube.MoveGatewayRoute(s.Context(), s.namespace, "backend", service))
			s.answeredBy(address, service)
			s.more(s.rate)
		}
	})
	s.finish()
}

// The EndpointSlices of Gateways must not wait for a leader: another replica writes them.
func TestAKilledLeaderCostsAGatewayOnlyWhatWasInsideIt(t *testing.T) {
	s := newStage(t, "gateway-kill")
	address := s.gateway()
	s.traffic(load.Plan{Address: address})
	s.repeat(func() {
		leader, err := kube.Pod(s.Context(), fairwayNamespace, s.leader())
		s.must(err)
		if cluster.Restarts(*leader) > 0 {
			// Kubernetes waits ever longer before it restarts a container again.
			s.must(kube.Restart(s.Context(), fairwayNamespace, fairwayName))
			s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
			leader, err = kube.Pod(s.Context(), fairwayNamespace, s.leader())
			s.must(err)
		}
		s.killBehind(*leader, address)
		s.more(s.rate)
	})
	s.finish(verdict.CutInKilledFairway(&s.kills), verdict.RefusedByKilledFairway(&s.absent))
}

func TestADeletedGatewayLeavesNothingBehind(t *testing.T) {
	s := newStage(t, "gateway-gone")
	address := s.gateway()
	services, slices, err := kube.OfGateway(s.Context(), s.namespace, gatewayName)
	s.must(err)
	if len(services) != 1 || len(slices) == 0 {
		s.Fatalf("a Gateway with an address has %d Services and %d EndpointSlices", len(services), len(slices))
	}
	if ports := s.ports(); !strings.Contains(ports, s.namespace+"/"+gatewayName+":80 ") {
		s.Fatalf("the list of ports has none of the Gateway:\n%s", ports)
	}
	s.must(kube.DeleteGateway(s.Context(), s.namespace, gatewayName))
	s.must(cluster.Eventually(s.Context(), time.Minute, "the Service and the EndpointSlices of the Gateway are gone",
		func(ctx context.Context) (bool, string, error) {
			services, slices, err := kube.OfGateway(ctx, s.namespace, gatewayName)
			return len(services)+len(slices) == 0, remainingObjects(services, slices), err
		}))
	s.must(cluster.Eventually(s.Context(), time.Minute, "its port is free", func(context.Context) (bool, string, error) {
		ports := s.ports()
		return !strings.Contains(ports, s.namespace+"/"+gatewayName+":"), ports, nil
	}))
	probe := load.NewProbe(load.Plan{Address: address, Host: s.host, Reuse: load.NewConnection, ConnectTimeout: time.Second})
	s.must(cluster.Eventually(s.Context(), promptly, "nothing answers at its address", func(ctx context.Context) (bool, string, error) {
		sight := probe.Ask(ctx)
		return sight.Class != load.OK, fmt.Sprintf("%+v", sight), nil
	}))
}

func remainingObjects(services []core.Service, slices []discovery.EndpointSlice) string {
	var names []string
	for _, service := range services {
		names = append(names, "Service "+service.Name)
	}
	for _, slice := range slices {
		names = append(names, "EndpointSlice "+slice.Name)
	}
	return strings.Join(names, ", ")
}

// serveGateways installs the chart with Gateway API. Afterwards the chart is as it was.
func (s *stage) serveGateways() {
	s.Helper()
	_, err := testbed.Kubectl(s.Context(), "apply", "--server-side", "-f", testbed.Definitions)
	s.must(err)
	_, err = testbed.Kubectl(s.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	s.must(err)
	s.Cleanup(func() {
		if err := upgrade(context.Background(), testbed.Image); err != nil {
			s.Error(err)
		}
		if err := kube.AwaitSettled(context.Background(), fairwayNamespace, fairwayName); err != nil {
			s.Error(err)
		}
	})
	s.must(upgrade(s.Context(), testbed.Image, gatewayAPI...))
	s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
}

// gateway makes a Gateway with a route to backends, and waits until its address leads there.
func (s *stage) gateway() string {
	s.Helper()
	s.serveGateways()
	s.must(kube.Deploy(s.Context(), s.workload("backend", 3)))
	s.must(kube.Gateway(s.Context(), s.namespace, gatewayName, "HTTP", 80))
	route := cluster.Route{Namespace: s.namespace, Name: "backend", Host: s.host, Service: "backend"}
	s.must(kube.GatewayRoute(s.Context(), gatewayName, route))
	found, err := kube.GatewayAddress(s.Context(), s.namespace, gatewayName)
	s.must(err)
	address := cluster.Join(found, 80)
	s.awaitServedAt(address)
	return address
}

// awaitServedAt waits until a route is served at an address.
func (s *stage) awaitServedAt(address string) {
	s.Helper()
	probe := load.NewProbe(load.Plan{Address: address, Host: s.host, Reuse: load.NewConnection})
	s.must(cluster.Eventually(s.Context(), promptly, s.host+" is served at "+address, func(ctx context.Context) (bool, string, error) {
		sight := probe.Ask(ctx)
		return sight.Class == load.OK, fmt.Sprintf("%+v", sight), nil
	}))
}

// answeredBy waits until every replica behind an address leads to the pods of a Deployment: as many new connections in a row as
// make it unlikely that one of two replicas was never asked.
func (s *stage) answeredBy(address, deployment string) {
	s.Helper()
	const inARow = 20
	probe := load.NewProbe(load.Plan{Address: address, Host: s.host, Reuse: load.NewConnection})
	s.must(cluster.Eventually(s.Context(), promptly, s.host+" is answered by "+deployment, func(ctx context.Context) (bool, string, error) {
		for range inARow {
			if sight := probe.Ask(ctx); !strings.HasPrefix(sight.Pod, deployment+"-") {
				return false, fmt.Sprintf("%+v", sight), nil
			}
		}
		return true, "", nil
	}))
}

// killBehind kills a container of Fairway with -9 and waits until it is back. The Service of the Gateway may lead to it until
// the node has found out and another replica has copied that.
func (s *stage) killBehind(pod core.Pod, address string) {
	s.Helper()
	back, killed := s.absent.Open(), s.kills.Open()
	s.must(testbed.Fault(s.Context(), "kill-container", pod.Namespace+"/"+pod.Name))
	s.must(kube.AwaitDead(s.Context(), pod))
	killed()
	s.must(kube.AwaitRestarted(s.Context(), pod))
	s.awaitServedAt(address)
	back()
}

// ports is the list of the ports that Gateways have in Fairway's pods.
func (s *stage) ports() string {
	s.Helper()
	list, err := kube.API.CoreV1().ConfigMaps(fairwayNamespace).Get(s.Context(), fairwayName+"-gateway-ports", meta.GetOptions{})
	s.must(err)
	return list.Data["ports"]
}
