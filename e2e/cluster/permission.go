package cluster

import (
	"context"
	"fmt"

	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Grant lets a ServiceAccount of another namespace read the Secrets of this one, as the chart's Roles do.
func (c *Cluster) Grant(ctx context.Context, namespace, accountNamespace, account string) error {
	role := &rbac.Role{
		ObjectMeta: meta.ObjectMeta{Name: "secrets"},
		Rules:      []rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}},
	}
	if _, err := c.API.RbacV1().Roles(namespace).Create(ctx, role, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create a Role in namespace %s: %w", namespace, err)
	}
	binding := &rbac.RoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "secrets"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: "secrets"},
		Subjects:   []rbac.Subject{{Kind: rbac.ServiceAccountKind, Namespace: accountNamespace, Name: account}},
	}
	if _, err := c.API.RbacV1().RoleBindings(namespace).Create(ctx, binding, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("bind a Role in namespace %s: %w", namespace, err)
	}
	return nil
}
