package peer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// object is a Kubernetes object. JSON is YAML, so no manifest can be indented wrongly.
type object = map[string]any

const namespace = "http3"

// StartFairway starts Fairway with HTTP/3, and waits until it serves.
func StartFairway(binary string, plan Plan, workers int) (*Process, error) {
	served := filepath.Join(plan.Directory, "manifests")
	if err := os.MkdirAll(served, 0o755); err != nil {
		return nil, err
	}
	text, err := manifests(plan)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(served, "all.yaml"), text, 0o600); err != nil {
		return nil, err
	}
	local := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	https, admin := freePort(), local(freePort())
	process, err := start(plan, "fairway", "http://"+admin+"/readyz", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: https}, binary,
		"run", "--manifests", served, "--http", local(freePort()), "--https", local(https), "--admin", admin, "--configmap", namespace+"/settings",
		"--workers", fmt.Sprint(workers), "--access-log", "json", "--drain-delay", "0")
	if err != nil {
		return nil, err
	}
	version, err := exec.Command(binary, "version").Output()
	if err != nil {
		version = []byte("unknown")
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(version)), "\n")
	process.Version = strings.TrimPrefix(line, "fairway ")
	return process, nil
}

// manifests are all objects in one file.
func manifests(plan Plan) ([]byte, error) {
	var text bytes.Buffer
	for _, one := range objects(plan) {
		document, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "---\n%s\n", document)
	}
	return text.Bytes(), nil
}

func meta(name string) object { return object{"namespace": namespace, "name": name} }

func objects(plan Plan) []object {
	secret := func(name, kind string, data object) object {
		return object{"apiVersion": "v1", "kind": "Secret", "metadata": meta(name), "type": kind, "data": data}
	}
	pair := func(pair Pair) object {
		return object{"tls.crt": encode(pair.Certificate), "tls.key": encode(pair.Key)}
	}
	all := []object{
		{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": object{"name": "fairway"},
			"spec": object{"controller": "fairway.dev/ingress-controller"}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("settings"), "data": object{
			"use-http3": "true", "proxy-body-size": "0", "ssl-reject-handshake": "true",
			"ssl-early-data": fmt.Sprint(plan.EarlyData)}},
		secret("main", "kubernetes.io/tls", pair(plan.Certificates.Main)),
		secret("other", "kubernetes.io/tls", pair(plan.Certificates.Other)),
		secret("authority", "Opaque", object{"ca.crt": encode(plan.Certificates.Authority)}),
	}
	for _, one := range []struct {
		host, secret string
		port         int
		protocol     string
		annotations  object
	}{
		{PlainHost, "main", plan.Backend, "", nil},
		{H2CHost, "main", plan.Backend, "kubernetes.io/h2c", nil},
		{OtherHost, "other", plan.Backend, "", nil},
		{TrustedHost, "main", plan.Backend, "", object{"nginx.ingress.kubernetes.io/auth-tls-secret": namespace + "/authority"}},
		{RawHost, "main", plan.Recorder, "", nil},
		{RawH2CHost, "main", plan.RecorderH2C, "kubernetes.io/h2c", nil},
	} {
		name := strings.TrimSuffix(one.host, ".test")
		all = append(all, service(name, one.port, one.protocol)...)
		described := meta(name)
		if one.annotations != nil {
			described["annotations"] = one.annotations
		}
		all = append(all, object{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": described, "spec": object{
			"ingressClassName": "fairway", "tls": []object{{"hosts": []string{one.host}, "secretName": one.secret}},
			"rules": []object{{"host": one.host, "http": object{"paths": []object{{"path": "/", "pathType": "Prefix",
				"backend": object{"service": object{"name": name, "port": object{"number": 80}}}}}}}}}})
	}
	return all
}

func encode(bytes []byte) string { return base64.StdEncoding.EncodeToString(bytes) }

func service(name string, port int, protocol string) []object {
	servicePort := object{"name": "main", "port": 80}
	if protocol != "" {
		servicePort["appProtocol"] = protocol
	}
	slice := meta(name + "-1")
	slice["labels"] = object{"kubernetes.io/service-name": name}
	return []object{
		{"apiVersion": "v1", "kind": "Service", "metadata": meta(name), "spec": object{"ports": []object{servicePort}}},
		{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice, "addressType": "IPv4",
			"ports": []object{{"name": "main", "port": port}}, "endpoints": []object{{"addresses": []string{"127.0.0.1"}}}},
	}
}
