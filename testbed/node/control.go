package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"fairway/testbed/network"
	"fairway/testbed/state"
)

// unverified asks the scheduler on loopback, which signs its certificate itself.
var unverified = &http.Client{
	Timeout:   time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// Order is a request of the command to a running testbed.
type Order struct {
	// Do is up, start, stop, kill, restart, partition, heal, drop-address, restore-address or kill-container.
	Do string `json:"do"`
	// On is the component, the address, or the pod as NAMESPACE/NAME.
	On        string `json:"on,omitempty"`
	Container string `json:"container,omitempty"`
	// Wide makes a partition one for everyone, and leaves the node out of a dropped address.
	Wide       bool `json:"wide,omitempty"`
	ExceptNode bool `json:"exceptNode,omitempty"`
}

func (n *Node) listen() (net.Listener, error) {
	if err := os.RemoveAll(n.testbed.Control()); err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	listener, err := net.Listen("unix", n.testbed.Control())
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	if err := os.Chmod(n.testbed.Control(), 0o600); err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	return listener, nil
}

func (n *Node) answer(listener net.Listener) error {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /report", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		// The requesting command may have ended.
		_ = json.NewEncoder(answer).Encode(n.report())
	})
	routes.HandleFunc("POST /order", func(answer http.ResponseWriter, request *http.Request) {
		var order Order
		err := json.NewDecoder(request.Body).Decode(&order)
		if err == nil {
			err = n.obey(request.Context(), order)
		}
		if err != nil {
			http.Error(answer, err.Error(), http.StatusUnprocessableEntity)
		}
	})
	return fmt.Errorf("serve the control socket: %w", http.Serve(listener, routes))
}

func (n *Node) obey(ctx context.Context, order Order) error {
	switch order.Do {
	case "up":
		if err := n.heal(""); err != nil {
			return err
		}
		n.restartEnded()
		return nil
	case "start":
		return n.startAndWait(ctx, order.On)
	case "stop":
		return n.supervisor.stop(order.On, syscall.SIGTERM)
	case "kill":
		return n.supervisor.stop(order.On, syscall.SIGKILL)
	case "restart":
		if err := n.supervisor.stop(order.On, syscall.SIGTERM); err != nil {
			return err
		}
		return n.startAndWait(ctx, order.On)
	case "partition":
		return n.begin(network.Partition(order.Wide))
	case "heal":
		return n.heal("api-server ")
	case "drop-address":
		fault, err := network.BlackHole(order.On, order.ExceptNode)
		if err != nil {
			return err
		}
		return n.begin(fault)
	case "restore-address":
		address, err := netip.ParseAddr(order.On)
		if err != nil {
			return fmt.Errorf("restore-address: %q is no address: %w", order.On, err)
		}
		return n.heal("drop-address " + address.String() + " ")
	case "kill-container":
		return n.killContainer(ctx, order.On, order.Container)
	}
	return fmt.Errorf("there is no order %q", order.Do)
}

func (n *Node) startAndWait(ctx context.Context, name string) error {
	if err := n.supervisor.start(name); err != nil {
		return err
	}
	if name != "kube-apiserver" {
		return nil
	}
	return n.until(ctx, "the API server to be ready", []string{name}, func(ctx context.Context) error {
		return n.api.Read(ctx, "/readyz", nil)
	})
}

// begin begins a fault; the same one twice is one.
func (n *Node) begin(fault network.Fault) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, present := range n.faults {
		if present.Name == fault.Name {
			return nil
		}
	}
	if err := fault.Begin(); err != nil {
		return errors.Join(err, fault.End())
	}
	n.faults = append(n.faults, fault)
	return nil
}

// heal ends the faults whose names begin so, with a space after it.
func (n *Node) heal(prefix string) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var kept []network.Fault
	var failures []error
	for _, fault := range n.faults {
		if !strings.HasPrefix(fault.Name+" ", prefix) {
			kept = append(kept, fault)
		} else if err := fault.End(); err != nil {
			failures = append(failures, err)
		}
	}
	n.faults = kept
	return errors.Join(failures...)
}

// killContainer sends SIGKILL to the first process of a container, past kubelet and its grace period.
func (n *Node) killContainer(ctx context.Context, podName, container string) error {
	namespace, name, found := strings.Cut(podName, "/")
	if !found {
		return fmt.Errorf("kill-container: name the pod as NAMESPACE/POD, not %q", podName)
	}
	var pod struct {
		Status struct {
			ContainerStatuses []struct {
				Name, ContainerID string
				State             struct{ Running *struct{} }
			}
		}
	}
	if err := n.api.Read(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+name, &pod); err != nil {
		return err
	}
	var known []string
	for _, each := range pod.Status.ContainerStatuses {
		known = append(known, each.Name)
		if container != "" && each.Name != container {
			continue
		}
		if each.State.Running == nil {
			return fmt.Errorf("container %s of pod %s does not run", each.Name, podName)
		}
		return n.ctr(ctx, "tasks", "kill", "--signal", "SIGKILL", strings.TrimPrefix(each.ContainerID, "containerd://"))
	}
	return fmt.Errorf("pod %s has no container %q; it has %v", podName, container, known)
}

// Control is the way to a running testbed from outside.
type Control struct {
	testbed state.Testbed
	http    *http.Client
}

// NewControl speaks to the testbed over its socket.
func NewControl(testbed state.Testbed) Control {
	return Control{testbed: testbed, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", testbed.Control())
		},
		DisableKeepAlives: true,
	}}}
}

// Report asks how the testbed is.
func (c Control) Report() (Report, error) {
	answer, err := c.http.Get("http://testbed/report")
	if err != nil {
		return Report{}, fmt.Errorf("ask testbed %s: %w", c.testbed.Name, err)
	}
	defer answer.Body.Close()
	var report Report
	if err := json.NewDecoder(answer.Body).Decode(&report); err != nil {
		return Report{}, fmt.Errorf("ask testbed %s: %w", c.testbed.Name, err)
	}
	return report, nil
}

// Order has the testbed do something and waits until it has.
func (c Control) Order(order Order) error {
	body, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("write an order: %w", err)
	}
	answer, err := c.http.Post("http://testbed/order", "application/json", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask testbed %s: %w", c.testbed.Name, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("ask testbed %s: %w", c.testbed.Name, err)
	}
	return errors.New(strings.TrimSpace(string(text)))
}
