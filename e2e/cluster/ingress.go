package cluster

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Class is the IngressClass that the chart makes.
const Class = "fairway"

// Route is an Ingress of one host and one path.
type Route struct {
	Namespace string
	Name      string
	Host      string
	// Path is a prefix; the default is "/".
	Path    string
	Service string
	// Secret with the host's certificate; "" for none.
	Secret      string
	Annotations map[string]string
}

// Ingress is the route as an object.
func (r Route) Ingress() *networking.Ingress {
	class, prefix, path := Class, networking.PathTypePrefix, r.Path
	if path == "" {
		path = "/"
	}
	backend := networking.IngressBackend{Service: &networking.IngressServiceBackend{
		Name: r.Service, Port: networking.ServiceBackendPort{Number: 80},
	}}
	rule := networking.IngressRule{Host: r.Host}
	rule.HTTP = &networking.HTTPIngressRuleValue{Paths: []networking.HTTPIngressPath{{Path: path, PathType: &prefix, Backend: backend}}}
	spec := networking.IngressSpec{IngressClassName: &class, Rules: []networking.IngressRule{rule}}
	if r.Secret != "" {
		spec.TLS = []networking.IngressTLS{{Hosts: []string{r.Host}, SecretName: r.Secret}}
	}
	return &networking.Ingress{ObjectMeta: meta.ObjectMeta{Namespace: r.Namespace, Name: r.Name, Annotations: r.Annotations}, Spec: spec}
}

// Route makes an Ingress.
func (c *Cluster) Route(ctx context.Context, r Route) error {
	if _, err := c.API.NetworkingV1().Ingresses(r.Namespace).Create(ctx, r.Ingress(), meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create Ingress %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}

// Secret makes or replaces a TLS Secret.
func (c *Cluster) Secret(ctx context.Context, namespace, name string, certificate, key []byte) error {
	secret := &core.Secret{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Type:       core.SecretTypeTLS,
		Data:       map[string][]byte{core.TLSCertKey: certificate, core.TLSPrivateKeyKey: key},
	}
	secrets := c.API.CoreV1().Secrets(namespace)
	_, err := secrets.Create(ctx, secret, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, meta.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", namespace, name, err)
	}
	return nil
}

// PublishedAddresses are those in an Ingress's status.
func (c *Cluster) PublishedAddresses(ctx context.Context, namespace, name string) ([]string, error) {
	ingress, err := c.API.NetworkingV1().Ingresses(namespace).Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Ingress %s/%s: %w", namespace, name, err)
	}
	var addresses []string
	for _, published := range ingress.Status.LoadBalancer.Ingress {
		addresses = append(addresses, published.IP+published.Hostname)
	}
	return addresses, nil
}

// EventNotes are the notes of Events about an object.
func (c *Cluster) EventNotes(ctx context.Context, namespace, kind, name string) ([]string, error) {
	events, err := c.API.EventsV1().Events(namespace).List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Events of namespace %s: %w", namespace, err)
	}
	var notes []string
	for _, event := range events.Items {
		if event.Regarding.Kind == kind && event.Regarding.Name == name {
			notes = append(notes, event.Note)
		}
	}
	return notes, nil
}
