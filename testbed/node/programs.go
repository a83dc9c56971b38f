// Package node is what runs inside of a testbed: the components of a single-node Kubernetes, their configuration, and the
// one process that starts them and answers the `testbed` command. It runs in the testbed's namespaces and never outside.
package node

import (
	"path/filepath"
)

// Name is the name of the node.
const Name = "node"

// Programs are where the programs are that a testbed runs.
type Programs struct {
	// Kubernetes is the one file of all Kubernetes programs.
	Kubernetes string `json:"kubernetes"`
	// Containerd is the folder of containerd, its shim and ctr.
	Containerd string `json:"containerd"`
	CoreDNS    string `json:"coredns"`
	// Pause is the archive of the pods' first image.
	Pause string `json:"pause"`
	// CNI is the folder of the network plugins.
	CNI string `json:"cni"`
}

// Folders must stay visible inside of the testbed.
func (p Programs) Folders() []string {
	return []string{filepath.Dir(p.Kubernetes), p.Containerd, filepath.Dir(p.CoreDNS), filepath.Dir(p.Pause), p.CNI}
}

// PauseImage is the name of the pods' first image.
const PauseImage = "fairway.test/pause:v1"
