package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Program is a Deployment of somebody else's server with a Service of the same name.
type Program struct {
	Namespace string
	Name      string
	Image     string
	Arguments []string
	// Environment of its containers.
	Environment map[string]string
	Replicas    int32
	// Ports of the Service; each leads to the same target.
	Ports []core.ServicePort
	// Ready says when a pod may get traffic.
	Ready core.ProbeHandler
	// Files are in /etc/program.
	Files map[string]string
	// ClusterRole of its pods; "" for none.
	ClusterRole string
}

// DeployProgram makes all its objects and waits until all pods are ready.
func (c *Cluster) DeployProgram(ctx context.Context, p Program) error {
	if err := c.permit(ctx, p); err != nil {
		return err
	}
	objects := meta.ObjectMeta{Name: p.Name}
	if len(p.Files) > 0 {
		files := &core.ConfigMap{ObjectMeta: objects, Data: p.Files}
		if _, err := c.API.CoreV1().ConfigMaps(p.Namespace).Create(ctx, files, meta.CreateOptions{}); err != nil {
			return fmt.Errorf("create ConfigMap %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	service := &core.Service{ObjectMeta: objects, Spec: core.ServiceSpec{Selector: labels(p.Name), Ports: p.Ports}}
	if _, err := c.API.CoreV1().Services(p.Namespace).Create(ctx, service, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create Service %s/%s: %w", p.Namespace, p.Name, err)
	}
	if _, err := c.API.AppsV1().Deployments(p.Namespace).Create(ctx, p.deployment(), meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create Deployment %s/%s: %w", p.Namespace, p.Name, err)
	}
	return c.AwaitSettled(ctx, p.Namespace, p.Name)
}

// permit gives the pods an account of their own with the role.
func (c *Cluster) permit(ctx context.Context, p Program) error {
	account := &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: p.Name}}
	if _, err := c.API.CoreV1().ServiceAccounts(p.Namespace).Create(ctx, account, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create ServiceAccount %s/%s: %w", p.Namespace, p.Name, err)
	}
	if p.ClusterRole == "" {
		return nil
	}
	binding := &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: p.Namespace + "-" + p.Name},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: p.ClusterRole},
		Subjects:   []rbac.Subject{{Kind: rbac.ServiceAccountKind, Namespace: p.Namespace, Name: p.Name}},
	}
	if _, err := c.API.RbacV1().ClusterRoleBindings().Create(ctx, binding, meta.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
		return fmt.Errorf("create ClusterRoleBinding %s: %w", binding.Name, err)
	}
	return nil
}

func (p Program) deployment() *apps.Deployment {
	mounted := len(p.Files) > 0
	container := core.Container{
		Name: "program", Image: p.Image, Args: p.Arguments, ImagePullPolicy: core.PullIfNotPresent,
		ReadinessProbe: &core.Probe{ProbeHandler: p.Ready, PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 3},
	}
	for _, name := range slices.Sorted(maps.Keys(p.Environment)) {
		container.Env = append(container.Env, core.EnvVar{Name: name, Value: p.Environment[name]})
	}
	needs := p.ClusterRole != ""
	spec := core.PodSpec{ServiceAccountName: p.Name, AutomountServiceAccountToken: &needs}
	if mounted {
		container.VolumeMounts = []core.VolumeMount{{Name: "files", MountPath: "/etc/program"}}
		source := &core.ConfigMapVolumeSource{LocalObjectReference: core.LocalObjectReference{Name: p.Name}}
		spec.Volumes = []core.Volume{{Name: "files", VolumeSource: core.VolumeSource{ConfigMap: source}}}
	}
	spec.Containers = []core.Container{container}
	return &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: p.Name},
		Spec: apps.DeploymentSpec{
			Replicas: &p.Replicas,
			Selector: &meta.LabelSelector{MatchLabels: labels(p.Name)},
			Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels(p.Name)}, Spec: spec},
		},
	}
}
