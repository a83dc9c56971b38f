package scenario

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fairway/e2e/bed"
	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/metrics"
	"fairway/e2e/report"
)

const (
	dnsPort   = 53
	redisPort = 6379
	// served is the Deployment and Service of the Fairway that serves them: release and chart.
	servedRelease, servedName = "ports", "ports-fairway"
	// asked has an address that every CoreDNS of a cluster knows.
	asked = "kubernetes.default.svc.cluster.local."
)

// CoreDNS over UDP and TCP and Redis over long connections, as TCP and UDP services of ConfigMaps, while their pods go 5, 7, 5.
// A query may only be lost in an ending pod, and must succeed when it is repeated; a connection may only be cut if its Redis
// has ended.
func TestDNSAndLongConnectionsLiveThroughScaling(t *testing.T) {
	s := newStage(t, "services")
	s.dns(5)
	s.redis(5)
	entry := s.servePorts()
	want, err := netip.ParseAddr(s.apiAddress())
	s.must(err)
	plan := load.DNSPlan{Name: asked, Want: want, Clients: 20, Rate: s.rate * 6 / 10, Ports: clientPorts}
	overUDP, overTCP := plan, plan
	overUDP.Network, overUDP.Address = "udp", cluster.Join(entry, dnsPort)
	overTCP.Network, overTCP.Address, overTCP.Rate, overTCP.Clients = "tcp", cluster.Join(entry, dnsPort), s.rate/20, 5
	udp, tcp := load.Resolve(overUDP), load.Resolve(overTCP)
	t.Cleanup(func() { udp.Stop(); tcp.Stop() })
	redis := s.talks(cluster.Join(entry, redisPort), load.RedisSpeech)
	held := redis.open(talking)
	for first := true; first || udp.Queries() < s.requests; first = false {
		s.scale("dns", 7)
		s.scale("redis", 7)
		joined := redis.join(held, slices.Collect(maps.Keys(s.identities())))
		s.stay(max(how.up, 3*time.Second))
		s.scale("dns", 5)
		s.scale("redis", 5)
		redis.answered(held)
		redis.answered(joined)
		s.stay(max(how.up, 3*time.Second))
		joined.Stop()
	}
	living := s.identities()
	s.checkResponses("UDP", udp.Stop())
	s.checkResponses("TCP", tcp.Stop())
	redis.stop()
	redis.judge("Redis", "Redis, long connections", func(server string, _ time.Time) bool { return !living[server] })
	s.accounted()
}

// stay waits for a time.
func (s *stage) stay(length time.Duration) {
	select {
	case <-s.Context().Done():
	case <-time.After(length):
	}
}

// dns runs CoreDNS with the Services of the cluster, as clusters do.
func (s *stage) dns(replicas int32) {
	s.Helper()
	inPod := intstr.FromInt32(5353)
	s.must(kube.DeployProgram(s.Context(), cluster.Program{
		Namespace: s.namespace, Name: "dns", Image: testbed.CoreDNS, Replicas: replicas,
		Arguments: []string{"-conf", "/etc/program/Corefile"},
		Files:     map[string]string{"Corefile": ".:5353 {\n    errors\n    ready :8181\n    kubernetes cluster.local\n}\n"},
		Ports: []core.ServicePort{
			{Name: "dns", Protocol: core.ProtocolUDP, Port: dnsPort, TargetPort: inPod},
			{Name: "dns-tcp", Protocol: core.ProtocolTCP, Port: dnsPort, TargetPort: inPod},
		},
		Ready:       core.ProbeHandler{HTTPGet: &core.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8181)}},
		ClusterRole: "system:coredns",
	}))
}

// redis runs servers that know nothing of one another: a client sees with which of them it is.
func (s *stage) redis(replicas int32) {
	s.Helper()
	s.must(kube.DeployProgram(s.Context(), cluster.Program{
		Namespace: s.namespace, Name: "redis", Image: testbed.Redis, Replicas: replicas,
		Arguments: []string{"--save", "", "--appendonly", "no", "--protected-mode", "no", "--bind", "0.0.0.0"},
		Ports:     []core.ServicePort{{Name: "redis", Port: redisPort, TargetPort: intstr.FromInt32(redisPort)}},
		Ready:     core.ProbeHandler{TCPSocket: &core.TCPSocketAction{Port: intstr.FromInt32(redisPort)}},
	}))
}

// apiAddress is that of the API server's Service.
func (s *stage) apiAddress() string {
	s.Helper()
	service, err := kube.API.CoreV1().Services("default").Get(s.Context(), "kubernetes", meta.GetOptions{})
	s.must(err)
	return service.Spec.ClusterIP
}

// servePorts installs a Fairway of the scenario's own with its ports, and waits until every replica serves them. Gives the address
// of its Service.
func (s *stage) servePorts() netip.Addr {
	s.Helper()
	name, tag, found := cutLast(testbed.Image, ":")
	if !found {
		s.Fatalf("image %q has no tag", testbed.Image)
	}
	leads := func(service string, port int) string { return fmt.Sprintf("%s/%s:%d", s.namespace, service, port) }
	s.must(testbed.Install(s.Context(), s.namespace, servedRelease,
		"image.repository="+name, "image.tag="+tag, fmt.Sprintf("replicas=%d", fairwayReplicas),
		"watch.namespaces={"+s.namespace+"}", "ingressClass.enabled=false", "status.enabled=false",
		fmt.Sprintf("tcp.%d=%s", dnsPort, leads("dns", dnsPort)), fmt.Sprintf("udp.%d=%s", dnsPort, leads("dns", dnsPort)),
		fmt.Sprintf("tcp.%d=%s", redisPort, leads("redis", redisPort)),
		"resources.requests.cpu=50m", "drain.delay=5", "drain.timeout=30", "drain.margin=5", "logs.access=off",
	))
	s.Cleanup(func() {
		if _, err := bed.Run(context.Background(), testbed.Helm, "uninstall", servedRelease, "--namespace", s.namespace); err != nil {
			s.Error(err)
		}
	})
	s.must(kube.AwaitSettled(s.Context(), s.namespace, servedName))
	entry, err := kube.ServiceAddresses(s.Context(), s.namespace, servedName)
	s.must(err)
	// The address of the Service last: the node learns of it after the pods are ready.
	for _, pod := range append(s.servers(), entry[0]) {
		for _, network := range []string{"udp", "tcp"} {
			plan := load.DNSPlan{Network: network, Address: cluster.Join(pod, dnsPort), Name: asked, Want: netip.MustParseAddr(s.apiAddress())}
			s.must(cluster.Eventually(s.Context(), promptly, fmt.Sprintf("%s answers DNS over %s", pod, network),
				func(context.Context) (bool, string, error) {
					event := load.Ask(plan)
					return event.Class == load.OK, event.String(), nil
				}))
		}
		s.must(cluster.Eventually(s.Context(), promptly, fmt.Sprintf("%s leads to Redis", pod),
			func(ctx context.Context) (bool, string, error) {
				id, err := load.RedisIdentity(ctx, cluster.Join(pod, redisPort))
				return err == nil, id, err
			}))
	}
	return entry[0]
}

// servers are the addresses of the Fairway that serves the ports.
func (s *stage) servers() []netip.Addr { return s.podAddresses(servedName) }

func (s *stage) podAddresses(deployment string) []netip.Addr {
	s.Helper()
	pods, err := kube.Pods(s.Context(), s.namespace, deployment)
	s.must(err)
	var found []netip.Addr
	for _, pod := range pods {
		address, err := netip.ParseAddr(pod.Status.PodIP)
		s.must(err)
		found = append(found, address)
	}
	return found
}

// identities are those of the Redis that run now.
func (s *stage) identities() map[string]bool {
	s.Helper()
	living := map[string]bool{}
	for _, address := range s.podAddresses("redis") {
		id, err := load.RedisIdentity(s.Context(), cluster.Join(address, redisPort))
		s.must(err)
		living[id] = true
	}
	return living
}

// checkResponses fails for queries without a response, and for attempts that were lost while no pod was ending.
func (s *stage) checkResponses(network string, seen load.Answers) {
	s.Helper()
	apart, classes := 0, map[string]int{}
	wrong := seen.Failed
	for _, event := range seen.Attempts {
		classes[string(event.Class)]++
		if event.Class == load.Wrong {
			// It is among those that failed.
			continue
		}
		if s.dying.Holds(event.Begin, event.End) {
			apart++
		} else {
			wrong = append(wrong, event)
		}
	}
	book.Add(report.Scenario{
		Name: s.name, Stream: "DNS over " + network, Requests: seen.Queries, Failed: len(wrong), Classes: classes,
		Apart: map[string]int{"attempt of a query lost in a dying pod": apart},
		P50:   load.Percentile(seen.Latencies, 0.50), P99: load.Percentile(seen.Latencies, 0.99), Max: load.Percentile(seen.Latencies, 1),
		Took: seen.Took,
	})
	s.Logf("%s: DNS over %s: %d queries, %d answered, %d attempts lost in dying pods", s.name, network, seen.Queries, seen.Answered, apart)
	if len(wrong) > 0 {
		s.Errorf("%s: DNS over %s: %d failures: %s", s.name, network, len(wrong), firstLines(texts(wrong)))
	}
	if seen.Answered == 0 {
		s.Errorf("%s: DNS over %s was never answered", s.name, network)
	}
}

func texts(events []load.Event) []string {
	var lines []string
	for _, event := range events {
		lines = append(lines, event.String())
	}
	return lines
}

// accounted waits until Fairway has counted the end of every connection and every session of datagrams.
func (s *stage) accounted() {
	s.Helper()
	for _, address := range s.servers() {
		s.must(cluster.Eventually(s.Context(), 2*time.Minute, fmt.Sprintf("%s has counted every end", address),
			func(ctx context.Context) (bool, string, error) {
				page, err := metrics.Read(ctx, cluster.Join(address, probePort))
				if err != nil {
					return false, "", err
				}
				connections, ended := ends(page, "fairway_streams")
				sessions, over := ends(page, "fairway_datagram_sessions")
				saw := fmt.Sprintf("%v of %v connections, %v of %v sessions", ended, connections, over, sessions)
				// Probes of the scenario are among them.
				return connections > 0 && sessions > 0 && connections == ended && sessions == over, saw, nil
			}))
	}
}

// ends are the opened connections and those that have ended for any reason.
func ends(page metrics.Page, name string) (opened, ended float64) {
	opened, _ = page.Value(name+"_opened_total", nil)
	ended, _ = page.Value(name+"_ended_total", nil)
	return opened, ended
}
