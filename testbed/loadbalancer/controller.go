package loadbalancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"slices"
	"time"

	"fairway/testbed/kubeapi"
)

// class is the loadBalancerClass that the controller serves in addition to none.
const class = "testbed"

// again is the wait after a failure.
const again = 200 * time.Millisecond

// Controller keeps the addresses of the Services of one cluster.
type Controller struct {
	api   *kubeapi.Client
	pools map[string]*Pool
}

type service struct {
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
		Deleted         string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Type     string   `json:"type"`
		Class    *string  `json:"loadBalancerClass"`
		Families []string `json:"ipFamilies"`
		Wanted   string   `json:"loadBalancerIP"`
	} `json:"spec"`
	Status struct {
		LoadBalancer struct {
			Ingress []ingress `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

type ingress struct {
	IP     string `json:"ip,omitempty"`
	IPMode string `json:"ipMode,omitempty"`
}

func (s service) key() string {
	return s.Metadata.Namespace + "/" + s.Metadata.Name
}

func (s service) served() bool {
	return s.Spec.Type == "LoadBalancer" && s.Metadata.Deleted == "" && (s.Spec.Class == nil || *s.Spec.Class == class)
}

// New makes the controller with its pools.
func New(api *kubeapi.Client, range4, range6 string) (*Controller, error) {
	pool4, err := NewPool(range4)
	if err != nil {
		return nil, err
	}
	pool6, err := NewPool(range6)
	if err != nil {
		return nil, err
	}
	return &Controller{api: api, pools: map[string]*Pool{"IPv4": pool4, "IPv6": pool6}}, nil
}

// Run serves until ctx ends; it retries while the API server is lost.
func (c *Controller) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.follow(ctx)
		if err != nil && ctx.Err() == nil {
			log.Printf("load balancer: %v", err)
			select {
			case <-ctx.Done():
			case <-time.After(again):
			}
		}
	}
}

// follow lists all Services, then follows their changes until the watch ends.
func (c *Controller) follow(ctx context.Context) error {
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []service `json:"items"`
	}
	if err := c.api.Read(ctx, "/api/v1/services", &list); err != nil {
		return err
	}
	// Existing addresses are reserved before new ones are assigned.
	present := map[string]bool{}
	for _, each := range list.Items {
		if each.served() {
			present[each.key()] = true
			c.reserveAddresses(each)
		}
	}
	c.releaseAbsent(present)
	var failures []error
	for _, each := range list.Items {
		failures = append(failures, c.reconcile(ctx, each))
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return c.api.Watch(ctx, "/api/v1/services", list.Metadata.ResourceVersion, func(event kubeapi.Event) error {
		var changed service
		if event.Type == "BOOKMARK" {
			return nil
		}
		if err := json.Unmarshal(event.Object, &changed); err != nil {
			return fmt.Errorf("read a Service: %w", err)
		}
		if event.Type == "DELETED" {
			c.release(changed.key())
			return nil
		}
		return c.reconcile(ctx, changed)
	})
}

func (c *Controller) releaseAbsent(present map[string]bool) {
	for _, pool := range c.pools {
		for _, owner := range pool.owners {
			if !present[owner] {
				pool.Release(owner)
			}
		}
	}
}

func (c *Controller) release(owner string) {
	for _, pool := range c.pools {
		pool.Release(owner)
	}
}

func family(address netip.Addr) string {
	if address.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// reserveAddresses reserves the addresses in the Service's status, as far as they belong to the pools.
func (c *Controller) reserveAddresses(each service) map[string]netip.Addr {
	held := map[string]netip.Addr{}
	for _, entry := range each.Status.LoadBalancer.Ingress {
		address, err := netip.ParseAddr(entry.IP)
		if err == nil && c.pools[family(address)].Hold(address, each.key()) {
			held[family(address)] = address
		}
	}
	return held
}

// reconcile gives the Service one address of each of its families, and takes back what it does not want any more.
func (c *Controller) reconcile(ctx context.Context, each service) error {
	if !each.served() {
		c.release(each.key())
		if each.Spec.Type == "LoadBalancer" || len(each.Status.LoadBalancer.Ingress) == 0 {
			return nil
		}
		return c.write(ctx, each, nil)
	}
	held := c.reserveAddresses(each)
	wanted, err := netip.ParseAddr(each.Spec.Wanted)
	if pool := c.pools[family(wanted)]; err == nil && held[family(wanted)] != wanted && pool.free(wanted) {
		pool.Release(each.key())
		pool.Hold(wanted, each.key())
		held[family(wanted)] = wanted
	}
	for name, pool := range c.pools {
		if !slices.Contains(each.Spec.Families, name) {
			pool.Release(each.key())
		}
	}
	var entries []ingress
	for _, name := range each.Spec.Families {
		address, given := held[name]
		if !given {
			if address, err = c.pools[name].Take(each.key()); err != nil {
				return fmt.Errorf("Service %s: %w", each.key(), err)
			}
		}
		entries = append(entries, ingress{IP: address.String(), IPMode: "VIP"})
	}
	if slices.Equal(entries, each.Status.LoadBalancer.Ingress) {
		return nil
	}
	return c.write(ctx, each, entries)
}

func (c *Controller) write(ctx context.Context, each service, entries []ingress) error {
	path := fmt.Sprintf("/api/v1/namespaces/%s/services/%s/status", each.Metadata.Namespace, each.Metadata.Name)
	err := c.api.Merge(ctx, path, map[string]any{
		"status": map[string]any{"loadBalancer": map[string]any{"ingress": entries}},
	})
	if kubeapi.Missing(err) {
		// Removed since; the watch says so next.
		return nil
	}
	if err != nil {
		return fmt.Errorf("Service %s: %w", each.key(), err)
	}
	return nil
}
