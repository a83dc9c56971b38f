package chart

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestPodsAskForNothingThatARestrictedNamespaceRefuses(t *testing.T) {
	pod := one[appsv1.Deployment](t, render(t)).Spec.Template.Spec
	container := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%v", pod.SecurityContext)
	}
	allowed := container.SecurityContext
	if *allowed.AllowPrivilegeEscalation || !*allowed.ReadOnlyRootFilesystem || len(allowed.Capabilities.Add) != 0 ||
		!slices.Equal(allowed.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%v", allowed)
	}
	for _, port := range container.Ports {
		if port.ContainerPort < 1024 || port.HostPort != 0 {
			t.Errorf("%v", port)
		}
	}
	for _, volume := range pod.Volumes {
		// Bodies may reach a disk, and never fill it.
		if volume.Name == "body-buffer" && volume.EmptyDir != nil && !volume.EmptyDir.SizeLimit.IsZero() {
			continue
		}
		if volume.EmptyDir == nil || volume.EmptyDir.Medium != corev1.StorageMediumMemory {
			t.Errorf("private keys would reach a disk: %v", volume)
		}
	}
	if len(container.Resources.Limits) != 1 || container.Resources.Limits.Memory().IsZero() {
		t.Errorf("%v", container.Resources)
	}
}

func TestTelemetryIsGivenAsFlagsAndItsSecretsAsFiles(t *testing.T) {
	pod := one[appsv1.Deployment](t, render(t, variants["telemetry"]...)).Spec.Template.Spec
	container := pod.Containers[0]
	for _, flag := range []string{
		"--otlp-endpoint=https://collector.observe:4318", "--otlp-protocol=http", "--otlp-service-name=edge",
		"--otlp-headers-file=/etc/fairway/telemetry/headers/headers", "--otlp-ca-file=/etc/fairway/telemetry/ca/ca.crt",
		"--otlp-metrics-interval=15", "--otlp-logs", "--trace-sample-ratio=0.1", "--trace-parent-based=false",
		"--trace-trust-incoming=false", "--trace-propagation=w3c-b3",
	} {
		if !slices.Contains(container.Args, flag) {
			t.Errorf("%s is not in %v", flag, container.Args)
		}
	}
	for name, secret := range map[string]string{"telemetry-headers": "keys", "telemetry-ca": "authority"} {
		isMounted := slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
			return mount.Name == name && mount.ReadOnly
		})
		isThere := slices.ContainsFunc(pod.Volumes, func(volume corev1.Volume) bool {
			return volume.Name == name && volume.Secret != nil && volume.Secret.SecretName == secret
		})
		if !isMounted || !isThere {
			t.Errorf("the Secret %s is not mounted", secret)
		}
	}
	// A ratio of 0 is one: what clients trace is traced.
	pod = one[appsv1.Deployment](t, render(t, `telemetry.traces.sampleRatio=0`)).Spec.Template.Spec
	if !slices.Contains(pod.Containers[0].Args, "--trace-sample-ratio=0") {
		t.Errorf("%v", pod.Containers[0].Args)
	}
	for _, argument := range one[appsv1.Deployment](t, render(t)).Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(argument, "--otlp-") || strings.HasPrefix(argument, "--trace-") {
			t.Errorf("%s without a value that asks for it", argument)
		}
	}
}

func TestTheFirewallIsThereBeforeFairwayAndUntilItHasDrained(t *testing.T) {
	pod := one[appsv1.Deployment](t, render(t, variants["a firewall"]...)).Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
		t.Fatalf("%d init containers, %d containers", len(pod.InitContainers), len(pod.Containers))
	}
	waf, fairway := pod.InitContainers[0], pod.Containers[0]
	if waf.RestartPolicy == nil || *waf.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("%v", waf.RestartPolicy)
	}
	if waf.Image != "localhost/fairway-waf:1" || waf.StartupProbe == nil || *waf.SecurityContext.AllowPrivilegeEscalation ||
		!*waf.SecurityContext.ReadOnlyRootFilesystem || waf.Resources.Limits.Memory().IsZero() {
		t.Errorf("%v", waf)
	}
	expected := []string{"--listen=127.0.0.1:9002", "--admin=[::]:9003", "--audit-log=", "--log-format=json"}
	if !slices.Equal(waf.Args, expected) {
		t.Errorf("%v", waf.Args)
	}
	if !slices.Contains(fairway.Args, "--waf=127.0.0.1:9002") {
		t.Errorf("%v", fairway.Args)
	}
	pod = one[appsv1.Deployment](t, render(t)).Spec.Template.Spec
	isGiven := func(argument string) bool { return strings.HasPrefix(argument, "--waf") }
	if len(pod.InitContainers) != 0 || slices.ContainsFunc(pod.Containers[0].Args, isGiven) {
		t.Error("there is a firewall, and nobody asked for one")
	}
}

func TestOnlyTheProbePageLeavesLoopback(t *testing.T) {
	for name, values := range variants {
		manifests, err := Render(values...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(manifests, "--admin=127.0.0.1:10254\n") || strings.Contains(manifests, "containerPort: 10254") {
			t.Errorf("%s: the admin server is not on loopback", name)
		}
	}
}

func TestThePodIsKilledOnlyAfterItsDrain(t *testing.T) {
	for _, values := range [][]string{nil, {`drain={"delay":30,"timeout":3600,"margin":5}`}} {
		pod := one[appsv1.Deployment](t, render(t, values...)).Spec.Template.Spec
		var drain int64
		for _, argument := range pod.Containers[0].Args {
			if flag, value, _ := strings.Cut(argument, "="); strings.HasPrefix(flag, "--drain-") {
				var seconds int64
				if err := json.Unmarshal([]byte(value), &seconds); err != nil {
					t.Fatal(err)
				}
				drain += seconds
			}
		}
		if drain == 0 || *pod.TerminationGracePeriodSeconds < drain+5 {
			t.Errorf("killed after %d s, but drains for %d", *pod.TerminationGracePeriodSeconds, drain)
		}
	}
}

func TestARollNeverTakesAPodBeforeItsSuccessorIsReadyUnlessTheyShareAPort(t *testing.T) {
	rolling := one[appsv1.Deployment](t, render(t)).Spec.Strategy.RollingUpdate
	if rolling.MaxUnavailable.IntValue() != 0 || rolling.MaxSurge.IntValue() != 1 {
		t.Errorf("%v", rolling)
	}
	for _, values := range [][]string{{`hostNetwork=true`}, {`hostPorts.http=80`}} {
		rolling := one[appsv1.DaemonSet](t, render(t, append(values, `kind="DaemonSet"`)...)).Spec.UpdateStrategy.RollingUpdate
		if rolling.MaxUnavailable.IntValue() != 1 || rolling.MaxSurge.IntValue() != 0 {
			t.Errorf("%v: %v", values, rolling)
		}
	}
}
