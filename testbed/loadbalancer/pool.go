// Package loadbalancer gives Services of type LoadBalancer their addresses, as a cloud's controller does; kube-proxy then
// forwards them. It owns the pools and the status of those Services, and nothing else of them.
package loadbalancer

import (
	"fmt"
	"net/netip"
)

// Pool is a range of addresses, each with at most one owner.
type Pool struct {
	prefix netip.Prefix
	owners map[netip.Addr]string
}

// NewPool is the pool of all addresses of the prefix but its first (the network's own).
func NewPool(prefix string) (*Pool, error) {
	parsed, err := netip.ParsePrefix(prefix)
	if err != nil {
		return nil, fmt.Errorf("address pool: %w", err)
	}
	return &Pool{prefix: parsed.Masked(), owners: map[netip.Addr]string{}}, nil
}

// Take gives the owner the lowest free address.
func (p *Pool) Take(owner string) (netip.Addr, error) {
	for address := p.prefix.Addr().Next(); p.prefix.Contains(address); address = address.Next() {
		if _, taken := p.owners[address]; !taken {
			p.owners[address] = owner
			return address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all %d addresses of %s are given to LoadBalancer Services; remove one", len(p.owners), p.prefix)
}

// Hold reserves that address for the owner, unless it has another owner or is outside of the pool.
func (p *Pool) Hold(address netip.Addr, owner string) bool {
	if !p.prefix.Contains(address) || address == p.prefix.Addr() {
		return false
	}
	if holder, taken := p.owners[address]; taken && holder != owner {
		return false
	}
	p.owners[address] = owner
	return true
}

func (p *Pool) free(address netip.Addr) bool {
	_, taken := p.owners[address]
	return !taken && p.prefix.Contains(address) && address != p.prefix.Addr()
}

// Release frees the address of the owner.
func (p *Pool) Release(owner string) {
	for address, holder := range p.owners {
		if holder == owner {
			delete(p.owners, address)
		}
	}
}
