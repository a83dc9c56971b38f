package node

import (
	"encoding/json"
	"fmt"
	"os"

	"fairway/testbed/kubeapi"
	"fairway/testbed/network"
	"fairway/testbed/pki"
	"fairway/testbed/state"
)

// clients are the users of the API server and their groups, as in any cluster: the names are those that Kubernetes' own
// roles are bound to.
var clients = map[string]pki.Subject{
	"admin":                   {User: "testbed-admin", Groups: []string{"system:masters"}},
	"kube-controller-manager": {User: "system:kube-controller-manager"},
	"kube-scheduler":          {User: "system:kube-scheduler"},
	"kube-proxy":              {User: "system:kube-proxy"},
	"kubelet":                 {User: "system:node:" + Name, Groups: []string{"system:nodes"}},
	"coredns":                 {User: dnsUser},
}

// server is the address of the API server for everything on the node.
func server() string {
	return fmt.Sprintf("https://%s:%d", network.Node4, network.APIPort)
}

// issue makes the authority, every certificate and kubeconfig, and the administrator's client.
func issue(testbed state.Testbed) (*kubeapi.Client, error) {
	authority, err := pki.NewAuthority("testbed " + testbed.Name)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(testbed.Run("pki"), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of certificates: %w", err)
	}
	files := map[string][]byte{"ca.crt": authority.PEM}
	if files["tokens.key"], files["tokens.pub"], err = pki.SigningKey(); err != nil {
		return nil, err
	}
	for name, subject := range map[string]pki.Subject{
		"api-server": {
			User: "kube-apiserver",
			Names: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc.cluster.local", "localhost"},
			Addresses: []string{network.Kubernetes4, network.Kubernetes6, network.Node4, network.Node6, "127.0.0.1", "::1"},
		},
		"api-server-to-kubelet": {User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		"kubelet":               {User: "system:node:" + Name, Names: []string{Name}, Addresses: []string{network.Node4, network.Node6}},
	} {
		pair, err := authority.Issue(subject)
		if err != nil {
			return nil, err
		}
		files[name+".crt"], files[name+".key"] = pair.Certificate, pair.Key
	}
	for name, content := range files {
		if err := os.WriteFile(testbed.Run("pki", name), content, 0o600); err != nil {
			return nil, fmt.Errorf("write the testbed's certificates: %w", err)
		}
	}
	var admin pki.Pair
	for name, subject := range clients {
		pair, err := authority.Issue(subject)
		if err != nil {
			return nil, err
		}
		path := testbed.Run("pki", name+".kubeconfig")
		if name == "admin" {
			admin, path = pair, testbed.Kubeconfig()
		}
		if err := writeKubeconfig(path, testbed.Name, name, authority.PEM, pair); err != nil {
			return nil, err
		}
	}
	return kubeapi.New(server(), authority.PEM, admin.Certificate, admin.Key)
}

// writeKubeconfig writes it as JSON, which is YAML too.
func writeKubeconfig(path, cluster, user string, authority []byte, pair pki.Pair) error {
	return writeJSON(path, map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": cluster,
		"clusters": []any{map[string]any{"name": cluster, "cluster": map[string]any{
			"server": server(), "certificate-authority-data": authority}}},
		"users": []any{map[string]any{"name": user, "user": map[string]any{
			"client-certificate-data": pair.Certificate, "client-key-data": pair.Key}}},
		"contexts": []any{map[string]any{"name": cluster, "context": map[string]any{"cluster": cluster, "user": user}}},
	})
}

// writeJSON writes a configuration file; it may hold keys, so that only its owner reads it.
func writeJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("write a configuration: %w", err)
	}
	return nil
}
