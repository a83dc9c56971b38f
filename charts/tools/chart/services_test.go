package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

func TestTCPAndUDPServicesAreReachedThroughThePortsOfPodsAndServices(t *testing.T) {
	objects := render(t, variants["TCP and UDP services"]...)
	maps := map[string]map[string]string{}
	var service *corev1.Service
	for _, object := range objects {
		switch typed := object.Typed.(type) {
		case *corev1.ConfigMap:
			maps[typed.Name] = typed.Data
		case *corev1.Service:
			if typed.Name == "fairway" {
				service = typed
			}
		}
	}
	if got := maps["fairway-tcp"]["5432"]; got != "db/pg:postgres:PROXY:PROXY" {
		t.Errorf("%q of %v", got, maps)
	}
	if got := maps["fairway-udp"]; len(got) != 1 || got["53"] != "kube-system/kube-dns:53" {
		t.Errorf("%v", got)
	}
	pod := one[appsv1.Deployment](t, objects).Spec.Template.Spec
	container := pod.Containers[0]
	for _, flag := range []string{
		"--tcp-services-configmap=edge/fairway-tcp", "--udp-services-configmap=edge/fairway-udp",
		"--proxy-protocol-trusted=10.0.0.0/8",
	} {
		if !slices.Contains(container.Args, flag) {
			t.Errorf("no %s in %v", flag, container.Args)
		}
	}
	inPod := map[string]corev1.ContainerPort{}
	for _, port := range container.Ports {
		inPod[port.Name] = port
	}
	type end struct {
		port     int32
		protocol corev1.Protocol
		node     int32
	}
	got := map[end]bool{}
	for _, port := range service.Spec.Ports {
		target, found := inPod[port.TargetPort.StrVal]
		if !found || target.Protocol != port.Protocol && target.Protocol != "" {
			t.Errorf("%v leads nowhere", port)
		}
		if target.HostPort != 0 && target.HostPort != target.ContainerPort {
			t.Errorf("%v", target)
		}
		got[end{target.ContainerPort, port.Protocol, port.NodePort}] = true
	}
	for _, want := range []end{
		{53, corev1.ProtocolTCP, 0}, {53, corev1.ProtocolUDP, 30053}, {5432, corev1.ProtocolTCP, 30432},
	} {
		if !got[want] {
			t.Errorf("no %v in %v", want, got)
		}
	}
	if sysctls := pod.SecurityContext.Sysctls; len(sysctls) != 1 || sysctls[0].Value != "53" {
		t.Errorf("a user without capabilities cannot bind port 53: %v", sysctls)
	}
	if sysctls := one[appsv1.Deployment](t, render(t)).Spec.Template.Spec.SecurityContext.Sysctls; len(sysctls) != 0 {
		t.Errorf("nothing needs %v", sysctls)
	}
}

func TestHTTP3TakesTheUDPPortOfHTTPS(t *testing.T) {
	objects := render(t, variants["HTTP/3"]...)
	container := one[appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0]
	if !slices.Contains(container.Args, "--http3") || !slices.Contains(container.Args, "--public-https-port=8443") {
		t.Errorf("%v", container.Args)
	}
	of := func(ports []corev1.ContainerPort) *corev1.ContainerPort {
		at := slices.IndexFunc(ports, func(port corev1.ContainerPort) bool { return port.Name == "http3" })
		if at < 0 {
			return nil
		}
		return &ports[at]
	}
	port := of(container.Ports)
	if port == nil || port.ContainerPort != 8443 || port.HostPort != 443 || port.Protocol != corev1.ProtocolUDP {
		t.Errorf("%v", container.Ports)
	}
	inServices := map[string][]corev1.ServicePort{}
	for name, service := range services(t, variants["HTTP/3"]...) {
		for _, port := range service.Spec.Ports {
			if port.Name == "http3" && port.TargetPort.IntVal == 8443 {
				inServices[name] = append(inServices[name], port)
			}
		}
	}
	found := inServices["fairway"]
	if len(found) != 1 || found[0].Port != 8443 || found[0].NodePort != 30443 || found[0].Protocol != corev1.ProtocolUDP {
		t.Errorf("%v", found)
	}
	if len(inServices["fairway-internal"]) != 0 {
		t.Errorf("a load balancer ends TLS there: %v", inServices["fairway-internal"])
	}
	policy := one[networkingv1.NetworkPolicy](t, objects)
	if !slices.ContainsFunc(policy.Spec.Ingress[0].Ports, func(port networkingv1.NetworkPolicyPort) bool {
		return port.Port.IntVal == 8443 && port.Protocol != nil && *port.Protocol == corev1.ProtocolUDP
	}) {
		t.Errorf("%v", policy.Spec.Ingress[0].Ports)
	}
	shared := one[appsv1.Deployment](t, render(t, `http3.enabled=true`)).Spec.Template.Spec.Containers[0]
	if of(shared.Ports) != nil {
		t.Errorf("Helm merges ports by number, so that an upgrade would turn https into UDP: %v", shared.Ports)
	}
	plain := one[appsv1.Deployment](t, render(t)).Spec.Template.Spec.Containers[0]
	if slices.Contains(plain.Args, "--http3") || of(plain.Ports) != nil {
		t.Errorf("it is off by default: %v %v", plain.Args, plain.Ports)
	}
}

func TestAPortOfAServiceCanBeLeftOutAndLeadElsewhere(t *testing.T) {
	ports := services(t, `service.ports.http=null`, `service.targetPorts.https="http"`)["fairway"].Spec.Ports
	if len(ports) != 1 || ports[0].Name != "https" || ports[0].Port != 443 || ports[0].TargetPort.StrVal != "http" {
		t.Errorf("%v", ports)
	}
	for _, argument := range one[appsv1.Deployment](t, render(t, `service.ports.http=null`)).Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(argument, "--public-") {
			t.Errorf("%s for a port that the Service does not have", argument)
		}
	}
}

func TestTheAddressOfTheInternalServiceIsPublishedWhereThereIsNoOther(t *testing.T) {
	for _, published := range []struct {
		service string
		values  []string
	}{
		{"edge/fairway", []string{`internalService.enabled=true`}},
		{"edge/fairway-internal", []string{`internalService.enabled=true`, `service.enabled=false`}},
	} {
		arguments := one[appsv1.Deployment](t, render(t, published.values...)).Spec.Template.Spec.Containers[0].Args
		if !slices.Contains(arguments, "--publish-service="+published.service) {
			t.Errorf("%v: %v", published.values, arguments)
		}
	}
	both := services(t, `internalService={"enabled":true,"annotations":{"a":"b"}}`)
	if len(both) != 2 || both["fairway-internal"].Annotations["a"] != "b" || len(both["fairway"].Annotations) != 0 {
		t.Errorf("%v", both)
	}
}

func TestReplicasReachEachOtherWhoeverElseMay(t *testing.T) {
	objects := render(t, `networkPolicy={"enabled":true,"metricsFrom":[{"namespaceSelector":{}}]}`)
	pods := one[appsv1.Deployment](t, objects).Spec.Selector.MatchLabels
	rules := one[networkingv1.NetworkPolicy](t, objects).Spec.Ingress
	probe := rules[len(rules)-1]
	if len(probe.From) != 2 || probe.From[1].PodSelector == nil || !maps.Equal(probe.From[1].PodSelector.MatchLabels, pods) {
		t.Errorf("%v may reach %v", probe.From, probe.Ports)
	}
}
