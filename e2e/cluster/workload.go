package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Port is where backends listen for requests, and LinesPort where they listen for TCP lines. LinesPort is also the port of the
// Service.
const (
	Port      = 8080
	LinesPort = 7000
)

// Workload is a Deployment of backends with a Service of the same name.
type Workload struct {
	Namespace string
	Name      string
	Image     string
	Replicas  int32
	// Ledger is where POSTs are noted.
	Ledger string
	// Families of the Service; none for the cluster's default.
	Families []core.IPFamily
	// Lines is set if pods also serve TCP lines.
	Lines bool
}

// settling bounds how long pods may take to start or end: far beyond what they need.
const settling = 3 * time.Minute

func labels(name string) map[string]string { return map[string]string{"app": name} }

// Deploy makes Deployment and Service and waits until all pods are ready.
func (c *Cluster) Deploy(ctx context.Context, w Workload) error {
	if _, err := c.API.CoreV1().Services(w.Namespace).Create(ctx, w.service(), meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create Service %s/%s: %w", w.Namespace, w.Name, err)
	}
	if _, err := c.API.AppsV1().Deployments(w.Namespace).Create(ctx, w.deployment(), meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create Deployment %s/%s: %w", w.Namespace, w.Name, err)
	}
	return c.AwaitSettled(ctx, w.Namespace, w.Name)
}

func (w Workload) service() *core.Service {
	spec := core.ServiceSpec{
		Selector: labels(w.Name),
		Ports:    []core.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(Port)}},
	}
	if w.Lines {
		spec.Ports = append(spec.Ports, core.ServicePort{Name: "lines", Port: LinesPort, TargetPort: intstr.FromInt32(LinesPort)})
	}
	if len(w.Families) > 0 {
		policy := core.IPFamilyPolicySingleStack
		if len(w.Families) > 1 {
			policy = core.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilies, spec.IPFamilyPolicy = w.Families, &policy
	}
	return &core.Service{ObjectMeta: meta.ObjectMeta{Name: w.Name}, Spec: spec}
}

// deployment has no preStop hook and no graceful shutdown.
func (w Workload) deployment() *apps.Deployment {
	container := core.Container{
		Name:  "backend",
		Image: w.Image,
		Env:   []core.EnvVar{{Name: "LEDGER", Value: w.Ledger}, {Name: "LISTEN", Value: fmt.Sprintf(":%d", Port)}},
		Ports: []core.ContainerPort{{Name: "http", ContainerPort: Port}},
		ReadinessProbe: &core.Probe{
			ProbeHandler:  core.ProbeHandler{HTTPGet: &core.HTTPGetAction{Path: "/", Port: intstr.FromInt32(Port)}},
			PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 3,
		},
		ImagePullPolicy: core.PullIfNotPresent,
	}
	if w.Lines {
		container.Env = append(container.Env, core.EnvVar{Name: "LINES", Value: fmt.Sprintf(":%d", LinesPort)})
		container.Ports = append(container.Ports, core.ContainerPort{Name: "lines", ContainerPort: LinesPort})
	}
	template := core.PodTemplateSpec{
		ObjectMeta: meta.ObjectMeta{Labels: labels(w.Name)},
		Spec:       core.PodSpec{Containers: []core.Container{container}, AutomountServiceAccountToken: new(bool)},
	}
	return &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: w.Name},
		Spec: apps.DeploymentSpec{
			Replicas: &w.Replicas,
			Selector: &meta.LabelSelector{MatchLabels: labels(w.Name)},
			Template: template,
		},
	}
}

// Scale asks for as many replicas and does not wait.
func (c *Cluster) Scale(ctx context.Context, namespace, name string, replicas int32) error {
	return c.patch(ctx, namespace, name, map[string]any{"spec": map[string]any{"replicas": replicas}})
}

// Restart does what `kubectl rollout restart` does, and does not wait.
func (c *Cluster) Restart(ctx context.Context, namespace, name string) error {
	annotations := map[string]any{"kubectl.kubernetes.io/restartedAt": time.Now().Format(time.RFC3339Nano)}
	template := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	return c.patch(ctx, namespace, name, map[string]any{"spec": map[string]any{"template": template}})
}

func (c *Cluster) patch(ctx context.Context, namespace, name string, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("write the change of Deployment %s/%s: %w", namespace, name, err)
	}
	_, err = c.API.AppsV1().Deployments(namespace).Patch(ctx, name, types.StrategicMergePatchType, body, meta.PatchOptions{})
	if err != nil {
		return fmt.Errorf("change Deployment %s/%s: %w", namespace, name, err)
	}
	return nil
}

// AwaitSettled waits until a Deployment has exactly its replicas, all current and ready, and no pod is on its way out.
func (c *Cluster) AwaitSettled(ctx context.Context, namespace, name string) error {
	what := fmt.Sprintf("Deployment %s/%s has its pods, and no others", namespace, name)
	return Eventually(ctx, settling, what, func(ctx context.Context) (bool, string, error) {
		return c.settled(ctx, namespace, name)
	})
}

// AwaitReady waits until a Deployment has its replicas, all current and ready; pods may still be on their way out.
func (c *Cluster) AwaitReady(ctx context.Context, namespace, name string) error {
	what := fmt.Sprintf("all pods of Deployment %s/%s are ready", namespace, name)
	return Eventually(ctx, settling, what, func(ctx context.Context) (bool, string, error) {
		_, ready, saw, err := c.ready(ctx, namespace, name)
		return ready, saw, err
	})
}

func (c *Cluster) ready(ctx context.Context, namespace, name string) (*apps.Deployment, bool, string, error) {
	deployment, err := c.API.AppsV1().Deployments(namespace).Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return nil, false, "", err
	}
	wanted, status := *deployment.Spec.Replicas, deployment.Status
	saw := fmt.Sprintf("%d wanted, %d there, %d current, %d ready", wanted, status.Replicas, status.UpdatedReplicas, status.ReadyReplicas)
	current := status.ObservedGeneration >= deployment.Generation && status.Replicas == wanted && status.UpdatedReplicas == wanted
	return deployment, current && status.ReadyReplicas == wanted, saw, nil
}

func (c *Cluster) settled(ctx context.Context, namespace, name string) (bool, string, error) {
	deployment, ready, saw, err := c.ready(ctx, namespace, name)
	if err != nil || !ready {
		return false, saw, err
	}
	pods, err := c.podsOf(ctx, deployment)
	if err != nil {
		return false, "", err
	}
	return len(pods) == int(*deployment.Spec.Replicas), fmt.Sprintf("%s, %d pods", saw, len(pods)), nil
}

// Pods of a Deployment, those on their way out included.
func (c *Cluster) Pods(ctx context.Context, namespace, name string) ([]core.Pod, error) {
	deployment, err := c.API.AppsV1().Deployments(namespace).Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Deployment %s/%s: %w", namespace, name, err)
	}
	return c.podsOf(ctx, deployment)
}

func (c *Cluster) podsOf(ctx context.Context, deployment *apps.Deployment) ([]core.Pod, error) {
	selector := meta.FormatLabelSelector(deployment.Spec.Selector)
	pods, err := c.API.CoreV1().Pods(deployment.Namespace).List(ctx, meta.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods of Deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
	}
	return pods.Items, nil
}

// AwaitRestarted waits until a pod's container runs again after it was killed, and is ready.
func (c *Cluster) AwaitRestarted(ctx context.Context, before core.Pod) error {
	what := fmt.Sprintf("pod %s/%s has restarted its container", before.Namespace, before.Name)
	return Eventually(ctx, settling, what, func(ctx context.Context) (bool, string, error) {
		pod, err := c.API.CoreV1().Pods(before.Namespace).Get(ctx, before.Name, meta.GetOptions{})
		if err != nil {
			return false, "", err
		}
		restarts := Restarts(*pod)
		return restarts > Restarts(before) && IsReady(*pod), fmt.Sprintf("%d restarts, ready: %t", restarts, IsReady(*pod)), nil
	})
}

// AwaitDead waits until the node has seen that a pod's container was killed: then nothing of it is left. A pod that is gone has
// no container either.
func (c *Cluster) AwaitDead(ctx context.Context, before core.Pod) error {
	what := fmt.Sprintf("the node has seen that the container of pod %s/%s is dead", before.Namespace, before.Name)
	return Eventually(ctx, settling, what, func(ctx context.Context) (bool, string, error) {
		pod, err := c.Pod(ctx, before.Namespace, before.Name)
		if errors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		running := len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil
		return !running || Restarts(*pod) > Restarts(before), fmt.Sprintf("running: %t", running), nil
	})
}

// Restarts of a pod's containers.
func Restarts(pod core.Pod) int32 {
	var restarts int32
	for _, status := range pod.Status.ContainerStatuses {
		restarts += status.RestartCount
	}
	return restarts
}

// IsReady says whether a pod is ready and not on its way out.
func IsReady(pod core.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == core.PodReady {
			return condition.Status == core.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// Pod reads one pod.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (*core.Pod, error) {
	pod, err := c.API.CoreV1().Pods(namespace).Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read pod %s/%s: %w", namespace, name, err)
	}
	return pod, nil
}
