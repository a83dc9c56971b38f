package node

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"fairway/testbed/kubeapi"
	"fairway/testbed/loadbalancer"
	"fairway/testbed/network"
	"fairway/testbed/state"
	"golang.org/x/sys/unix"
)

// Phase is how far a testbed is.
type Phase string

// A testbed starts, is ready for pods, or failed to become so.
const (
	Starting Phase = "starting"
	Ready    Phase = "ready"
	Failed   Phase = "failed"
)

// Report is the state of a testbed.
type Report struct {
	Phase Phase `json:"phase"`
	// Steps are the completed steps, in order.
	Steps []string `json:"steps"`
	// Failure is why it is not ready.
	Failure    string   `json:"failure,omitempty"`
	Components []Status `json:"components"`
	// Faults are the packet filters in force.
	Faults []string `json:"faults"`
}

// Node is a testbed from inside.
type Node struct {
	testbed    state.Testbed
	programs   Programs
	supervisor *supervisor
	api        *kubeapi.Client

	mutex   sync.Mutex
	phase   Phase
	steps   []string
	failure string
	faults  []network.Fault
}

// Serve sets the node up, supervises it, and serves the `testbed` command until the testbed ends.
func Serve(testbed state.Testbed, programs Programs) error {
	n := &Node{
		testbed: testbed, programs: programs, phase: Starting,
		supervisor: &supervisor{
			commands: commands(testbed, programs), environment: environment(programs), logs: testbed.Data("logs"),
			components: map[string]*component{},
		},
	}
	// The command can follow from here on.
	failed := make(chan error, 1)
	listener, err := n.listen()
	if err != nil {
		return err
	}
	go func() { failed <- n.answer(listener) }()
	if err := n.prepare(); err != nil {
		n.finish(err)
		return <-failed
	}
	balancer, err := loadbalancer.New(n.api, network.LoadBalancers4, network.LoadBalancers6)
	if err != nil {
		n.finish(err)
		return <-failed
	}
	n.finish(n.bringUp(context.Background()))
	go balancer.Run(context.Background())
	return <-failed
}

func (n *Node) prepare() error {
	if err := raiseFileLimit(); err != nil {
		return err
	}
	if err := network.SetUp(); err != nil {
		return err
	}
	if err := network.PrepareFaults(); err != nil {
		return err
	}
	var err error
	if n.api, err = issue(n.testbed); err != nil {
		return err
	}
	if err := configure(n.testbed, n.programs); err != nil {
		return err
	}
	n.recordStep("network, certificates and configuration are made")
	return nil
}

// raiseFileLimit raises it as far as this machine lets; containers inherit it.
func raiseFileLimit() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	return nil
}

func (n *Node) recordStep(step string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.steps = append(n.steps, step)
	log.Print(step)
}

func (n *Node) finish(err error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.phase, n.failure = Ready, ""
	if err != nil {
		n.phase, n.failure = Failed, err.Error()
		log.Printf("failed: %v", err)
	}
}

// restartEnded starts components that have ended; only one start runs at a time.
func (n *Node) restartEnded() {
	n.mutex.Lock()
	if n.phase == Starting || n.api == nil {
		n.mutex.Unlock()
		return
	}
	n.phase, n.steps = Starting, nil
	n.mutex.Unlock()
	go func() { n.finish(n.bringUp(context.Background())) }()
}

func (n *Node) report() Report {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	report := Report{Phase: n.phase, Steps: n.steps, Failure: n.failure, Components: n.supervisor.statuses(), Faults: []string{}}
	for _, fault := range n.faults {
		report.Faults = append(report.Faults, fault.Name)
	}
	return report
}

// Logs are the components that have written something.
func Logs(testbed state.Testbed) []string {
	var found []string
	for _, name := range append([]string{"testbed"}, Components...) {
		if _, err := os.Stat(testbed.Log(name)); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// since is how long ago, in words short enough for a table.
func (s Status) Age() string {
	return time.Since(s.Since).Round(time.Second).String()
}
