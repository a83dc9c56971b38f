package scenario

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/e2e/cluster"
	"fairway/e2e/report"
)

//go:embed ecosystem/oauth2-proxy.yaml
var oauth2ProxyObjects string

// A browser logs in to a guarded host through oauth2-proxy and a certified provider, which are all behind Fairway, and the provider
// and oauth2-proxy fail in the middle of it.
func TestEcosystemOAuth2ProxyGuardsAHost(t *testing.T) {
	begun := time.Now()
	s := newStage(t, "oauth2-proxy")
	s.Cleanup(func() { s.printLogOnFailure("oauth2-proxy") })
	o := newLogin(s, oauth2ProxyObjects, certified(nil), "@IMAGE@", testbed.ProgramImage("oauth2-proxy"))
	o.cookieDomain = o.domain
	s.must(kube.AwaitSettled(s.Context(), s.namespace, "oauth2-proxy"))
	o.get("app", "/oauth2/auth", http.StatusUnauthorized)
	o.guards()
	o.logsIn("app", "alice", deepLink, "alice")
	o.hasSession("alice")
	o.checkWebSocket("alice")
	o.refreshes(1)
	o.logsOut()
	// The session of somebody with many groups does not fit into one cookie, nor into two.
	o.logsIn("shared", "bob", deepLink, "bob")
	o.refreshes(3)
	o.keepsApart("bob")
	o.logsOut()
	o.sessionOutlives()
	o.rolls()
	o.providerGone()
	o.providerGoneBeforeTheToken()
	o.providerSilent()
	o.guardGone()
	if stray := o.stray.Load(); stray > 0 {
		o.Errorf("%d requests without a user reached what is guarded", stray)
	}
	o.figure("wall time", time.Since(begun).Seconds(), "s", 0)
	book.Add(report.Scenario{Name: o.name, Figures: o.figures})
}

// guards: users without a session are sent to oauth2-proxy, with the requested address.
func (o *login) guards() {
	o.Helper()
	const escaped = "%2Fdeep%2Flink%3Fa%3D1%26b%3Dtwo%2520words%26c%3D%252Fpath%253Fx%253D1%26d%3D%2526%26e%3D%25C3%25A4"
	for host, start := range map[string]string{
		"app":    "https://app." + o.domain + "/oauth2/start?rd=" + escaped,
		"shared": "https://auth." + o.domain + "/oauth2/start?rd=https://shared." + o.domain + escaped,
	} {
		if location := o.get(host, deepLink, http.StatusFound).Header.Get("Location"); location != start {
			o.Errorf("who is not logged in at %s is sent to\n%s, not\n%s", host, location, start)
		}
	}
}

// hasSession: no header of a client passes for what oauth2-proxy says.
func (o *login) hasSession(name string) {
	o.Helper()
	for _, header := range []string{"X-Auth-Request-Email", "x-auth-request-email", "X_Auth_Request_Email"} {
		var got seen
		o.must(o.browser.Evaluate(o.Context(), "fetch('/other', {headers: {'"+header+"': 'eve@evil.example'}}).then(r => r.text())"+
			".then(t => JSON.parse(new DOMParser().parseFromString(t, 'text/html').getElementById('guarded').innerText))", &got))
		if got.Email != name+"@"+o.domain {
			o.Errorf("with %s from the client the backend got %+v", header, got)
		}
	}
}

// checkWebSocket checks that a WebSocket passes with the session, and not without.
func (o *login) checkWebSocket(name string) {
	o.Helper()
	var line string
	o.must(o.browser.Evaluate(o.Context(), `new Promise((done, failed) => {
		const talk = new WebSocket('wss://' + location.host + '/talk');
		talk.onopen = () => talk.send('hello');
		talk.onmessage = (event) => { done(event.data); talk.close(); };
		talk.onerror = () => failed(new Error('no connection'));
	})`, &line))
	if wanted := name + "@" + o.domain + ": hello"; line != wanted {
		o.Errorf("the WebSocket answers %q, not %q", line, wanted)
	}
	o.get("app", "/talk", http.StatusFound)
}

// session are the parts of the session's cookie, in order.
func (o *login) session() map[string]string {
	o.Helper()
	all, err := o.browser.Cookies(o.Context())
	o.must(err)
	found := map[string]string{}
	for _, cookie := range all {
		if strings.HasPrefix(cookie.Name, "_oauth2_proxy") && !strings.Contains(cookie.Name, "csrf") {
			found[cookie.Name] = cookie.Value
			if !cookie.Secure || !cookie.HTTPOnly {
				o.Errorf("the cookie %s can be read by others: %+v", cookie.Name, cookie)
			}
		}
	}
	return found
}

// refreshes: oauth2-proxy renews the session while it responds to Fairway, and the browser gets all of its cookies.
func (o *login) refreshes(parts int) {
	o.Helper()
	first := o.session()
	if len(first) != parts {
		o.Errorf("the session has %d cookies, not %d", len(first), parts)
	}
	for round := range 3 {
		what := fmt.Sprintf("the session is renewed for the %d. time", round+1)
		before := o.session()
		o.must(cluster.Eventually(o.Context(), promptly, what, func(ctx context.Context) (bool, string, error) {
			var status int
			if err := o.browser.Evaluate(ctx, "fetch('/again', {redirect: 'manual'}).then(r => r.status)", &status); err != nil {
				return false, "", err
			}
			if status != http.StatusOK {
				o.Fatalf("in the middle of a session the answer is %d", status)
			}
			now, other := o.session(), 0
			for name, value := range now {
				if before[name] != value {
					other++
				}
			}
			if other > 0 && (other != parts || len(now) != parts) {
				o.Fatalf("of a session of %d cookies %d were renewed, and there are %d now", parts, other, len(now))
			}
			return other > 0, fmt.Sprintf("status %d", status), nil
		}))
	}
	o.figure(fmt.Sprintf("renewed sessions of %d cookies", parts), 3, "", 0)
}

// keepsApart: where responses of oauth2-proxy are cached, a session admits no one else, and no one else ends a session.
func (o *login) keepsApart(name string) {
	o.Helper()
	// Each replica has several workers with separate caches.
	const connections = 40
	outside := func() {
		for range connections {
			answer, body, err := o.ask(o.Context(), "kept", "/")
			o.must(err)
			if answer.StatusCode != http.StatusFound {
				o.Errorf("who is not logged in gets %d: %.200s", answer.StatusCode, body)
				return
			}
		}
	}
	outside()
	for range 3 {
		o.must(o.browser.Open(o.Context(), "https://kept."+o.domain+"/"))
		o.awaitPage("what is guarded", "location.host === 'kept."+o.domain+"' && document.getElementById('guarded')")
		var got seen
		o.must(o.browser.Evaluate(o.Context(), "JSON.parse(document.getElementById('guarded').innerText)", &got))
		if got.User != name {
			o.Errorf("with the session of %s the backend got %+v", name, got)
		}
	}
	outside()
}

// logsOut ends the session at oauth2-proxy and at the provider: then the form is shown again.
func (o *login) logsOut() {
	o.Helper()
	end := "https%3A%2F%2Flogin." + o.domain + "%2Fsession%2Fend%3Fclient_id%3Dfairway%26post_logout_redirect_uri%3Dhttps%253A%252F%252Fapp." +
		o.domain + "%252F"
	o.must(o.browser.Open(o.Context(), "https://app."+o.domain+"/oauth2/sign_out?rd="+end))
	o.awaitPage("the question whether to log out", "document.getElementById('yes')")
	o.picture("logout")
	if left := o.session(); len(left) > 0 {
		o.Errorf("after the logout the browser still has %v", left)
	}
	o.must(o.browser.Evaluate(o.Context(), "setTimeout(() => document.getElementById('yes').click()); 0", nil))
	o.awaitPage("the form of the provider", "location.host === 'login."+o.domain+"' && document.getElementById('login')")
}

// renewal is --cookie-refresh.
const renewal = 3 * time.Second

// sessionOutlives: sessions continue while the provider is down or silent and a session is due for renewal.
func (o *login) sessionOutlives() {
	o.Helper()
	o.logsIn("app", "alice", deepLink, "session")
	for _, silent := range []bool{false, true} {
		if silent {
			o.must(o.provider.Process.Signal(syscall.SIGSTOP))
		} else {
			o.stopProvider()
		}
		slowest := time.Duration(0)
		for end := time.Now().Add(renewal + 2*time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			begun := time.Now()
			var status int
			o.must(o.browser.Evaluate(o.Context(), "fetch('/again', {redirect: 'manual'}).then(r => r.status)", &status))
			if status != http.StatusOK {
				o.Fatalf("while the provider is away, a session gets %d", status)
			}
			slowest = max(slowest, time.Since(begun))
		}
		if slowest > patience {
			o.Errorf("while the provider is away, a request of a session takes %s", slowest)
		}
		o.figure(fmt.Sprintf("slowest request of a session without the provider (silent: %t)", silent), float64(slowest.Milliseconds()), "ms", 0)
		o.stopProvider()
		o.startProvider()
		o.awaitProvider()
	}
}

// rolls: a restart of oauth2-proxy does not affect sessions.
func (o *login) rolls() {
	o.Helper()
	o.must(kube.Scale(o.Context(), o.namespace, "oauth2-proxy", 2))
	o.must(kube.AwaitSettled(o.Context(), o.namespace, "oauth2-proxy"))
	// The provider that was started again has forgotten all sessions.
	o.must(o.browser.Forget(o.Context()))
	o.logsIn("app", "alice", deepLink, "rolled")
	session := o.session()
	for _, host := range []string{"app", "shared"} {
		counts := o.during(host, session, func() {
			o.must(kube.Restart(o.Context(), o.namespace, "oauth2-proxy"))
			o.must(kube.AwaitSettled(o.Context(), o.namespace, "oauth2-proxy"))
		}, 1)
		o.Logf("while oauth2-proxy was restarted, %s answered %v", host, counts)
		o.figure("requests while oauth2-proxy was restarted, "+host, float64(counts["200"]), "", 0)
		if len(counts) != 1 || counts["200"] == 0 {
			o.Errorf("while oauth2-proxy was restarted, %s answered %v", host, counts)
		}
	}
}

// providerGone: the provider dies while its form is shown.
func (o *login) providerGone() {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.openGuarded("app", deepLink)
	o.stopProvider()
	o.fails("provider gone at its form", func() { o.fills("alice") }, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout)
	o.recovers()
}

// providerGoneBeforeTheToken: the provider dies before oauth2-proxy can redeem the code.
func (o *login) providerGoneBeforeTheToken() {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.openGuarded("app", deepLink)
	o.must(o.browser.Hold(o.Context(), "*/oauth2/callback*"))
	o.fills("alice")
	held, err := o.browser.AwaitHeld(o.Context())
	o.must(err)
	o.stopProvider()
	o.fails("provider gone before the token", func() { o.must(o.browser.ContinueRequest(o.Context(), held)) }, http.StatusInternalServerError)
	o.recovers()
}

// providerSilent: the provider accepts connections and does not respond.
func (o *login) providerSilent() {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.openGuarded("app", deepLink)
	o.must(o.provider.Process.Signal(syscall.SIGSTOP))
	o.fails("provider silent at its form", func() { o.fills("alice") }, http.StatusGatewayTimeout)
	o.stopProvider()
	o.recovers()
}

// guardGone: no request is admitted while oauth2-proxy is down, with a session or without.
func (o *login) guardGone() {
	o.Helper()
	o.logsIn("app", "alice", deepLink, "before")
	o.must(kube.Scale(o.Context(), o.namespace, "oauth2-proxy", 0))
	o.must(kube.AwaitSettled(o.Context(), o.namespace, "oauth2-proxy"))
	for _, host := range []string{"app", "shared"} {
		o.get(host, deepLink, http.StatusInternalServerError)
		o.markPage()
		o.fails("oauth2-proxy gone for "+host, func() { o.must(o.browser.Begin(o.Context(), "https://"+host+"."+o.domain+deepLink)) },
			http.StatusInternalServerError)
	}
	o.must(kube.Scale(o.Context(), o.namespace, "oauth2-proxy", 1))
	o.must(kube.AwaitSettled(o.Context(), o.namespace, "oauth2-proxy"))
	o.must(cluster.Eventually(o.Context(), promptly, "the session is good again", func(ctx context.Context) (bool, string, error) {
		if err := o.browser.Open(ctx, "https://app."+o.domain+deepLink); err != nil {
			return false, "", err
		}
		var shown bool
		err := o.browser.Evaluate(ctx, "!!document.getElementById('guarded')", &shown)
		return shown, "something else", err
	}))
}
