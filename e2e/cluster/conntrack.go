package cluster

import (
	"fmt"
	"net"
	"syscall"

	"github.com/vishvananda/netlink"
)

// ForgetFlow makes the kernel of the node forget where the datagrams go that a client sends to an address: kube-proxy's rules choose an
// endpoint for the next one. It works on the network namespace of the caller, which is the node's in a testbed.
func ForgetFlow(client int, address string) error {
	server, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return fmt.Errorf("forget flows to %s: %w", address, err)
	}
	family := netlink.InetFamily(syscall.AF_INET)
	if server.IP.To4() == nil {
		family = syscall.AF_INET6
	}
	filter := &netlink.ConntrackFilter{}
	for _, err := range []error{
		filter.AddProtocol(syscall.IPPROTO_UDP),
		filter.AddIP(netlink.ConntrackOrigDstIP, server.IP),
		filter.AddPort(netlink.ConntrackOrigDstPort, uint16(server.Port)),
		filter.AddPort(netlink.ConntrackOrigSrcPort, uint16(client)),
	} {
		if err != nil {
			return fmt.Errorf("forget flows to %s: %w", address, err)
		}
	}
	forgotten, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter)
	if err != nil {
		return fmt.Errorf("forget the flow from port %d to %s: %w", client, address, err)
	}
	if forgotten == 0 {
		return fmt.Errorf("forget the flow from port %d to %s: the kernel knows none", client, address)
	}
	return nil
}
