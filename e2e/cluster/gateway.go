package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The kinds of Gateway API that scenarios make.
var (
	gateways   = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
	httpRoutes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	tcpRoutes  = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "tcproutes"}
)

// labelOfGateway is on objects that belong to a Gateway (GEP-1762).
const labelOfGateway = "gateway.networking.k8s.io/gateway-name"

// addressing bounds how long a new Gateway may be without an address.
const addressing = time.Minute

func ofGateways(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1",
		"kind":       kind,
		"metadata":   map[string]any{"namespace": namespace, "name": name},
		"spec":       spec,
	}}
}

// Gateway makes a Gateway of Fairway's class with one listener.
func (c *Cluster) Gateway(ctx context.Context, namespace, name, protocol string, port int64) error {
	listener := map[string]any{"name": strings.ToLower(protocol), "port": port, "protocol": protocol}
	object := ofGateways("Gateway", namespace, name, map[string]any{"gatewayClassName": Class, "listeners": []any{listener}})
	if _, err := c.Objects.Resource(gateways).Namespace(namespace).Create(ctx, object, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create Gateway %s/%s: %w", namespace, name, err)
	}
	return nil
}

// GatewayRoute makes an HTTPRoute of one host to a Service's port 80, attached to a Gateway of its namespace.
func (c *Cluster) GatewayRoute(ctx context.Context, gateway string, r Route) error {
	spec := map[string]any{
		"parentRefs": []any{map[string]any{"name": gateway}},
		"hostnames":  []any{r.Host},
		"rules":      []any{ruleTo(r.Service)},
	}
	object := ofGateways("HTTPRoute", r.Namespace, r.Name, spec)
	if _, err := c.Objects.Resource(httpRoutes).Namespace(r.Namespace).Create(ctx, object, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create HTTPRoute %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}

// MoveGatewayRoute replaces the rules of an HTTPRoute by one that leads to a Service's port 80.
func (c *Cluster) MoveGatewayRoute(ctx context.Context, namespace, name, service string) error {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"rules": []any{ruleTo(service)}}})
	if err != nil {
		return err
	}
	_, err = c.Objects.Resource(httpRoutes).Namespace(namespace).Patch(ctx, name, types.MergePatchType, body, meta.PatchOptions{})
	if err != nil {
		return fmt.Errorf("move HTTPRoute %s/%s to Service %s: %w", namespace, name, service, err)
	}
	return nil
}

func ruleTo(service string) map[string]any {
	return map[string]any{"backendRefs": []any{map[string]any{"name": service, "port": int64(80)}}}
}

// StreamRoute makes a TCPRoute to a port of a Service, attached to a Gateway of its namespace. It has the name of the Service.
func (c *Cluster) StreamRoute(ctx context.Context, namespace, gateway, service string, port int64) error {
	object := ofGateways("TCPRoute", namespace, service, map[string]any{
		"parentRefs": []any{map[string]any{"name": gateway}},
		"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": service, "port": port}}}},
	})
	if _, err := c.Objects.Resource(tcpRoutes).Namespace(namespace).Create(ctx, object, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create TCPRoute %s/%s: %w", namespace, service, err)
	}
	return nil
}

// DeleteGateway deletes a Gateway without waiting for its end.
func (c *Cluster) DeleteGateway(ctx context.Context, namespace, name string) error {
	if err := c.Objects.Resource(gateways).Namespace(namespace).Delete(ctx, name, meta.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete Gateway %s/%s: %w", namespace, name, err)
	}
	return nil
}

// GatewayAddress waits until a Gateway is programmed at its generation and gives its first address.
func (c *Cluster) GatewayAddress(ctx context.Context, namespace, name string) (netip.Addr, error) {
	var found netip.Addr
	what := "Gateway " + namespace + "/" + name + " is programmed and has an address"
	err := Eventually(ctx, addressing, what, func(ctx context.Context) (bool, string, error) {
		object, err := c.Objects.Resource(gateways).Namespace(namespace).Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return false, "", err
		}
		addresses, _, err := unstructured.NestedSlice(object.Object, "status", "addresses")
		if err != nil {
			return false, "", err
		}
		if len(addresses) == 0 || !programmed(object) {
			return false, fmt.Sprintf("%v, programmed: %t", addresses, programmed(object)), nil
		}
		value, _, err := unstructured.NestedString(addresses[0].(map[string]any), "value")
		if err != nil {
			return false, "", err
		}
		found, err = netip.ParseAddr(value)
		return err == nil, value, err
	})
	return found, err
}

// programmed says whether the condition holds at the object's generation.
func programmed(object *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		observed, _, _ := unstructured.NestedInt64(condition, "observedGeneration")
		if condition["type"] == "Programmed" && condition["status"] == "True" && observed == object.GetGeneration() {
			return true
		}
	}
	return false
}

// OfGateway are the Services of a Gateway and their EndpointSlices. Slices with the name of an existing Service count as well,
// so that leftovers are found.
func (c *Cluster) OfGateway(ctx context.Context, namespace, name string) ([]core.Service, []discovery.EndpointSlice, error) {
	services, err := c.API.CoreV1().Services(namespace).List(ctx, meta.ListOptions{LabelSelector: labelOfGateway + "=" + name})
	if err != nil {
		return nil, nil, fmt.Errorf("list Services of Gateway %s/%s: %w", namespace, name, err)
	}
	managed := meta.ListOptions{LabelSelector: discovery.LabelManagedBy + "=gateway-controller.fairway.dev"}
	slices, err := c.API.DiscoveryV1().EndpointSlices(namespace).List(ctx, managed)
	if err != nil {
		return nil, nil, fmt.Errorf("list EndpointSlices of Gateway %s/%s: %w", namespace, name, err)
	}
	return services.Items, slices.Items, nil
}
