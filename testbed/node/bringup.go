package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"fairway/testbed/network"
)

// patience bounds one step of the start: far longer than it takes, on a busy machine.
const patience = 90 * time.Second

// bringUp starts missing components and returns when the cluster accepts pods; it reports each step.
func (n *Node) bringUp(ctx context.Context) error {
	for _, name := range []string{"etcd", "containerd", "kube-apiserver"} {
		if err := n.supervisor.start(name); err != nil {
			return err
		}
	}
	pause := make(chan error, 1)
	go func() { pause <- n.loadPause(ctx) }()
	if err := n.until(ctx, "the API server to be ready", []string{"etcd", "kube-apiserver"}, func(ctx context.Context) error {
		return n.api.Read(ctx, "/readyz", nil)
	}); err != nil {
		return err
	}
	n.recordStep("API server is ready")
	if err := <-pause; err != nil {
		return err
	}
	for _, name := range []string{"kube-controller-manager", "kubelet", "kube-proxy", "kube-scheduler", "coredns"} {
		if err := n.supervisor.start(name); err != nil {
			return err
		}
	}
	if err := n.until(ctx, "the DNS objects", []string{"kube-apiserver"}, func(ctx context.Context) error {
		return applyDNS(ctx, n.api)
	}); err != nil {
		return err
	}
	return n.awaitNode(ctx)
}

func (n *Node) awaitNode(ctx context.Context) error {
	if err := n.until(ctx, "the node to be ready", []string{"kubelet", "containerd"}, n.nodeReady); err != nil {
		return err
	}
	n.recordStep("node is ready")
	// Pods are refused until their namespace's ServiceAccount and certificate authority are there.
	if err := n.until(ctx, "the default ServiceAccount", []string{"kube-controller-manager"}, func(ctx context.Context) error {
		if err := n.api.Read(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil); err != nil {
			return err
		}
		return n.api.Read(ctx, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", nil)
	}); err != nil {
		return err
	}
	for _, address := range []string{network.DNS4, network.DNS6} {
		if err := n.until(ctx, "DNS through its Service", []string{"coredns", "kube-proxy"}, func(ctx context.Context) error {
			return resolves(ctx, address)
		}); err != nil {
			return err
		}
	}
	n.recordStep("DNS and Services are ready")
	return n.until(ctx, "the scheduler", []string{"kube-scheduler"}, func(ctx context.Context) error {
		return checkURL(ctx, "https://127.0.0.1:10259/readyz")
	})
}

// loadPause loads the pods' first image as soon as containerd takes it.
func (n *Node) loadPause(ctx context.Context) error {
	return n.until(ctx, "containerd to take the pause image", []string{"containerd"}, func(ctx context.Context) error {
		connection, err := net.Dial("unix", n.testbed.Run("containerd.sock"))
		if err != nil {
			return err
		}
		connection.Close()
		return n.ctr(ctx, "images", "import", n.programs.Pause)
	})
}

func (n *Node) ctr(ctx context.Context, arguments ...string) error {
	all := append([]string{"--address", n.testbed.Run("containerd.sock"), "--namespace", "k8s.io"}, arguments...)
	output, err := exec.CommandContext(ctx, filepath.Join(n.programs.Containerd, "ctr"), all...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

func (n *Node) nodeReady(ctx context.Context) error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := n.api.Read(ctx, "/api/v1/nodes/"+Name, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" {
			if condition.Status == "True" {
				return nil
			}
			return errors.New(condition.Message)
		}
	}
	return errors.New("kubelet has not said whether it is ready")
}

func checkURL(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := unverified.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, answer.Status)
	}
	return nil
}

// until asks again and again until `check` holds, and gives up early when a component that it needs has ended.
func (n *Node) until(ctx context.Context, what string, needs []string, check func(context.Context) error) error {
	for end := time.Now().Add(patience); ; {
		err := check(ctx)
		if err == nil {
			return nil
		}
		for _, name := range needs {
			if !n.supervisor.running(name) {
				return fmt.Errorf("waiting for %s: %s has ended; see `testbed --name %s logs %s`", what, name, n.testbed.Name, name)
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("waited %s for %s: %w", patience, what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
