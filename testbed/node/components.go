package node

import (
	"path/filepath"
	"strings"

	"fairway/testbed/network"
	"fairway/testbed/state"
)

// Components are the programs of a testbed, in the order they are shown.
var Components = []string{
	"etcd", "containerd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns",
}

// commands are how each component is started.
func commands(testbed state.Testbed, programs Programs) map[string][]string {
	pki := func(name string) string { return testbed.Run("pki", name) }
	return map[string][]string{
		"etcd": {"etcd", "--data-dir=" + testbed.Data("etcd"), "--name=" + Name,
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=" + Name + "=http://127.0.0.1:2380",
			// Nothing of a testbed outlives the machine.
			"--unsafe-no-fsync"},
		"containerd": {filepath.Join(programs.Containerd, "containerd"), "--config=" + testbed.Run("containerd.toml")},
		"kube-apiserver": {programs.Kubernetes, "kube-apiserver",
			"--etcd-servers=http://127.0.0.1:2379",
			"--bind-address=::", "--advertise-address=" + network.Node4, "--secure-port=6443",
			"--service-cluster-ip-range=" + network.Services4 + "," + network.Services6,
			"--client-ca-file=" + pki("ca.crt"),
			"--tls-cert-file=" + pki("api-server.crt"), "--tls-private-key-file=" + pki("api-server.key"),
			"--kubelet-certificate-authority=" + pki("ca.crt"),
			"--kubelet-client-certificate=" + pki("api-server-to-kubelet.crt"),
			"--kubelet-client-key=" + pki("api-server-to-kubelet.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + pki("tokens.pub"), "--service-account-signing-key-file=" + pki("tokens.key"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"},
		"kube-controller-manager": {programs.Kubernetes, "kube-controller-manager",
			"--kubeconfig=" + pki("kube-controller-manager.kubeconfig"),
			"--authentication-kubeconfig=" + pki("kube-controller-manager.kubeconfig"),
			"--authorization-kubeconfig=" + pki("kube-controller-manager.kubeconfig"),
			"--root-ca-file=" + pki("ca.crt"), "--service-account-private-key-file=" + pki("tokens.key"),
			"--use-service-account-credentials=true", "--leader-elect=false",
			"--service-cluster-ip-range=" + network.Services4 + "," + network.Services6,
			// After the API server was away, kubelet must not be taken for dead before it has said a word: with one node that
			// would take the endpoints of every Service away.
			"--node-monitor-grace-period=1h",
			"--kube-api-qps=100", "--kube-api-burst=200"},
		"kube-scheduler": {programs.Kubernetes, "kube-scheduler",
			"--kubeconfig=" + pki("kube-scheduler.kubeconfig"),
			"--authentication-kubeconfig=" + pki("kube-scheduler.kubeconfig"),
			"--authorization-kubeconfig=" + pki("kube-scheduler.kubeconfig"), "--leader-elect=false"},
		"kubelet": {programs.Kubernetes, "kubelet",
			"--kubeconfig=" + pki("kubelet.kubeconfig"), "--config=" + testbed.Run("kubelet.yaml"),
			"--hostname-override=" + Name, "--node-ip=" + network.Node4 + "," + network.Node6,
			"--root-dir=" + testbed.Data("kubelet")},
		"kube-proxy": {programs.Kubernetes, "kube-proxy", "--config=" + testbed.Run("kube-proxy.yaml")},
		"coredns":    {programs.CoreDNS, "-conf=" + testbed.Run("Corefile")},
	}
}

// environment is that of every component: containerd looks for its shim in PATH.
func environment(programs Programs) []string {
	return []string{
		"PATH=" + strings.Join([]string{programs.Containerd, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}, ":"),
		"HOME=/root", "LANG=C.UTF-8",
	}
}
