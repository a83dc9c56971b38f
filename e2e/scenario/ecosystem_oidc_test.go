package scenario

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/e2e/cluster"
	"fairway/e2e/report"
)

//go:embed ecosystem/oidc.yaml
var oidcObjects string

// oidcRequests are sent with a session while replicas are rolled and keys rotate.
const oidcRequests = 10_000

// tokenLifetime is short, so that sessions are refreshed often.
const tokenLifetime = 12 * time.Second

// A browser logs in to a host that Fairway itself guards, with a certified provider, at three replicas: these are rolled, their keys
// rotate, the provider fails in the middle of it, and it ends sessions.
func TestEcosystemOIDCGuardsAHost(t *testing.T) {
	begun := time.Now()
	s := newStage(t, "oidc")
	app := "https://app." + s.name + ".example"
	o := newOIDC(s, "sub", `["email", "groups"]`, certified(map[string]any{
		"ttl":       map[string]any{"AccessToken": tokenLifetime.Seconds(), "IdToken": tokenLifetime.Seconds()},
		"toClients": map[string]any{"address": addresses[0].String()},
		"more": map[string]any{
			"backchannel_logout_uri": app + "/oauth2/backchannel-logout", "backchannel_logout_session_required": true,
		},
	}))
	o.logsIn("app", "alice", deepLink, "alice")
	o.must(o.browser.Forget(o.Context()))
	// A session with many groups does not fit into one cookie.
	o.logsIn("app", "bob", deepLink, "bob")
	if parts := len(o.session()); parts < 2 {
		o.Errorf("the session of bob has %d cookies", parts)
	}
	o.rolls()
	o.pauses()
	o.providerEnds()
	o.logsOut(true)
	o.providerGoneAtItsForm()
	o.providerGoneBeforeTheToken()
	o.publish(begun)
}

// The same with Keycloak, which most users have.
func TestEcosystemKeycloakGuardsAHost(t *testing.T) {
	begun := time.Now()
	o := newOIDC(newStage(t, "keycloak"), "preferred_username", `["email", "profile"]`, keycloak())
	o.logsIn("app", "alice", deepLink, "alice")
	o.rolls()
	o.pauses()
	o.providerEnds()
	o.logsOut(false)
	o.publish(begun)
}

// newOIDC begins with three replicas that know the provider's name; the claim is the name of a user.
func newOIDC(s *stage, claim, scopes string, product product) *oidc {
	s.Helper()
	values := []string{
		fmt.Sprintf("replicas=%d", ticketReplicas), fmt.Sprintf("sessionTickets.rotation=%d", ticketRotation),
		// Stand for a name in DNS that leads to Fairway.
		"hostAliases[0].ip=" + addresses[0].String(), "hostAliases[0].hostnames[0]=login." + s.name + ".example",
	}
	s.Cleanup(func() {
		s.must(upgrade(context.Background(), testbed.Image))
		s.must(kube.AwaitSettled(context.Background(), fairwayNamespace, fairwayName))
	})
	s.must(upgrade(s.Context(), testbed.Image, values...))
	s.must(kube.AwaitSettled(s.Context(), fairwayNamespace, fairwayName))
	o := &oidc{newLogin(s, oidcObjects, product, "@PATH@", product.path, "@CLAIM@", claim, "@SCOPES@", scopes), values}
	o.get("app", "/", http.StatusFound)
	return o
}

func (o *oidc) publish(begun time.Time) {
	o.Helper()
	if stray := o.stray.Load(); stray > 0 {
		o.Errorf("%d requests without a user reached what is guarded", stray)
	}
	o.figure("wall time", time.Since(begun).Seconds(), "s", 0)
	book.Add(report.Scenario{Name: o.name, Figures: o.figures})
}

// oidc is the scenario.
type oidc struct {
	*login
	// values are those of the chart.
	values []string
}

// session are the cookies of the session by name.
func (o *oidc) session() map[string]string {
	o.Helper()
	all, err := o.browser.Cookies(o.Context())
	o.must(err)
	found := map[string]string{}
	for _, cookie := range all {
		if strings.HasPrefix(cookie.Name, "__Host-fairway-session-") {
			found[cookie.Name] = cookie.Value
			if !cookie.Secure || !cookie.HTTPOnly || cookie.Path != "/" {
				o.Errorf("the cookie %s can be read by others: %+v", cookie.Name, cookie)
			}
		}
	}
	return found
}

// rolls: nobody with a session notices that all replicas are replaced and the keys of sessions change, while it is refreshed again and again.
func (o *oidc) rolls() {
	o.Helper()
	counts := o.during("app", o.session(), func() {
		before := o.ticketKey()
		for _, image := range []string{testbed.Next, testbed.Image} {
			o.must(upgrade(o.Context(), image, o.values...))
			o.must(kube.AwaitSettled(o.Context(), fairwayNamespace, fairwayName))
		}
		o.must(cluster.Eventually(o.Context(), 4*ticketRotation*time.Second, "the key of sessions is rotated", func(context.Context) (bool, string, error) {
			return o.ticketKey() != before, "the same key", nil
		}))
		// Until the new one encrypts, and the session was encrypted with it.
		o.lasting(ticketRotation / 6 * time.Second)
	}, oidcRequests)
	o.Logf("while replicas were rolled and keys rotated: %v", counts)
	o.figure("requests with a session while three replicas were rolled and keys rotated", float64(counts["200"]), "", 0)
	if len(counts) != 1 || counts["200"] < oidcRequests {
		o.Errorf("while replicas were rolled and keys rotated, a session was answered %v", counts)
	}
}

// pauses: a provider that is silent for a moment, in the middle of refreshes, ends no session.
func (o *oidc) pauses() {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.logsIn("app", "alice", deepLink, "paused")
	counts := o.during("app", o.session(), func() {
		for range 6 {
			o.must(o.provider.Process.Signal(syscall.SIGSTOP))
			o.lasting(time.Second)
			o.must(o.provider.Process.Signal(syscall.SIGCONT))
			o.lasting(tokenLifetime / 4)
		}
	}, 1)
	o.figure("requests with a session while the provider was silent now and then", float64(counts["200"]), "", 0)
	if len(counts) != 1 || counts["200"] == 0 {
		o.Errorf("while the provider was silent now and then, a session was answered %v", counts)
	}
}

// providerEnds: a logout at the provider ends the session at every replica, although the browser still has it.
func (o *oidc) providerEnds() {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.logsIn("app", "alice", deepLink, "logged-in")
	session := o.session()
	if statuses := o.everyReplica(session); len(statuses) != 1 || statuses[http.StatusOK] != ticketReplicas {
		o.Fatalf("replicas answer a session %v", statuses)
	}
	o.must(o.browser.Open(o.Context(), "https://login."+o.domain+o.product.logout))
	o.awaitPage("the question whether to log out", o.product.yes)
	begun := time.Now()
	o.must(o.browser.Evaluate(o.Context(), "setTimeout(() => "+o.product.yes+".click()); 0", nil))
	o.must(cluster.Eventually(o.Context(), promptly, "the session has ended at every replica", func(context.Context) (bool, string, error) {
		statuses := o.everyReplica(session)
		return statuses[http.StatusFound] == ticketReplicas, fmt.Sprint(statuses), nil
	}))
	o.figure("from the logout at the provider to its effect at three replicas", float64(time.Since(begun).Milliseconds()), "ms", 0)
	// A replica that starts later knows it as well.
	o.must(kube.Restart(o.Context(), fairwayNamespace, fairwayName))
	o.must(kube.AwaitSettled(o.Context(), fairwayNamespace, fairwayName))
	if statuses := o.everyReplica(session); statuses[http.StatusFound] != ticketReplicas {
		o.Errorf("replicas that have started since answer a session that has ended %v", statuses)
	}
}

// everyReplica counts the responses of replicas to a session.
func (o *oidc) everyReplica(session map[string]string) map[int]int {
	o.Helper()
	pods, err := replicaAddresses(o.Context())
	o.must(err)
	statuses := map[int]int{}
	for _, pod := range pods {
		statuses[o.askReplica(pod, session)]++
	}
	return statuses
}

func (o *oidc) askReplica(pod netip.Addr, session map[string]string) int {
	o.Helper()
	client := o.client("app")
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, cluster.Join(pod, 8443))
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(o.Context(), http.MethodGet, "https://app."+o.domain+"/", nil)
	o.must(err)
	for name, value := range session {
		request.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	answer, err := client.Do(request)
	o.must(err)
	_ = answer.Body.Close() // only its status is of interest
	return answer.StatusCode
}

// logsOut: a logout at Fairway ends the session at the provider, which may ask whether to, and leads back to a page that asks for a login.
func (o *oidc) logsOut(asks bool) {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.logsIn("app", "alice", deepLink, "before-logout")
	o.must(o.browser.Open(o.Context(), "https://app."+o.domain+"/oauth2/logout"))
	if asks {
		o.awaitPage("the question whether to log out", o.product.yes)
		o.must(o.browser.Evaluate(o.Context(), "setTimeout(() => "+o.product.yes+".click()); 0", nil))
	}
	o.awaitPage("the form of the provider", "location.host === 'login."+o.domain+"' && "+o.product.form)
	if left := o.session(); len(left) > 0 {
		o.Errorf("after the logout the browser still has %v", left)
	}
	o.picture("logged-out")
}

// providerGoneAtItsForm: the provider dies while its form is shown.
func (o *oidc) providerGoneAtItsForm() {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.openGuarded("app", deepLink)
	o.stopProvider()
	o.fails("provider gone at its form", func() { o.fills("alice") }, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout)
	o.recovers()
}

// providerGoneBeforeTheToken: the provider dies before Fairway can redeem the code.
func (o *oidc) providerGoneBeforeTheToken() {
	o.Helper()
	o.openGuarded("app", deepLink)
	o.must(o.browser.Hold(o.Context(), "*/oauth2/callback*"))
	o.fills("alice")
	held, err := o.browser.AwaitHeld(o.Context())
	o.must(err)
	o.stopProvider()
	o.fails("provider gone before the token", func() { o.must(o.browser.ContinueRequest(o.Context(), held)) }, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout)
	if left := o.session(); len(left) > 0 {
		o.Errorf("a login that failed has begun the session %v", left)
	}
	o.recovers()
}

// keycloak is Keycloak in its development mode, which keeps everything in memory.
func keycloak() product {
	const realm = "/realms/shop"
	prepare := func(o *login, _ netip.Addr) {
		folder, err := testbed.ProgramFolder(o.Context(), "keycloak")
		o.must(err)
		// It writes into its own folder.
		o.must(os.CopyFS(filepath.Join(o.folder, "keycloak"), os.DirFS(folder)))
		app := "https://app." + o.domain
		text, err := json.Marshal(map[string]any{
			"realm": "shop", "enabled": true, "accessTokenLifespan": int(tokenLifetime.Seconds()),
			"clients": []map[string]any{{
				"clientId": "fairway", "secret": clientSecret, "redirectUris": []string{app + "/oauth2/callback"},
				"attributes": map[string]string{
					"backchannel.logout.url": app + "/oauth2/backchannel-logout", "backchannel.logout.session.required": "true",
					"post.logout.redirect.uris": app + "/",
				},
			}},
			"users": []map[string]any{{
				"username": "alice", "email": "alice@" + o.domain, "emailVerified": true, "firstName": "Alice", "lastName": "Example", "enabled": true,
				"credentials": []map[string]string{{"type": "password", "value": clientSecret}},
			}},
		})
		o.must(err)
		data := filepath.Join(o.folder, "keycloak", "data", "import")
		o.must(os.MkdirAll(data, 0o755))
		o.must(os.WriteFile(filepath.Join(data, "shop.json"), text, 0o600))
		o.must(os.WriteFile(filepath.Join(o.folder, "authority.pem"), o.authority.PEM(), 0o600))
		o.must(os.WriteFile(filepath.Join(o.folder, "hosts"), []byte(addresses[0].String()+" app."+o.domain+"\n"), 0o600))
	}
	command := func(o *login) *exec.Cmd {
		command := exec.Command("sh", filepath.Join(o.folder, "keycloak", "bin", "kc.sh"), "start-dev", "--import-realm", "--db=dev-mem",
			"--http-port="+fmt.Sprint(o.port), "--hostname=https://login."+o.domain, "--proxy-headers=xforwarded",
			"--truststore-paths="+filepath.Join(o.folder, "authority.pem"))
		command.Env = append(os.Environ(), "JAVA_OPTS_APPEND=-Djdk.net.hosts.file="+filepath.Join(o.folder, "hosts"))
		return command
	}
	return product{
		path: realm, patience: 5 * time.Minute, prepare: prepare, command: command, form: "document.getElementById('kc-login')",
		fill: "document.getElementById('username').value = 'NAME'; document.getElementById('password').value = '" + clientSecret + "'",
		yes:  "document.getElementById('kc-logout')", logout: realm + "/protocol/openid-connect/logout",
	}
}
