// Package network is a testbed's addresses and how its node's network is set up. Every testbed has a network namespace of
// its own, so all use the same addresses. It never touches the network it was started from.
package network

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The addresses of every testbed, IPv4 and IPv6.
const (
	Node4, Node6             = "10.10.0.1", "fd00:10:10::1"
	Pods4, Pods6             = "10.244.0.0/20", "fd00:10:244::/64"
	Services4, Services6     = "10.96.0.0/16", "fd00:10:96::/112"
	Kubernetes4, Kubernetes6 = "10.96.0.1", "fd00:10:96::1"
	DNS4, DNS6               = "10.96.0.10", "fd00:10:96::a"
	// LoadBalancers are the pools of addresses for Services of that type.
	LoadBalancers4, LoadBalancers6 = "10.11.0.0/24", "fd00:10:11::/112"
	// PodBridge is the device between the node and its pods.
	PodBridge = "cni0"
	// APIPort is where the API server listens on every address of the node.
	APIPort = 6443
)

// settings of this network namespace: forwarding, pods of one bridge filtered as if routed (kube-proxy needs that for
// a pod that reaches itself through a Service), and no waiting for IPv6 duplicates that cannot be.
var settings = map[string]string{
	"net/ipv4/ip_forward":                 "1",
	"net/ipv6/conf/all/forwarding":        "1",
	"net/ipv6/conf/default/accept_dad":    "0",
	"net/ipv6/conf/all/accept_dad":        "0",
	"net/bridge/bridge-nf-call-iptables":  "1",
	"net/bridge/bridge-nf-call-ip6tables": "1",
	"net/ipv6/conf/default/disable_ipv6":  "0",
	"net/ipv6/conf/all/disable_ipv6":      "0",
}

// SetUp makes the node's addresses in this process's network namespace.
func SetUp() error {
	// A bridge carries the node's address, because not every kernel has dummy devices. A pair of cables in it gives it a
	// carrier, without which IPv6 addresses are not usable. A default route must exist for kubelet and kube-proxy.
	commands := []string{
		"link set lo up",
		"link add eth0 type bridge",
		"link add eth0-end type veth peer name eth0-far",
		"link set eth0-end master eth0",
		"link set eth0-end up", "link set eth0-far up",
		"link set eth0 up",
		"addr add " + Node4 + "/16 dev eth0",
		"addr add " + Node6 + "/64 dev eth0 nodad",
		"route add default dev eth0",
		"-6 route add default dev eth0",
	}
	if err := apply(); err != nil {
		return err
	}
	for _, command := range commands {
		if err := Run("ip", strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

func apply() error {
	for name, value := range settings {
		file := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(file); err != nil {
			// Not a namespace's own on this kernel: then it is the machine's, and stays as it is.
			continue
		}
		if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
			return fmt.Errorf("set %s for the testbed's network: %w", name, err)
		}
	}
	return nil
}

// Run runs a command to its end; its words are in the error if it fails.
func Run(program string, arguments ...string) error {
	output, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// filter is iptables for the family of an address.
func filter(address netip.Addr) string {
	if address.Is4() {
		return "iptables"
	}
	return "ip6tables"
}
