package scenario

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fairway/e2e/bed"
	"fairway/e2e/cluster"
	"fairway/e2e/load"
)

// What every scenario with cert-manager shares: an ACME server (pebble) that looks hosts up in a DNS server of its own
// (pebble-challtestsrv), and cert-manager with an issuer of each kind.

const (
	acmeNamespace = "cert-manager"
	acmeDirectory = "https://pebble." + acmeNamespace + ".svc:14000/dir"
	acmeRoot      = "https://pebble." + acmeNamespace + ".svc:15000/roots/0"
	certManager   = "github.com/cert-manager/cert-manager"
	// issuing bounds how long cert-manager may take for a certificate: solver pod, its own check, that of the ACME server.
	issuing = 3 * time.Minute
	// acmeRate is in requests per second over TLS through Fairway, while certificates come and go.
	acmeRate = 200
)

var (
	certificates  = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	gatewaysOfAPI = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
	challenges    = schema.GroupVersionResource{Group: "acme.cert-manager.io", Version: "v1", Resource: "challenges"}
)

// acme is the ACME server of the testbed, with cert-manager.
type acme struct {
	// dns is the address at which its DNS server learns names.
	dns string
	// roots are trusted by clients.
	roots *x509.CertPool
}

// installed is the one of this run.
var installed *acme

// acme installs pebble and cert-manager, once for all scenarios.
func (s *stage) acme() *acme {
	s.Helper()
	if installed != nil {
		return installed
	}
	s.Cleanup(func() {
		if installed == nil {
			s.printPodsAndLogs(acmeNamespace)
			// A second attempt starts from the beginning.
			s.must(kube.DeleteNamespace(context.Background(), acmeNamespace))
		}
	})
	s.must(kube.Namespace(s.Context(), acmeNamespace))
	dns := s.challengeDNS()
	s.pebble(dns)
	made := &acme{dns: "http://" + dns + ":8055", roots: s.acmeRoots()}
	s.certManager(dns)
	s.issuer("ingress", "ingress: {ingressClassName: "+cluster.Class+"}")
	s.issuer("gateway", "gatewayHTTPRoute: {parentRefs: [{name: "+gatewayName+", kind: Gateway, sectionName: plain}]}")
	// That of a controller that does not exist.
	s.issuer("nobody", "ingress: {ingressClassName: nobody}")
	installed = made
	return made
}

// printPodsAndLogs prints the pods of a namespace and the end of their logs.
func (s *stage) printPodsAndLogs(namespace string) {
	s.kubectlSays("get", "pods", "-n", namespace, "-o", "wide")
	for _, name := range []string{"cert-manager", "pebble", "dns"} {
		s.kubectlSays("logs", "-n", namespace, "deployment/"+name, fmt.Sprintf("--tail=%d", told))
	}
}

// challengeDNS runs the DNS server, which says that every host is at Fairway, and gives the address of its Service.
func (s *stage) challengeDNS() string {
	s.Helper()
	inPod := intstr.FromInt32(8053)
	s.must(kube.DeployProgram(s.Context(), cluster.Program{
		Namespace: acmeNamespace, Name: "dns", Image: testbed.ProgramImage("pebble-challtestsrv"), Replicas: 1,
		Arguments: []string{"-defaultIPv4", addresses[0].String(), "-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""},
		Ports: []core.ServicePort{
			{Name: "dns", Protocol: core.ProtocolUDP, Port: dnsPort, TargetPort: inPod},
			{Name: "dns-tcp", Protocol: core.ProtocolTCP, Port: dnsPort, TargetPort: inPod},
			{Name: "management", Port: 8055, TargetPort: intstr.FromInt32(8055)},
		},
		Ready: core.ProbeHandler{TCPSocket: &core.TCPSocketAction{Port: intstr.FromInt32(8055)}},
	}))
	service, err := kube.API.CoreV1().Services(acmeNamespace).Get(s.Context(), "dns", meta.GetOptions{})
	s.must(err)
	return service.Spec.ClusterIP
}

// pebble runs the ACME server. It validates every order anew, and refuses every 20th nonce, as by default.
func (s *stage) pebble(dns string) {
	s.Helper()
	signed, err := authority()
	s.must(err)
	own, err := signed.Issue("pebble." + acmeNamespace + ".svc")
	s.must(err)
	configuration, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": "0.0.0.0:14000", "managementListenAddress": "0.0.0.0:15000",
		"certificate": "/etc/program/cert.pem", "privateKey": "/etc/program/key.pem",
		"httpPort": 80, "tlsPort": 443, "keyAlgorithm": "ecdsa", "retryAfter": map[string]int{"authz": 1, "order": 1},
	}})
	s.must(err)
	port := func(name string, number int32) core.ServicePort {
		return core.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(number)}
	}
	s.must(kube.DeployProgram(s.Context(), cluster.Program{
		Namespace: acmeNamespace, Name: "pebble", Image: testbed.ProgramImage("pebble"), Replicas: 1,
		Arguments:   []string{"-config", "/etc/program/pebble.json", "-dnsserver", dns + ":53"},
		Environment: map[string]string{"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_AUTHZREUSE": "0"},
		Files:       map[string]string{"pebble.json": string(configuration), "cert.pem": string(own.Certificate), "key.pem": string(own.Key)},
		Ports:       []core.ServicePort{port("acme", 14000), port("management", 15000)},
		Ready:       core.ProbeHandler{TCPSocket: &core.TCPSocketAction{Port: intstr.FromInt32(14000)}},
	}))
}

// acmeRoots are what clients of certificates of the ACME server trust.
func (s *stage) acmeRoots() *x509.CertPool {
	s.Helper()
	signed, err := authority()
	s.must(err)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: signed.Client("pebble." + acmeNamespace + ".svc")}}
	roots := x509.NewCertPool()
	s.must(cluster.Eventually(s.Context(), promptly, "the ACME server tells its root", func(context.Context) (bool, string, error) {
		response, err := client.Get(acmeRoot)
		if err != nil {
			return false, "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && roots.AppendCertsFromPEM(text), string(text), err
	}))
	return roots
}

// certManager installs cert-manager from the templates of its chart: its controller with the permissions that it has everywhere. The
// programs without a part in challenges (webhook, cainjector) are left out.
func (s *stage) certManager(dns string) {
	s.Helper()
	folder, err := testbed.ModuleFolder(s.Context(), "cert-manager", certManager)
	s.must(err)
	s.kubectl("apply", "--server-side", "-f", filepath.Join(folder, "deploy/crds"))
	image := func(program string) map[string]any {
		name, tag, _ := cutLast(testbed.ProgramImage(program), ":")
		return map[string]any{"repository": name, "tag": tag}
	}
	values, err := json.Marshal(map[string]any{
		"image": image("cert-manager-controller"), "acmesolver": map[string]any{"image": image("acmesolver")},
		"featureGates": "ListenerSets=true",
		// The DNS server has an address for every name, those with the pods' search domains too.
		"podDnsConfig": map[string]any{"options": []any{map[string]any{"name": "ndots", "value": "1"}}},
		"extraArgs": []string{
			"--enable-gateway-api", "--enable-gateway-api-listenerset", "--acme-http01-solver-nameservers=" + dns + ":53",
			"--dns01-check-retry-period=2s",
		},
	})
	s.must(err)
	file := filepath.Join(s.TempDir(), "values.yaml")
	s.must(os.WriteFile(file, values, 0o600))
	arguments := []string{"template", "cert-manager", filepath.Join(folder, "deploy/charts/cert-manager"), "--namespace", acmeNamespace, "--values", file}
	for _, template := range []string{"serviceaccount", "rbac", "deployment"} {
		arguments = append(arguments, "--show-only", "templates/"+template+".yaml")
	}
	objects, err := bed.Run(s.Context(), testbed.Helm, arguments...)
	s.must(err)
	s.apply(objects)
	s.must(kube.AwaitSettled(s.Context(), acmeNamespace, "cert-manager"))
}

// issuer makes the ClusterIssuer pebble-NAME with one solver of HTTP-01.
func (s *stage) issuer(name, solver string) {
	s.Helper()
	signed, err := authority()
	s.must(err)
	s.apply(fmt.Sprintf(`
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: pebble-%s}
spec:
  acme:
    server: %s
    caBundle: %s
    privateKeySecretRef: {name: pebble-%s}
    solvers: [{http01: {%s}}]
`, name, acmeDirectory, base64.StdEncoding.EncodeToString(signed.PEM()), name, solver))
	s.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "clusterissuer/pebble-"+name)
}

// kubectl runs the testbed's kubectl.
func (s *stage) kubectl(arguments ...string) string {
	s.Helper()
	out, err := testbed.Kubectl(s.Context(), arguments...)
	s.must(err)
	return out
}

// apply applies objects written as YAML.
func (s *stage) apply(objects string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "objects.yaml")
	s.must(os.WriteFile(file, []byte(objects), 0o600))
	s.kubectl("apply", "--server-side", "-f", file)
}

// resolves tells the DNS server of the ACME server where a host is; "" for Fairway again.
func (s *stage) resolves(host, address string) {
	s.Helper()
	// An address is added to those before.
	s.configureDNS("/clear-a", map[string]any{"host": host})
	if address != "" {
		s.configureDNS("/add-a", map[string]any{"host": host, "addresses": []string{address}})
	}
}

func (s *stage) configureDNS(path string, what map[string]any) {
	s.Helper()
	text, err := json.Marshal(what)
	s.must(err)
	response, err := http.Post(s.acme().dns+path, "application/json", bytes.NewReader(text))
	s.must(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		s.Fatalf("the DNS server answers %s to %s", response.Status, text)
	}
}

// trusting is a plan of a client that believes the ACME server alone: another certificate fails it.
func (s *stage) trusting(host string) load.Plan {
	return load.Plan{Host: host, TLS: &tls.Config{RootCAs: s.acme().roots, ServerName: host}}
}

// issued waits until cert-manager has written a certificate as often into the Secret of that name. Gives the serial number in it.
func (s *stage) issued(name string, revision int64) string {
	s.Helper()
	what := fmt.Sprintf("Certificate %s/%s is issued, %d times", s.namespace, name, revision)
	s.must(cluster.Eventually(s.Context(), issuing, what, func(ctx context.Context) (bool, string, error) {
		found, err := kube.Objects.Resource(certificates).Namespace(s.namespace).Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return false, "", err
		}
		reached, _, _ := unstructured.NestedInt64(found.Object, "status", "revision")
		ready := conditionOf(found, "Ready")
		return reached >= revision && ready["status"] == "True", fmt.Sprintf("revision %d, %v; %s", reached, ready, s.reasons(ctx)), nil
	}))
	return s.serialIn(name)
}

// serialIn is the serial number of the certificate in a Secret; "" when there is none.
func (s *stage) serialIn(name string) string {
	s.Helper()
	secret, err := kube.API.CoreV1().Secrets(s.namespace).Get(s.Context(), name, meta.GetOptions{})
	s.must(err)
	block, _ := pem.Decode(secret.Data[core.TLSCertKey])
	if block == nil {
		return ""
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	s.must(err)
	return leaf.SerialNumber.String()
}

func conditionOf(object *unstructured.Unstructured, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, _ := each.(map[string]any); condition["type"] == kind {
			return condition
		}
	}
	return nil
}

// reasons is what cert-manager says of the challenges of the namespace.
func (s *stage) reasons(ctx context.Context) string {
	list, err := kube.Objects.Resource(challenges).Namespace(s.namespace).List(ctx, meta.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var reasons []string
	for _, each := range list.Items {
		host, _, _ := unstructured.NestedString(each.Object, "spec", "dnsName")
		reason, _, _ := unstructured.NestedString(each.Object, "status", "reason")
		reasons = append(reasons, host+": "+reason)
	}
	return strings.Join(reasons, " | ")
}

// pending waits until cert-manager says of the challenge of a host that it cannot be met, and why.
func (s *stage) pending(host string, words ...string) {
	s.Helper()
	what := fmt.Sprintf("the challenge of %s waits because of %q", host, words)
	s.must(cluster.Eventually(s.Context(), issuing, what, func(ctx context.Context) (bool, string, error) {
		reasons := s.reasons(ctx)
		for _, each := range strings.Split(reasons, " | ") {
			if strings.HasPrefix(each, host+": ") && containsAll(each, words) {
				return true, "", nil
			}
		}
		return false, reasons, nil
	}))
}

// renew asks for a new certificate, as `cmctl renew` does.
func (s *stage) renew(name string) {
	s.Helper()
	found, err := kube.Objects.Resource(certificates).Namespace(s.namespace).Get(s.Context(), name, meta.GetOptions{})
	s.must(err)
	conditions, _, err := unstructured.NestedSlice(found.Object, "status", "conditions")
	s.must(err)
	conditions = append(conditions, map[string]any{
		"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "asked for by the scenario",
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	})
	change, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	s.must(err)
	_, err = kube.Objects.Resource(certificates).Namespace(s.namespace).
		Patch(s.Context(), name, types.MergePatchType, change, meta.PatchOptions{}, "status")
	s.must(err)
}
