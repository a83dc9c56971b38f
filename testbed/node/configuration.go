package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"fairway/testbed/network"
	"fairway/testbed/state"
	"golang.org/x/sys/unix"
)

// configure writes the files that the components read in addition to their flags.
func configure(testbed state.Testbed, programs Programs) error {
	for _, folder := range []string{
		testbed.Run("cni"), testbed.Data("etcd"), testbed.Data("kubelet"), testbed.Data("pod-logs"), testbed.Run("bin"),
	} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("make the testbed's folders: %w", err)
		}
	}
	texts := map[string]string{
		testbed.Run("containerd.toml"): containerd(testbed, programs),
		testbed.Run("Corefile"):        corefile(testbed),
		testbed.Run("resolv.conf"):     "nameserver " + network.DNS4 + "\n" + "search default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
	}
	for path, text := range texts {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write a configuration: %w", err)
		}
	}
	if err := writeJSON(testbed.Run("cni", "10-pods.conflist"), cni(testbed)); err != nil {
		return err
	}
	if err := writeJSON(testbed.Run("kubelet.yaml"), kubelet(testbed)); err != nil {
		return err
	}
	if err := writeJSON(testbed.Run("kube-proxy.yaml"), kubeProxy(testbed)); err != nil {
		return err
	}
	for _, link := range []struct{ name, target string }{
		{"kubectl", programs.Kubernetes}, {"ctr", filepath.Join(programs.Containerd, "ctr")},
	} {
		if err := os.Symlink(link.target, testbed.Run("bin", link.name)); err != nil {
			return fmt.Errorf("name %s for programs in the testbed: %w", link.name, err)
		}
	}
	return nil
}

func cni(testbed state.Testbed) any {
	type object = map[string]any
	return object{"cniVersion": "1.0.0", "name": "pods", "plugins": []any{
		object{
			"type": "bridge", "bridge": network.PodBridge, "isGateway": true, "hairpinMode": true,
			"ipam": object{
				"type": "host-local", "dataDir": testbed.Data("addresses"),
				"ranges": []any{[]any{object{"subnet": network.Pods4}}, []any{object{"subnet": network.Pods6}}},
				"routes": []any{object{"dst": "0.0.0.0/0"}, object{"dst": "::/0"}},
			},
		},
	}}
}

func kubelet(testbed state.Testbed) any {
	type object = map[string]any
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address":           network.Node4,
		"authentication":    object{"anonymous": object{"enabled": false}, "webhook": object{"enabled": true}, "x509": object{"clientCAFile": testbed.Run("pki", "ca.crt")}},
		"authorization":     object{"mode": "Webhook"},
		"tlsCertFile":       testbed.Run("pki", "kubelet.crt"),
		"tlsPrivateKeyFile": testbed.Run("pki", "kubelet.key"),
		// The testbed's own cgroup namespace holds pods without a hierarchy of QoS classes; versions 1 and 2 alike.
		"cgroupDriver": "cgroupfs", "cgroupsPerQOS": false, "enforceNodeAllocatable": []string{}, "failCgroupV1": false,
		"containerRuntimeEndpoint": "unix://" + testbed.Run("containerd.sock"),
		"failSwapOn":               false,
		"hairpinMode":              "hairpin-veth",
		"clusterDNS":               []string{network.DNS4},
		"clusterDomain":            "cluster.local",
		"resolvConf":               testbed.Run("resolv.conf"),
		"podLogsDir":               testbed.Data("pod-logs"),
		"maxPods":                  500,
		// No registry is reachable, so that an image removed for space would be missed for good.
		"imageGCHighThresholdPercent":   100,
		"evictionHard":                  object{"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
		"localStorageCapacityIsolation": false,
		"serializeImagePulls":           false,
	}
}

func kubeProxy(testbed state.Testbed) any {
	type object = map[string]any
	return object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clientConnection": object{"kubeconfig": testbed.Run("pki", "kube-proxy.kubeconfig")},
		"mode":             "iptables",
		"clusterCIDR":      network.Pods4 + "," + network.Pods6,
		"hostnameOverride": Name,
		// The table of connections is the machine's; its size is not the testbed's to set.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

// containerd is its configuration: everything at places of the testbed.
func containerd(testbed state.Testbed, programs Programs) string {
	quoted := strconv.Quote
	return strings.Join([]string{
		"version = 3",
		"root = " + quoted(testbed.Data("containerd")),
		"state = " + quoted(testbed.Run("containerd")),
		"[grpc]",
		"  address = " + quoted(testbed.Run("containerd.sock")),
		"[ttrpc]",
		"  address = " + quoted(testbed.Run("containerd.sock.ttrpc")),
		"[plugins.'io.containerd.cri.v1.runtime']",
		"  # Lower scores need CAP_SYS_RESOURCE, which not every machine gives.",
		"  restrict_oom_score_adj = true",
		"  [plugins.'io.containerd.cri.v1.runtime'.cni]",
		"    bin_dirs = [" + quoted(programs.CNI) + "]",
		"    conf_dir = " + quoted(testbed.Run("cni")),
		"  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]",
		"    runtime_type = 'io.containerd.runc.v2'",
		"    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]",
		"      SystemdCgroup = false",
		"[plugins.'io.containerd.cri.v1.images']",
		"  snapshotter = " + quoted(snapshotter(testbed.Data("overlay"))),
		"[plugins.'io.containerd.cri.v1.images'.pinned_images]",
		"  sandbox = " + quoted(PauseImage),
		"[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]",
		"  platform = 'linux'",
		"  snapshotter = " + quoted(snapshotter(testbed.Data("overlay"))),
		"",
	}, "\n")
}

// snapshotter is how images are unpacked: layered where the file system of the testbed's data can carry an overlay (one
// overlay cannot carry another), else copied.
func snapshotter(folder string) string {
	for _, part := range []string{"lower", "upper", "work", "merged"} {
		if err := os.MkdirAll(filepath.Join(folder, part), 0o755); err != nil {
			return "native"
		}
	}
	merged := filepath.Join(folder, "merged")
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", filepath.Join(folder, "lower"), filepath.Join(folder, "upper"), filepath.Join(folder, "work"))
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return "native"
	}
	if err := unix.Unmount(merged, 0); err != nil {
		return "native"
	}
	return "overlayfs"
}

// corefile serves the cluster's names only: no other resolver is reachable from a testbed.
func corefile(testbed state.Testbed) string {
	return strings.Join([]string{
		".:53 {",
		"    bind " + network.Node4 + " " + network.Node6,
		"    errors",
		"    kubernetes cluster.local in-addr.arpa ip6.arpa {",
		"        kubeconfig " + testbed.Run("pki", "coredns.kubeconfig"),
		"        pods insecure",
		"        ttl 1",
		"    }",
		"}",
		"",
	}, "\n")
}
