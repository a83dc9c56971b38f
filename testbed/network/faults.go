package network

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Faults are packet filters in a chain of the testbed's own in the mangle table: kube-proxy does not use that table, and it
// is passed after addresses of Services are translated. Packets are dropped, never refused: whoever sent them waits.
const chain = "FAIRWAY-TESTBED"

// hooks are what faults can drop: packets to this node, from it, and through it.
var hooks = []string{"INPUT", "OUTPUT", "FORWARD"}

// rule is one dropped direction.
type rule struct {
	program string
	hook    string
	match   string
}

func (r rule) arguments(action string) []string {
	return append([]string{"-w", "-t", "mangle", action, chain + "-" + r.hook}, append(strings.Fields(r.match), "-j", "DROP")...)
}

// PrepareFaults makes the chains that the faults are put in.
func PrepareFaults() error {
	for _, program := range []string{"iptables", "ip6tables"} {
		for _, hook := range hooks {
			for _, arguments := range [][]string{{"-N", chain + "-" + hook}, {"-I", hook, "-j", chain + "-" + hook}} {
				if err := Run(program, append([]string{"-w", "-t", "mangle"}, arguments...)...); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Fault is a set of dropped packets.
type Fault struct {
	// Name is how it is shown and taken back.
	Name  string `json:"name"`
	rules []rule
}

// Partition cuts the API server off from the pods, or also from what runs on the node.
func Partition(everyone bool) Fault {
	port := strconv.Itoa(APIPort)
	fault := Fault{Name: "api-server partition"}
	inward, outward := "-i "+PodBridge+" ", "-o "+PodBridge+" "
	if everyone {
		fault.Name = "api-server partition --all"
		inward, outward = "", ""
	}
	for _, program := range []string{"iptables", "ip6tables"} {
		fault.rules = append(fault.rules,
			rule{program, "INPUT", inward + "-p tcp --dport " + port},
			rule{program, "OUTPUT", outward + "-p tcp --sport " + port})
	}
	return fault
}

// BlackHole drops everything to and from one address. With `exceptNode` the node itself (kubelet's probes, programs in
// `testbed exec`) still reaches it.
func BlackHole(address string, exceptNode bool) (Fault, error) {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return Fault{}, fmt.Errorf("drop-address: %q is no address: %w", address, err)
	}
	fault := Fault{Name: "drop-address " + parsed.String()}
	program := filter(parsed)
	fault.rules = []rule{{program, "FORWARD", "-d " + parsed.String()}, {program, "FORWARD", "-s " + parsed.String()}}
	if !exceptNode {
		fault.rules = append(fault.rules,
			rule{program, "OUTPUT", "-d " + parsed.String()}, rule{program, "INPUT", "-s " + parsed.String()})
	}
	return fault, nil
}

// Begin begins to drop.
func (f Fault) Begin() error {
	for _, rule := range f.rules {
		if err := Run(rule.program, rule.arguments("-A")...); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// End lets the packets through again.
func (f Fault) End() error {
	for _, rule := range f.rules {
		if err := Run(rule.program, rule.arguments("-D")...); err != nil {
			return fmt.Errorf("end %s: %w", f.Name, err)
		}
	}
	return nil
}
