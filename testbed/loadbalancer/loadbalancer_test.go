package loadbalancer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/testbed/kubeapi"
	"fairway/testbed/pki"
)

func pool(t *testing.T, prefix string) *Pool {
	t.Helper()
	made, err := NewPool(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAPoolGivesEachAddressToOneOwnerAndTakesItBack(t *testing.T) {
	pool := pool(t, "10.0.0.0/30")
	given := map[string]bool{}
	for _, owner := range []string{"a", "b", "c"} {
		address, err := pool.Take(owner)
		if err != nil {
			t.Fatal(err)
		}
		if given[address.String()] || address.String() == "10.0.0.0" {
			t.Errorf("%s was given %s", owner, address)
		}
		given[address.String()] = true
	}
	if _, err := pool.Take("d"); err == nil || !strings.Contains(err.Error(), "10.0.0.0/30") {
		t.Errorf("an empty pool answered %v", err)
	}
	pool.Release("b")
	if address, err := pool.Take("d"); err != nil || address.String() != "10.0.0.2" {
		t.Errorf("after b gave 10.0.0.2 back, d got %s, %v", address, err)
	}
}

func TestAPoolHoldsOnlyFreeAddressesOfItsOwn(t *testing.T) {
	pool := pool(t, "fd00::/120")
	for address, want := range map[string]bool{"fd00::7": true, "fd00::": false, "fd01::7": false, "10.0.0.1": false} {
		if got := pool.Hold(netip.MustParseAddr(address), "a"); got != want {
			t.Errorf("holding %s: %v, not %v", address, got, want)
		}
	}
	if pool.Hold(netip.MustParseAddr("fd00::7"), "b") {
		t.Error("an address of a is held for b")
	}
	if !pool.Hold(netip.MustParseAddr("fd00::7"), "a") {
		t.Error("an owner cannot hold its own address again")
	}
}

// cluster is an API server with Services, a watch of them, and the writes to their status.
type cluster struct {
	services string
	events   chan string
	mutex    sync.Mutex
	written  map[string][]string
}

func (c *cluster) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	switch {
	case request.Method == http.MethodPatch:
		var change struct {
			Status struct{ LoadBalancer struct{ Ingress []ingress } }
		}
		if err := json.NewDecoder(request.Body).Decode(&change); err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		addresses := []string{}
		for _, entry := range change.Status.LoadBalancer.Ingress {
			addresses = append(addresses, entry.IP)
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.written[strings.Split(request.URL.Path, "/")[6]] = addresses
	case request.URL.Query().Get("watch") == "true":
		for event := range c.events {
			if _, err := answer.Write([]byte(event)); err != nil {
				return
			}
			answer.(http.Flusher).Flush()
		}
	default:
		_, _ = answer.Write([]byte(`{"metadata":{"resourceVersion":"1"},"items":[` + c.services + `]}`))
	}
}

func (c *cluster) await(t *testing.T, service string, want []string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		c.mutex.Lock()
		got = c.written[service]
		c.mutex.Unlock()
		if reflect.DeepEqual(got, want) {
			return
		}
	}
	t.Fatalf("Service %s has %v, not %v", service, got, want)
}

func serviceJSON(name, kind, families, status string) string {
	return `{"metadata":{"namespace":"n","name":"` + name + `"},"spec":{"type":"` + kind + `","ipFamilies":` + families +
		`},"status":{"loadBalancer":{"ingress":` + status + `}}}`
}

func TestServicesGetAnAddressOfEachFamilyAndKeepThoseTheyHave(t *testing.T) {
	const dual = `["IPv4","IPv6"]`
	simulated := &cluster{events: make(chan string), written: map[string][]string{}, services: strings.Join([]string{
		serviceJSON("new", "LoadBalancer", dual, "null"),
		serviceJSON("old", "LoadBalancer", `["IPv4"]`, `[{"ip":"10.0.0.1","ipMode":"VIP"}]`),
		serviceJSON("inner", "ClusterIP", `["IPv4"]`, "null"),
		serviceJSON("was", "ClusterIP", `["IPv4"]`, `[{"ip":"10.0.0.9","ipMode":"VIP"}]`),
	}, ",")}
	server := httptest.NewTLSServer(simulated)
	defer server.Close()
	defer close(simulated.events)
	controller, err := New(client(t, server), "10.0.0.0/29", "fd00::/120")
	if err != nil {
		t.Fatal(err)
	}
	go controller.Run(t.Context())

	simulated.await(t, "new", []string{"10.0.0.2", "fd00::1"})
	simulated.await(t, "was", []string{})
	simulated.events <- `{"type":"DELETED","object":` + serviceJSON("old", "LoadBalancer", dual, "null") + "}\n"
	simulated.events <- `{"type":"ADDED","object":` + serviceJSON("next", "LoadBalancer", `["IPv6","IPv4"]`, "null") + "}\n"
	simulated.await(t, "next", []string{"fd00::2", "10.0.0.1"})
	simulated.mutex.Lock()
	defer simulated.mutex.Unlock()
	if len(simulated.written["old"])+len(simulated.written["inner"]) > 0 {
		t.Errorf("Services that need nothing were written: %v", simulated.written)
	}
}

// client trusts the test's server and has some certificate to show.
func client(t *testing.T, server *httptest.Server) *kubeapi.Client {
	t.Helper()
	authority, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{User: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	made, err := kubeapi.New(server.URL, pki.Encode(server.Certificate()), pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
