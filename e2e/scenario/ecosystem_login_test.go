// A browser, a provider and a guarded server: shared by the scenarios with logins.

package scenario

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
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
	"time"

	"golang.org/x/net/websocket"

	"fairway/e2e/browser"
	"fairway/e2e/certificate"
	"fairway/e2e/cluster"
)

// deepLink has characters that are lost if an address is decoded or encoded once too often.
const deepLink = "/deep/link?a=1&b=two%20words&c=%2Fpath%3Fx%3D1&d=%26&e=%C3%A4"

// login is the scenario with its parts.
type login struct {
	*stage
	domain    string
	authority *certificate.Authority
	browser   *browser.Browser
	product   product
	provider  *exec.Cmd
	// folder has the configuration of the provider, and port is where it listens.
	folder string
	port   int
	// cookieDomain is that of the session, empty for cookies of one host.
	cookieDomain string
	// stray counts requests without a user at the guarded server.
	stray atomic.Int64
}

// product is a kind of provider, with a client `fairway` and an account `alice`.
type product struct {
	// path is that of its issuer.
	path string
	// patience is how long it takes to start.
	patience time.Duration
	// prepare writes its configuration into the folder.
	prepare func(o *login, node netip.Addr)
	// command starts it.
	command func(o *login) *exec.Cmd
	// form and yes are scripts for the buttons of its forms for a login and a logout, and fill fills in the first for NAME.
	form, fill, yes string
	// logout is the path of the page that asks whether to log out.
	logout string
}

// newLogin begins with a provider, a server that is to be guarded, a browser, and objects in whose text words are replaced.
func newLogin(s *stage, objects string, product product, words ...string) *login {
	s.Helper()
	o := &login{stage: s, domain: s.name + ".example", product: product}
	var err error
	o.authority, err = certificate.NewAuthority()
	s.must(err)
	issued, err := o.authority.Issue("app."+o.domain, "shared."+o.domain, "kept."+o.domain, "auth."+o.domain, "login."+o.domain)
	s.must(err)
	s.must(kube.Grant(s.Context(), s.namespace, fairwayNamespace, fairwayName))
	s.must(kube.Secret(s.Context(), s.namespace, "web", issued.Certificate, issued.Key))
	node, err := kube.NodeAddress(s.Context())
	s.must(err)
	backend := o.backend(node)
	o.port = o.freePort(node)
	o.folder = s.TempDir()
	product.prepare(o, node)
	o.startProvider()
	s.Cleanup(func() { o.stopProvider() })
	words = append(words, "@AUTHORITY@", indented(o.authority.PEM()), "@ADDRESS@", addresses[0].String(), "@DOMAIN@", o.domain, "@NAMESPACE@", s.namespace,
		"@SECRET@", clientSecret, "@NODE@", node.String(), "@PROVIDER@", fmt.Sprint(o.port), "@BACKEND@", fmt.Sprint(backend))
	s.objects("login", strings.NewReplacer(words...).Replace(objects))
	o.awaitProvider()
	o.browser = o.browse(issued.Certificate)
	return o
}

// browse starts a browser that takes a certificate for valid.
func (o *login) browse(certificate []byte) *browser.Browser {
	o.Helper()
	chromium, err := exec.LookPath("chromium")
	o.must(err)
	started, err := browser.Start(o.Context(), browser.Options{
		Program: chromium, Resolve: "MAP *." + o.domain + " " + addresses[0].String(), Keys: fingerprint(o.stage, certificate),
	})
	o.must(err)
	o.Cleanup(started.Close)
	return started
}

// objects applies objects to the namespace of the scenario.
func (s *stage) objects(name, text string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), name+".yaml")
	s.must(os.WriteFile(file, []byte(text), 0o600))
	_, err := testbed.Kubectl(s.Context(), "apply", "--namespace", s.namespace, "-f", file)
	s.must(err)
}

// printLogOnFailure prints the log of a program when the scenario has failed.
func (s *stage) printLogOnFailure(program string) {
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

// seen is the guarded server's description of a request.
type seen struct{ URI, User, Email, Groups string }

// backend is the guarded server: it describes requests, and responds to lines of a WebSocket with them and the user.
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

// freePort is an unused port of the node.
func (o *login) freePort(node netip.Addr) int {
	o.Helper()
	free, err := net.Listen("tcp", cluster.Join(node, 0))
	o.must(err)
	o.must(free.Close())
	return free.Addr().(*net.TCPAddr).Port
}

func (o *login) startProvider() {
	o.Helper()
	log, err := os.OpenFile(filepath.Join(testbed.Results, o.name+"-provider.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	o.must(err)
	defer log.Close()
	o.provider = o.product.command(o)
	o.provider.Stdout, o.provider.Stderr = log, log
	o.must(o.provider.Start())
}

// awaitProvider waits until the provider responds through Fairway.
func (o *login) awaitProvider() {
	o.Helper()
	for end := time.Now().Add(o.product.patience); ; time.Sleep(time.Second) {
		answer, _, err := o.ask(o.Context(), "login", o.product.path+"/.well-known/openid-configuration")
		if err == nil && answer.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			o.Fatalf("the provider does not answer after %s: %v %v", o.product.patience, answer, err)
		}
	}
}

// certified is the certified `oidc-provider` with these settings besides. It also has an account `bob` with many groups.
func certified(settings map[string]any) product {
	prepare := func(o *login, node netip.Addr) {
		var groups []string
		for number := range 130 {
			sum := sha256.Sum256([]byte{byte(number)})
			groups = append(groups, fmt.Sprintf("%x", sum[:12]))
		}
		account := func(name string, groups []string) map[string]any {
			return map[string]any{"email": name + "@" + o.domain, "email_verified": true, "groups": groups}
		}
		configuration := map[string]any{
			"issuer": "https://login." + o.domain, "address": node.String(), "port": o.port,
			"client": map[string]any{
				"client_id": "fairway", "client_secret": clientSecret, "response_types": []string{"code"},
				"grant_types":               []string{"authorization_code", "refresh_token"},
				"redirect_uris":             []string{"https://app." + o.domain + "/oauth2/callback", "https://auth." + o.domain + "/oauth2/callback"},
				"post_logout_redirect_uris": []string{"https://app." + o.domain + "/"},
			},
			"accounts": map[string]any{"alice": account("alice", []string{"staff"}), "bob": account("bob", groups)},
		}
		maps.Copy(configuration, settings)
		text, err := json.Marshal(configuration)
		o.must(err)
		o.must(os.WriteFile(filepath.Join(o.folder, "provider.json"), text, 0o600))
	}
	command := func(o *login) *exec.Cmd {
		folder, err := testbed.ProgramFolder(o.Context(), "oidc-provider")
		o.must(err)
		return exec.Command("node", filepath.Join(folder, "server.js"), filepath.Join(o.folder, "provider.json"))
	}
	return product{
		patience: promptly, prepare: prepare, command: command, form: "document.getElementById('login')",
		fill: "document.getElementById('account').value = 'NAME'", yes: "document.getElementById('yes')", logout: "/session/end",
	}
}

// stopProvider ends the provider as a crash does.
func (o *login) stopProvider() {
	if o.provider != nil {
		_ = o.provider.Process.Kill() // gone already, at worst
		_ = o.provider.Wait()         // killed: it always says so
		o.provider = nil
	}
}

// get requests a host without cookies until the status is the expected one.
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

// awaitPage waits until a script is true in the page.
func (o *login) awaitPage(what, script string) {
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
	o.must(o.browser.Picture(o.Context(), filepath.Join(testbed.Results, o.name+"-"+name+".png")))
}

// openGuarded opens a guarded address and waits for the form of the provider.
func (o *login) openGuarded(host, path string) {
	o.Helper()
	o.must(o.browser.Open(o.Context(), "https://"+host+"."+o.domain+path))
	o.awaitPage("the form of the provider", "location.host === 'login."+o.domain+"' && "+o.product.form)
	o.markPage()
}

// markPage marks the page that is shown, so that it is not taken for the next one.
func (o *login) markPage() {
	o.Helper()
	o.must(o.browser.Evaluate(o.Context(), "void(document.before = true)", nil))
}

// fills fills in the form and sends it.
func (o *login) fills(name string) {
	o.Helper()
	o.must(o.browser.Evaluate(o.Context(), strings.ReplaceAll(o.product.fill, "NAME", name)+"; setTimeout(() => "+o.product.form+".click()); 0", nil))
}

// logsIn: a user who opens an address logs in once, and returns to that address.
func (o *login) logsIn(host, name, path, picture string) {
	o.Helper()
	o.openGuarded(host, path)
	o.picture("form")
	begun := time.Now()
	o.fills(name)
	o.awaitPage("what is guarded", "location.host === '"+host+"."+o.domain+"' && document.getElementById('guarded')")
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
	o.awaitPage("an error, "+what, "!document.before && document.readyState === 'complete' && (false "+text.String()+")")
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

// during counts the responses to clients with a session during an event, until there are enough. Chromium is none of them: it
// aborts requests when an interface of the node appears or disappears, as those of pods do.
func (o *login) during(host string, session map[string]string, happens func(), atLeast int) map[string]int {
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
			jar.SetCookies(place, []*http.Cookie{{Name: name, Value: value, Domain: o.cookieDomain, Path: "/", Secure: true}})
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
	o.must(cluster.Eventually(o.Context(), 10*time.Minute, fmt.Sprintf("%d requests with a session are answered", atLeast),
		func(context.Context) (bool, string, error) {
			lock.Lock()
			defer lock.Unlock()
			answered := 0
			for _, count := range counts {
				answered += count
			}
			return answered >= atLeast, fmt.Sprint(counts), nil
		}))
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

// recovers: a login succeeds as soon as the provider is back.
func (o *login) recovers() {
	o.Helper()
	o.startProvider()
	o.awaitProvider()
	o.must(o.browser.Forget(o.Context()))
	o.logsIn("app", "alice", deepLink, "recovered")
	o.must(o.browser.Forget(o.Context()))
}
