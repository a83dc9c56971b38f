//go:build before

package scenario

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/bed"
	"fairway/e2e/cluster"
	"fairway/e2e/load"
)

// blocked is a client that the settings refuse, so that a response shows whether they are in effect.
const blocked = "scenario-upgrade"

// The release before is installed, upgraded to this one with the words of the documentation, and rolled back, under load: no request
// fails, the settings count all the time, sessions resume with the keys that the other release made, and each reads the configuration
// that the other kept.
func TestUpgradingFromTheReleaseBeforeAndBackLosesNothing(t *testing.T) {
	s := newStage(t, "upgrade")
	before := testbed
	before.Chart, before.Image, before.Fairway = os.Getenv("E2E_BEFORE_CHART"), os.Getenv("E2E_BEFORE_IMAGE"), os.Getenv("E2E_BEFORE_FAIRWAY")
	defer func() {
		s.must(upgrade(context.Background(), testbed.Image))
		s.must(kube.AwaitSettled(context.Background(), fairwayNamespace, fairwayName))
	}()
	s.must(upgradeTo(s.Context(), before, before.Image, "settings.block-user-agents="+blocked))
	s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
	s.backends(3)
	secure := s.secure("own", "secure-"+s.host)
	s.awaitServed(secure)
	s.settingsCount()
	settings, key := s.settings(), s.ticketKey()
	clients := map[uint16]goClient{}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		clients[version] = s.goClient(version)
		clients[version].config.ServerName = secure.Host
		s.handshake(clients[version], begun)
	}

	s.rate /= 2
	s.traffic(load.Plan{})
	s.traffic(secure)
	kept := func(image string) {
		s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
		s.runs(image)
		s.settingsCount()
		if now := s.settings(); !maps.Equal(now, settings) {
			s.Errorf("with %s the settings are %v, and were %v", image, now, settings)
		}
		if now := s.ticketKey(); now != key {
			s.Errorf("with %s the key of session tickets is of %s, and was of %s", image, now, key)
		}
		for _, client := range clients {
			s.handshake(client, resumed)
		}
		s.more(2 * s.rate)
	}
	s.repeat(func() {
		_, tag, _ := cutLast(testbed.Image, ":")
		s.helm("upgrade", fairwayName, testbed.Chart, "--reset-then-reuse-values", "--set", "image.tag="+tag)
		kept(testbed.Image)
		s.helm("rollback", fairwayName)
		kept(before.Image)
	})
	s.finish()

	s.keptConfigurationIsRead(before.Fairway, testbed.Fairway)
	s.keptConfigurationIsRead(testbed.Fairway, before.Fairway)
}

func (s *stage) helm(arguments ...string) {
	s.Helper()
	_, err := bed.Run(s.Context(), testbed.Helm, append(arguments, "--namespace", fairwayNamespace)...)
	s.must(err)
}

// settings are the keys of the settings ConfigMap of the chart.
func (s *stage) settings() map[string]string {
	s.Helper()
	settings, err := kube.API.CoreV1().ConfigMaps(fairwayNamespace).Get(s.Context(), fairwayName, meta.GetOptions{})
	s.must(err)
	return settings.Data
}

// settingsCount waits until every replica refuses the blocked client.
func (s *stage) settingsCount() {
	s.Helper()
	replicas, err := replicaAddresses(s.Context())
	s.must(err)
	for _, address := range replicas {
		s.must(cluster.Eventually(s.Context(), promptly, "the settings count for "+address.String(),
			func(ctx context.Context) (bool, string, error) {
				status, err := s.get(ctx, cluster.Join(address, 8080), blocked)
				return status == http.StatusForbidden, fmt.Sprint(status, err), nil
			}))
	}
}

// get is the status of a request for the scenario's host.
func (s *stage) get(ctx context.Context, address, agent string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return 0, err
	}
	request.Host, request.Close = s.host, true
	request.Header.Set("User-Agent", agent)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// handshake checks the handshake of a client through the Service of Fairway.
func (s *stage) handshake(client goClient, want handshake) {
	s.Helper()
	got, err := client.connect(s.Context(), cluster.Join(addresses[0], 443))
	s.must(err)
	if got != want {
		s.Errorf("the handshake was of kind %d, not %d", got, want)
	}
}

// keptConfigurationIsRead: the state that one binary stores is served by the other when the API does not respond.
func (s *stage) keptConfigurationIsRead(writer, reader string) {
	s.Helper()
	state := s.TempDir()
	s.must(os.Chmod(state, 0o700))
	first, _ := s.runProgram(writer, "--state-dir="+state)
	s.must(cluster.Eventually(s.Context(), promptly, "the configuration is kept", func(context.Context) (bool, string, error) {
		_, err := os.Stat(filepath.Join(state, "configuration.json"))
		return err == nil, fmt.Sprint(err), nil
	}))
	s.must(first.command.Process.Signal(syscall.SIGKILL))
	silent := filepath.Join(s.TempDir(), "kubeconfig")
	s.must(os.WriteFile(silent, []byte(silentAPI), 0o600))
	second, _ := s.runProgram(reader, "--state-dir="+state, "--kubeconfig="+silent)
	status, err := s.get(s.Context(), second.http, "anyone")
	s.must(err)
	if status != http.StatusOK {
		s.Errorf("%s answers %d with what %s kept", reader, status, writer)
	}
	s.must(second.command.Process.Signal(syscall.SIGKILL))
}

// silentAPI names an API server that does not respond.
const silentAPI = `{"apiVersion": "v1", "kind": "Config", "current-context": "it",
"clusters": [{"name": "it", "cluster": {"server": "http://127.0.0.1:1"}}],
"users": [{"name": "it", "user": {}}],
"contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]}`
