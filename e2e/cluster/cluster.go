// Package cluster changes a cluster for scenarios: it creates and changes objects through the API, and waits for conditions. It
// never sends a request through Fairway.
package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a connection to the API.
type Cluster struct {
	API kubernetes.Interface
	// Objects are those of kinds that API does not know.
	Objects    dynamic.Interface
	Kubeconfig string
}

// Connect uses the kubeconfig file. The client is not slowed down on its own side: propagation is measured with it.
func Connect(kubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 5_000, 5_000
	config.Timeout = 30 * time.Second
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of any kind: %w", err)
	}
	return &Cluster{API: api, Objects: objects, Kubeconfig: kubeconfig}, nil
}

// pause is between two looks at a condition.
const pause = 50 * time.Millisecond

// Eventually polls look until it succeeds; the error names the condition and the last observation. An error of look is an
// observation: during faults, the API does not always respond.
func Eventually(ctx context.Context, limit time.Duration, what string, look func(context.Context) (bool, string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		done, saw, err := look(ctx)
		if err == nil && done {
			return nil
		}
		if err != nil {
			saw = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s not yet: %s; last: %s", limit, what, saw)
		case <-time.After(pause):
		}
	}
}

// Namespace makes a namespace if it does not exist. One that is being deleted, as by an earlier try of the same scenario, is
// waited for: nothing can be made in it.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	namespaces := c.API.CoreV1().Namespaces()
	return Eventually(ctx, 2*time.Minute, "namespace "+name+" exists", func(ctx context.Context) (bool, string, error) {
		_, err := namespaces.Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{})
		if !errors.IsAlreadyExists(err) {
			return err == nil, "", err
		}
		found, err := namespaces.Get(ctx, name, meta.GetOptions{})
		return err == nil && found.DeletionTimestamp == nil, "it is being deleted", err
	})
}

// DeleteNamespace deletes a namespace without waiting for its end.
func (c *Cluster) DeleteNamespace(ctx context.Context, name string) error {
	if err := c.API.CoreV1().Namespaces().Delete(ctx, name, meta.DeleteOptions{}); err != nil && !errors.IsNotFound(err) {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return nil
}

// Living are those of the named namespaces that are there and not being deleted.
func (c *Cluster) Living(ctx context.Context, names []string) ([]string, error) {
	list, err := c.API.CoreV1().Namespaces().List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var living []string
	for _, namespace := range list.Items {
		if namespace.DeletionTimestamp == nil && slices.Contains(names, namespace.Name) {
			living = append(living, namespace.Name)
		}
	}
	return living, nil
}

// NodeAddress is an address of the node that pods reach.
func (c *Cluster) NodeAddress(ctx context.Context) (netip.Addr, error) {
	nodes, err := c.API.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list nodes: %w", err)
	}
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == core.NodeInternalIP {
				return netip.ParseAddr(address.Address)
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("no node has an internal address")
}

// ServiceAddresses waits for the load balancer's addresses of a Service: IPv4 first.
func (c *Cluster) ServiceAddresses(ctx context.Context, namespace, name string) ([]netip.Addr, error) {
	var found []netip.Addr
	err := Eventually(ctx, time.Minute, "Service "+namespace+"/"+name+" has an address", func(ctx context.Context) (bool, string, error) {
		service, err := c.API.CoreV1().Services(namespace).Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return false, "", err
		}
		found = found[:0]
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			address, err := netip.ParseAddr(ingress.IP)
			if err != nil {
				return false, "", fmt.Errorf("Service %s/%s has the address %q: %w", namespace, name, ingress.IP, err)
			}
			found = append(found, address)
		}
		slices.SortFunc(found, netip.Addr.Compare)
		return len(found) >= len(service.Spec.IPFamilies), fmt.Sprintf("%v of %v", found, service.Spec.IPFamilies), nil
	})
	return found, err
}

// AwaitReachable waits until a port of an address accepts connections. The address of a Service is in its status before
// kube-proxy of the node forwards it, and earlier connects fail after three seconds without a route.
func (c *Cluster) AwaitReachable(ctx context.Context, address netip.Addr, port int) error {
	target := Join(address, port)
	dialer := net.Dialer{Timeout: 2 * time.Second}
	return Eventually(ctx, time.Minute, target+" takes connections", func(ctx context.Context) (bool, string, error) {
		connection, err := dialer.DialContext(ctx, "tcp", target)
		if err != nil {
			return false, "", err
		}
		return true, "", connection.Close()
	})
}

// Join is address and port as dialers want them.
func Join(address netip.Addr, port int) string {
	return net.JoinHostPort(address.String(), fmt.Sprint(port))
}
