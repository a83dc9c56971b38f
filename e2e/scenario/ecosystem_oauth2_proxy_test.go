package scenario

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"fairway/e2e/browser"
	"fairway/e2e/certificate"
	"fairway/e2e/cluster"
	"fairway/e2e/report"
)

//go:embed ecosystem/oauth2-proxy.yaml
var oauth2ProxyObjects string

// deepLink has what is lost when a part of the way decodes or encodes an address once too often.
const deepLink = "/deep/link?a=1&b=two%20words&c=%2Fpath%3Fx%3D1&d=%26&e=%C3%A4"

// A browser logs in to a guarded host through oauth2-proxy and a certified provider, which are all behind Fairway, and the provider
// and oauth2-proxy fail in the middle of it.
func TestEcosystemOAuth2ProxyGuardsAHost(t *testing.T) {
	begun := time.Now()
	o := newLogin(begin(t, "oauth2-proxy"))
	o.guards()
	o.logsIn("app", "alice", deepLink, "alice")
	o.hasSession("alice")
	o.talks("alice")
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

// login is the scenario with its parts.
type login struct {
	*stage
	domain    string
	authority *certificate.Authority
	browser   *browser.Browser
	provider  *exec.Cmd
	// folder has the configuration of the provider.
	folder string
	// stray counts requests without a user that reached what is guarded.
	stray atomic.Int64
}

func newLogin(s *stage) *login {
	s.Helper()
	o := &login{stage: s, domain: s.name + ".example"}
	var err error
	o.authority, err = certificate.NewAuthority()
	s.must(err)
	issued, err := o.authority.Issue("app."+o.domain, "shared."+o.domain, "kept."+o.domain, "auth."+o.domain, "login."+o.domain)
	s.must(err)
	s.must(kube.Grant(s.Context(), s.namespace, fairwayNamespace, fairwayName))
	s.must(kube.Secret(s.Context(), s.namespace, "web", issued.Certificate, issued.Key))
	s.Cleanup(func() { s.tellLog("oauth2-proxy") })
	node, err := kube.NodeAddress(s.Context())
	s.must(err)
	backend, provider := o.backend(node), o.prepareProvider(node)
	o.startProvider()
	s.Cleanup(func() { o.stopProvider() })
	words := strings.NewReplacer("@AUTHORITY@", indented(o.authority.PEM()), "@ADDRESS@", addresses[0].String(), "@DOMAIN@", o.domain,
		"@NAMESPACE@", s.namespace, "@IMAGE@", testbed.ProgramImage("oauth2-proxy"), "@SECRET@", clientSecret, "@NODE@", node.String(),
		"@PROVIDER@", fmt.Sprint(provider), "@BACKEND@", fmt.Sprint(backend))
	s.objects("oauth2-proxy", words.Replace(oauth2ProxyObjects))
	o.get("login", "/.well-known/openid-configuration", http.StatusOK)
	s.must(kube.AwaitSettled(s.Context(), s.namespace, "oauth2-proxy"))
	o.get("app", "/oauth2/auth", http.StatusUnauthorized)
	chromium, err := exec.LookPath("chromium")
	s.must(err)
	o.browser, err = browser.Start(s.Context(), browser.Options{
		Program: chromium, Resolve: "MAP *." + o.domain + " " + addresses[0].String(), Keys: fingerprint(s, issued.Certificate),
	})
	s.must(err)
	s.Cleanup(o.browser.Close)
	return o
}

// objects applies objects to the namespace of the scenario.
func (s *stage) objects(name, text string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), name+".yaml")
	s.must(os.WriteFile(file, []byte(text), 0o600))
	_, err := testbed.Kubectl(s.Context(), "apply", "--namespace", s.namespace, "-f", file)
	s.must(err)
}

// tellLog prints the log of a program when the scenario has failed.
func (s *stage) tellLog(program string) {
	if !s.Failed() {
		return
	}
	for _, previous := range []string{"--previous=true", "--previous=false"} {
		text, err := testbed.Kubectl(context.Background(), "logs", "-n", s.namespace, "-l", "app="+program, "--tail=40", previous)
		s.Logf("%s %s: %s (%v)", program, previous, text, err)
	}
}

func indented(text []byte) string {
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ")
}

// fingerprint is what Chromium compares a certificate with.
func fingerprint(s *stage, text []byte) string {
	block, _ := pem.Decode(text)
	parsed, err := x509.ParseCertificate(block.Bytes)
	s.must(err)
	sum := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// seen is what the guarded server says of a request.
type seen struct{ URI, User, Email, Groups string }

// backend is what is guarded: it answers with what it got, and lines of a WebSocket with them and the user.
func (o *login) backend(node netip.Addr) int {
	o.Helper()
	listener, err := net.Listen("tcp", cluster.Join(node, 0))
	o.must(err)
	talk := websocket.Server{Handler: func(conn *websocket.Conn) {
		email := conn.Request().Header.Get("X-Auth-Request-Email")
		for {
			var line string
			if websocket.Message.Receive(conn, &line) != nil || websocket.Message.Send(conn, email+": "+line) != nil {
				return
			}
		}
	}}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get
		if header("X-Auth-Request-User") == "" {
			o.stray.Add(1)
		}
		if r.URL.Path == "/talk" {
			talk.ServeHTTP(w, r)
			return
		}
		got := seen{r.RequestURI, header("X-Auth-Request-User"), header("X-Auth-Request-Email"), header("X-Auth-Request-Groups")}
		text, err := json.Marshal(got)
		if err != nil {
			o.Error(err)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>guarded</title><pre id=guarded style='white-space:pre-wrap;overflow-wrap:anywhere'>%s</pre>", text)
	})}
	go func() {
		if err := server.Serve(listener); err != http.ErrServerClosed {
			o.Error(err)
		}
	}()
	o.Cleanup(func() { _ = server.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

const clientSecret = "only-for-tests"

// prepareProvider writes the configuration of the provider and gives its port.
func (o *login) prepareProvider(node netip.Addr) int {
	o.Helper()
	free, err := net.Listen("tcp", cluster.Join(node, 0))
	o.must(err)
	port := free.Addr().(*net.TCPAddr).Port
	o.must(free.Close())
	var groups []string
	for number := range 130 {
		sum := sha256.Sum256([]byte{byte(number)})
		groups = append(groups, fmt.Sprintf("%x", sum[:12]))
	}
	account := func(name string, groups []string) map[string]any {
		return map[string]any{"email": name + "@" + o.domain, "email_verified": true, "groups": groups}
	}
	configuration := map[string]any{
		"issuer": "https://login." + o.domain, "address": node.String(), "port": port,
		"client": map[string]any{
			"client_id": "fairway", "client_secret": clientSecret, "response_types": []string{"code"},
			"grant_types":               []string{"authorization_code", "refresh_token"},
			"redirect_uris":             []string{"https://app." + o.domain + "/oauth2/callback", "https://auth." + o.domain + "/oauth2/callback"},
			"post_logout_redirect_uris": []string{"https://app." + o.domain + "/"},
		},
		"accounts": map[string]any{"alice": account("alice", []string{"staff"}), "bob": account("bob", groups)},
	}
	text, err := json.Marshal(configuration)
	o.must(err)
	o.folder = o.TempDir()
	o.must(os.WriteFile(filepath.Join(o.folder, "provider.json"), text, 0o600))
	return port
}

func (o *login) startProvider() {
	o.Helper()
	folder, err := testbed.ProgramFolder(o.Context(), "oidc-provider")
	o.must(err)
	log, err := os.OpenFile(filepath.Join(testbed.Results, "oidc-provider.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	o.must(err)
	defer log.Close()
	o.provider = exec.Command("node", filepath.Join(folder, "server.js"), filepath.Join(o.folder, "provider.json"))
	o.provider.Stdout, o.provider.Stderr = log, log
	o.must(o.provider.Start())
}

// stopProvider ends the provider as a crash does.
func (o *login) stopProvider() {
	if o.provider != nil {
		_ = o.provider.Process.Kill()
		_ = o.provider.Wait() // killed: it always says so
		o.provider = nil
	}
}

// get asks a host without any cookie until it answers with a status.
func (o *login) get(host, path string, status int) *http.Response {
	o.Helper()
	var last *http.Response
	what := fmt.Sprintf("https://%s.%s%s answers %d", host, o.domain, path, status)
	o.must(cluster.Eventually(o.Context(), promptly, what, func(ctx context.Context) (bool, string, error) {
		answer, body, err := o.ask(ctx, host, path)
		if err != nil {
			return false, "", err
		}
		last = answer
		return answer.StatusCode == status, fmt.Sprintf("%d %.300s", answer.StatusCode, body), nil
	}))
	return last
}

// client connects to a host through Fairway and follows no redirects.
func (o *login) client(host string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: o.authority.Client(host + "." + o.domain),
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, cluster.Join(addresses[0], 443))
			},
		},
		Timeout:       20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask asks a host once, on a connection of its own, without any cookie.
func (o *login) ask(ctx context.Context, host, path string) (*http.Response, []byte, error) {
	client := o.client(host)
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"."+o.domain+path, nil)
	if err != nil {
		return nil, nil, err
	}
	// A client that says who it is has to log in as well.
	request.Header.Set("X-Auth-Request-User", "eve")
	request.Header.Set("X-Auth-Request-Email", "eve@"+o.domain)
	answer, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, body, err
}

// guards: whoever is not logged in is sent to oauth2-proxy, with the address that was asked for.
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

// page waits until a script is true in the page.
func (o *login) page(what, script string) {
	o.Helper()
	o.must(cluster.Eventually(o.Context(), promptly, "the browser shows "+what, func(ctx context.Context) (bool, string, error) {
		var got struct {
			Right bool
			Place string
			Text  string
		}
		err := o.browser.Evaluate(ctx, "({Right: !!("+script+"), Place: location.href, Text: document.body ? document.body.innerText : ''})", &got)
		return got.Right && err == nil, fmt.Sprintf("%s: %.300s", got.Place, got.Text), err
	}))
}

func (o *login) picture(name string) {
	o.Helper()
	o.must(o.browser.Picture(o.Context(), filepath.Join(testbed.Results, "oauth2-proxy-"+name+".png")))
}

// asked opens a guarded address and waits for the form of the provider.
func (o *login) asked(host, path string) {
	o.Helper()
	o.must(o.browser.Open(o.Context(), "https://"+host+"."+o.domain+path))
	o.page("the form of the provider", "location.host === 'login."+o.domain+"' && document.getElementById('login')")
	o.left()
}

// left marks the page that is shown, so that it is not taken for the next one.
func (o *login) left() {
	o.Helper()
	o.must(o.browser.Evaluate(o.Context(), "void(document.before = true)", nil))
}

// fills fills in the form and sends it.
func (o *login) fills(name string) {
	o.Helper()
	o.must(o.browser.Evaluate(o.Context(), "document.getElementById('account').value = '"+name+"'; setTimeout(() => document.getElementById('login').click()); 0", nil))
}

// logsIn: who opens an address is asked by the provider once, and ends at that very address.
func (o *login) logsIn(host, name, path, picture string) {
	o.Helper()
	o.asked(host, path)
	o.picture("form")
	begun := time.Now()
	o.fills(name)
	o.page("what is guarded", "location.host === '"+host+"."+o.domain+"' && document.getElementById('guarded')")
	if picture == name {
		o.figure("from the form to the guarded page, "+name, float64(time.Since(begun).Milliseconds()), "ms", 0)
	}
	o.picture(picture)
	var got seen
	o.must(o.browser.Evaluate(o.Context(), "JSON.parse(document.getElementById('guarded').innerText)", &got))
	if got.URI != path || got.User != name || got.Email != name+"@"+o.domain || !strings.Contains(got.Groups, ",") == (name == "bob") {
		o.Errorf("after the login of %s at %s%s the backend got %+v", name, host, path, got)
	}
	var protocol string
	o.must(o.browser.Evaluate(o.Context(), "performance.getEntriesByType('navigation')[0].nextHopProtocol", &protocol))
	if protocol != "h2" {
		o.Errorf("the browser speaks %q, so that HTTP/2 and its split cookies are not tried", protocol)
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

// talks: a WebSocket passes with the session, and not without.
func (o *login) talks(name string) {
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

// refreshes: oauth2-proxy renews the session while it answers Fairway, and the browser gets every part of it.
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

// keepsApart: where answers of oauth2-proxy are kept, a session lets nobody else in, and nobody keeps a session out.
func (o *login) keepsApart(name string) {
	o.Helper()
	// Each replica has several workers, which keep answers of their own.
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
		o.page("what is guarded", "location.host === 'kept."+o.domain+"' && document.getElementById('guarded')")
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
	o.page("the question whether to log out", "document.getElementById('yes')")
	o.picture("logout")
	if left := o.session(); len(left) > 0 {
		o.Errorf("after the logout the browser still has %v", left)
	}
	o.must(o.browser.Evaluate(o.Context(), "setTimeout(() => document.getElementById('yes').click()); 0", nil))
	o.page("the form of the provider", "location.host === 'login."+o.domain+"' && document.getElementById('login')")
}

// renewal is --cookie-refresh.
const renewal = 3 * time.Second

// patience is what somebody in front of a browser has, on a machine that is busy; the Ingress of the provider waits for 3 s.
const patience = 12 * time.Second

// fails waits until the page has one of the statuses, and notes how long that took since an action.
func (o *login) fails(what string, action func(), statuses ...int) {
	o.Helper()
	begun := time.Now()
	action()
	var text strings.Builder
	for _, status := range statuses {
		fmt.Fprintf(&text, "|| performance.getEntriesByType('navigation')[0].responseStatus === %d ", status)
	}
	o.page("an error, "+what, "!document.before && document.readyState === 'complete' && (false "+text.String()+")")
	took := time.Since(begun)
	o.picture(strings.ReplaceAll(what, " ", "-"))
	o.figure("until the browser shows the error, "+what, float64(took.Milliseconds()), "ms", 0)
	if took > patience {
		o.Errorf("%s: the browser showed nothing for %s", what, took)
	}
	var shown string
	o.must(o.browser.Evaluate(o.Context(), "document.body.innerText", &shown))
	o.Logf("%s: after %s the page says: %.400s", what, took, shown)
	if strings.TrimSpace(shown) == "" {
		o.Errorf("%s: the page is empty", what)
	}
}

// recovers: a login succeeds as soon as the provider is back.
func (o *login) recovers() {
	o.Helper()
	o.startProvider()
	o.get("login", "/.well-known/openid-configuration", http.StatusOK)
	o.must(o.browser.Forget(o.Context()))
	o.logsIn("app", "alice", deepLink, "recovered")
	o.must(o.browser.Forget(o.Context()))
}

// sessionOutlives: who is logged in stays so while the provider is away, or takes requests and answers nothing, and the session is to be
// renewed.
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
		o.get("login", "/.well-known/openid-configuration", http.StatusOK)
	}
}

// rolls: nobody with a session notices that oauth2-proxy is restarted.
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
		})
		o.Logf("while oauth2-proxy was restarted, %s answered %v", host, counts)
		o.figure("requests while oauth2-proxy was restarted, "+host, float64(counts["200"]), "", 0)
		if len(counts) != 1 || counts["200"] == 0 {
			o.Errorf("while oauth2-proxy was restarted, %s answered %v", host, counts)
		}
	}
}

// during counts what clients with a session are answered while something happens. Chromium is none of them: it gives up requests when an
// interface of the node comes or goes, as those of pods do.
func (o *login) during(host string, session map[string]string, happens func()) map[string]int {
	o.Helper()
	const clients = 4
	target := "https://" + host + "." + o.domain + "/again"
	place, err := url.Parse(target)
	o.must(err)
	ctx, end := context.WithCancel(o.Context())
	var lock sync.Mutex
	counts := map[string]int{}
	var all sync.WaitGroup
	for range clients {
		jar, err := cookiejar.New(nil)
		o.must(err)
		for name, value := range session {
			jar.SetCookies(place, []*http.Cookie{{Name: name, Value: value, Domain: o.domain, Path: "/", Secure: true}})
		}
		client := o.client(host)
		client.Jar = jar
		all.Go(func() {
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				what := answerOf(client, target)
				lock.Lock()
				counts[what]++
				lock.Unlock()
			}
		})
	}
	happens()
	end()
	all.Wait()
	return counts
}

func answerOf(client *http.Client, target string) string {
	answer, err := client.Get(target)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer.StatusCode)
}

// providerGone: the provider dies while its form is shown.
func (o *login) providerGone() {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.asked("app", deepLink)
	o.stopProvider()
	o.fails("provider gone at its form", func() { o.fills("alice") }, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout)
	o.recovers()
}

// providerGoneBeforeTheToken: the provider dies before oauth2-proxy can redeem the code.
func (o *login) providerGoneBeforeTheToken() {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.asked("app", deepLink)
	o.must(o.browser.Hold(o.Context(), "*/oauth2/callback*"))
	o.fills("alice")
	held, err := o.browser.AwaitHeld(o.Context())
	o.must(err)
	o.stopProvider()
	o.fails("provider gone before the token", func() { o.must(o.browser.LetGo(o.Context(), held)) }, http.StatusInternalServerError)
	o.recovers()
}

// providerSilent: the provider takes connections and answers nothing.
func (o *login) providerSilent() {
	o.Helper()
	o.must(o.browser.Forget(o.Context()))
	o.asked("app", deepLink)
	o.must(o.provider.Process.Signal(syscall.SIGSTOP))
	o.fails("provider silent at its form", func() { o.fills("alice") }, http.StatusGatewayTimeout)
	o.stopProvider()
	o.recovers()
}

// guardGone: nobody gets in while oauth2-proxy is away, with a session or without.
func (o *login) guardGone() {
	o.Helper()
	o.logsIn("app", "alice", deepLink, "before")
	o.must(kube.Scale(o.Context(), o.namespace, "oauth2-proxy", 0))
	o.must(kube.AwaitSettled(o.Context(), o.namespace, "oauth2-proxy"))
	for _, host := range []string{"app", "shared"} {
		o.get(host, deepLink, http.StatusInternalServerError)
		o.left()
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
