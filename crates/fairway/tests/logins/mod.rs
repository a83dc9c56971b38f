//! `fairway run` as a process: users who log in with an OpenID provider, and attempts to get in without a login.

mod logout;
mod provider;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fairway_testkit::certificates::unverified_client_config;
use fairway_testkit::client::TlsOffer;
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::tokens::encode;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, RawResponse, Request};
use serde_json::{Value, json};

use self::provider::{Behaviour, CLIENT_SECRET, ISSUER, Provider, form, json_answer};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const HOST: &str = "shop.test";

/// A backend, a provider, and Ingresses in front of the backend that require a login.
struct Site {
    manifests: Manifests,
    backend: Backend,
    provider: Provider,
}

impl Site {
    async fn new() -> Self {
        let backend = Backend::http(|_| BackendResponse::ok("inside")).await;
        let provider = Provider::start().await;
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        manifests.put("web.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
        manifests
            .put("login.yaml", service_with_endpoints("auth", "login", 81, &[provider.backend.address()]));
        manifests.put(
            "secret.yaml",
            format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: oidc, namespace: a}}\nstringData: {{client-secret: {CLIENT_SECRET}}}\n"
            ),
        );
        let site = Self { manifests, backend, provider };
        site.guard("shop", &oidc());
        site
    }

    /// An Ingress for `NAME.test` that requires a login.
    fn guard(&self, name: &str, oidc: &Value) {
        let ingress = Ingress::new("a", name).class(Some("fairway"));
        let ingress = ingress.annotation("fairway.dev/oidc", &oidc.to_string());
        let ingress = ingress.annotation("nginx.ingress.kubernetes.io/ssl-redirect", "false");
        self.manifests
            .put(&format!("{name}.yaml"), ingress.route(&format!("{name}.test"), "/", ("web", 80)).yaml());
    }

    async fn run(&self) -> Fairway {
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &["--workers", "2"]).await
    }
}

fn oidc() -> Value {
    json!({
        "issuer": ISSUER, "clientId": "shop", "clientSecretRef": {"name": "oidc"}, "scopes": ["profile"],
        "claimsToHeaders": [{"claim": "sub", "header": "X-User"}],
    })
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut value = oidc();
    change(&mut value);
    value
}

/// A browser, with the cookies of one host.
struct Browser<'f> {
    fairway: &'f Fairway,
    host: &'static str,
    cookies: BTreeMap<String, String>,
}

/// A browser that was redirected to the provider.
struct SentAway {
    /// The parameters of the authorization request.
    request: BTreeMap<String, String>,
}

impl<'f> Browser<'f> {
    fn new(fairway: &'f Fairway) -> Self {
        Self { fairway, host: HOST, cookies: BTreeMap::new() }
    }

    /// Requests a page, as browsers do.
    async fn go(&mut self, target: &str) -> RawResponse {
        let request = self.request(target).header("Sec-Fetch-Mode", "navigate");
        self.send(request).await
    }

    fn request(&self, target: &str) -> Request {
        let request = Request::get(self.host, target).close();
        match self.cookies.is_empty() {
            true => request,
            false => request.header("Cookie", &self.cookie_line()),
        }
    }

    fn cookie_line(&self) -> String {
        let pairs: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("; ")
    }

    async fn send(&mut self, request: Request) -> RawResponse {
        let offer = TlsOffer::new(unverified_client_config(), self.host);
        let mut client = Client::connect_tls(self.fairway.https, &offer).await.unwrap();
        let response = client.exchange(&request).await.unwrap();
        for line in response.header_values("Set-Cookie") {
            assert!(line.contains("; Path=/; Secure; HttpOnly; SameSite=Lax"), "{line}");
            assert!(line.len() < 4096);
            let (name, rest) = line.split_once('=').unwrap();
            assert!(name.starts_with("__Host-"), "{line}");
            match rest.contains("Max-Age=0") {
                true => drop(self.cookies.remove(name)),
                false => {
                    let value = rest.split(';').next().unwrap();
                    self.cookies.insert(name.to_owned(), value.to_owned());
                }
            }
        }
        response
    }

    /// Requests a page that needs a login.
    async fn begin_login(&mut self, target: &str) -> SentAway {
        let response = self.go(target).await;
        assert_eq!(response.status, 302, "{}", response.text());
        let location = response.header("Location").unwrap();
        let query = location.strip_prefix("https://login.example.com/auth?").unwrap();
        SentAway { request: form(query.as_bytes()) }
    }

    /// Returns from the provider with a code.
    async fn come_back(&mut self, site: &Site, sent: &SentAway) -> RawResponse {
        let code = site.provider.code(&sent.request);
        self.go(&format!("/oauth2/callback?code={code}&state={}", sent.request["state"])).await
    }

    async fn log_in(&mut self, site: &Site, target: &str) -> RawResponse {
        let sent = self.begin_login(target).await;
        self.come_back(site, &sent).await
    }

    fn session_cookie(&self) -> Option<(&String, &String)> {
        self.cookies.iter().find(|(name, _)| name.starts_with("__Host-fairway-session-"))
    }
}

fn location(response: &RawResponse) -> &str {
    response.header("Location").unwrap_or_default()
}

#[tokio::test]
async fn a_user_logs_in_returns_to_the_page_and_logs_out() {
    let site = Site::new().await;
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    let sent = browser.begin_login("/cart?id=7&x=%2F").await;
    let expected = [
        ("client_id", "shop"),
        ("code_challenge_method", "S256"),
        ("redirect_uri", "https://shop.test/oauth2/callback"),
        ("response_type", "code"),
        ("scope", "openid profile"),
    ];
    for (name, value) in expected {
        assert_eq!(sent.request[name], value);
    }
    let back = browser.come_back(&site, &sent).await;
    assert_eq!(back.status, 302, "{}", back.text());
    assert_eq!(location(&back), "https://shop.test/cart?id=7&x=%2F");
    assert_eq!(browser.cookies.len(), 1, "the attempt is over: {:?}", browser.cookies.keys());
    for _ in 0..3 {
        let mallory = browser.request("/cart").header("X-User", "mallory").header("x_user", "mallory");
        assert_eq!(browser.send(mallory.header("Cookie", "a=b")).await.status, 200);
        let request = site.backend.requests().pop().unwrap();
        assert_eq!(request.header_values("X-User"), ["alice"]);
        assert_eq!(request.header("x_user"), None);
        assert_eq!(request.header_values("Cookie"), ["a=b"], "no endpoint gets the session");
        assert_eq!(request.header("Authorization"), None);
    }
    let out = browser.request("/oauth2/logout").header("Sec-Fetch-Site", "same-origin");
    let out = browser.send(out).await;
    assert_eq!(out.status, 302);
    let (end, query) = location(&out).split_once('?').unwrap();
    assert_eq!(end, "https://login.example.com/logout");
    let query = form(query.as_bytes());
    assert_eq!(query["post_logout_redirect_uri"], "https://shop.test/");
    assert!(query["id_token_hint"].starts_with("ey") && query["client_id"] == "shop");
    assert!(browser.cookies.is_empty());
    browser.begin_login("/cart").await;
    let behaviour = site.provider.behaviour.lock().unwrap();
    assert!(behaviour.problems.is_empty(), "{:?}", behaviour.problems);
}

#[tokio::test]
async fn sessions_are_refreshed_and_endpoints_get_the_access_token_if_configured() {
    let site = Site::new().await;
    site.guard("shop", &changed(|it| it["forwardAccessToken"] = true.into()));
    site.provider.change(|it| it.expires_in = 0);
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    assert_eq!(browser.log_in(&site, "/").await.status, 302);
    let before = browser.session_cookie().unwrap().1.clone();
    site.provider.change(|it| it.expires_in = 300);
    let spoofed = browser.request("/").header("Authorization", "Bearer mine");
    assert_eq!(browser.send(spoofed).await.status, 200);
    let request = site.backend.requests().pop().unwrap();
    assert_eq!(request.header_values("Authorization"), ["Bearer the-access-token"]);
    assert_ne!(browser.session_cookie().unwrap().1, &before, "the response sets the new session");
    for _ in 0..5 {
        assert_eq!(browser.go("/").await.status, 200);
    }
    assert_eq!(site.provider.behaviour.lock().unwrap().refreshes, 1);
}

/// Requests with the previous session share its refresh.
#[tokio::test]
async fn a_refresh_token_is_used_once_for_concurrent_requests() {
    let site = Site::new().await;
    site.provider.change(|it| it.expires_in = 0);
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    assert_eq!(browser.log_in(&site, "/").await.status, 302);
    site.provider.change(|it| it.expires_in = 300);
    let cookies = browser.cookies.clone();
    for _ in 0..10 {
        browser.cookies.clone_from(&cookies);
        assert_eq!(browser.go("/").await.status, 200);
    }
    assert_eq!(site.provider.behaviour.lock().unwrap().refreshes, 1);
}

/// Most providers return the same refresh token again; the second session is refreshed with it like the first one.
#[tokio::test]
async fn a_reusable_refresh_token_refreshes_again() {
    let site = Site::new().await;
    site.provider.change(|it| (it.expires_in, it.keeps_refresh_token) = (2, true));
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    assert_eq!(browser.log_in(&site, "/").await.status, 302);
    let browser = tokio::sync::Mutex::new(browser);
    eventually("the session is refreshed repeatedly", WAIT_TIMEOUT, || async {
        browser.lock().await.go("/").await;
        site.provider.behaviour.lock().unwrap().refreshes >= 2
    })
    .await;
}

#[tokio::test]
async fn an_unavailable_provider_ends_no_valid_session_and_starts_none() {
    let site = Site::new().await;
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    assert_eq!(browser.log_in(&site, "/").await.status, 302);
    let mut other = Browser::new(&fairway);
    let sent = other.begin_login("/").await;
    site.provider.backend.kill().await;
    assert_eq!(browser.go("/").await.status, 200);
    let response = other.come_back(&site, &sent).await;
    assert!(matches!(response.status, 502..=504), "{}", response.status);
    assert!(other.session_cookie().is_none());
}

#[tokio::test]
async fn requests_other_than_navigations_get_401_without_a_redirect() {
    let site = Site::new().await;
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    let get = || Request::get(HOST, "/api").close();
    for request in [
        get().header("Sec-Fetch-Mode", "cors"),
        get().header("Sec-Fetch-Mode", "no-cors"),
        get().header("X-Requested-With", "XMLHttpRequest"),
        get().header("Accept", "application/json"),
        Request::post(HOST, "/api", "a=b").header("Sec-Fetch-Mode", "navigate").close(),
        Request::head(HOST, "/api").close(),
    ] {
        let response = browser.send(request.clone()).await;
        assert_eq!(response.status, 401, "{request:?}");
        assert!(response.header("WWW-Authenticate").is_some() && response.header("Location").is_none());
    }
    let call = Request::post(HOST, "/a.B/C", "\0\0\0\0\0")
        .header("Content-Type", "application/grpc")
        .header("TE", "trailers")
        .close();
    assert_eq!(browser.send(call).await.header("grpc-status"), Some("16"));
    for accept in ["text/html,application/xhtml+xml", "*/*"] {
        assert_eq!(browser.send(get().header("Accept", accept)).await.status, 302, "{accept}");
    }
    let plain = Client::connect(fairway.http).await.unwrap().exchange(&get()).await.unwrap();
    assert_eq!(plain.status, 403, "anyone on the path could take the session");
}

/// A modified browser or request, and the expected response.
#[tokio::test]
async fn callbacks_without_a_login_of_this_browser_start_no_session() {
    let site = Site::new().await;
    let fairway = site.run().await;
    let mut mallory = Browser::new(&fairway);
    let hers = mallory.begin_login("/").await;
    let her_code = site.provider.code(&hers.request);
    let her_state = &hers.request["state"];
    let mut victim = Browser::new(&fairway);
    let sent = victim.begin_login("/").await;
    let state = &sent.request["state"];
    let attacks = [
        ("her code and state", format!("code={her_code}&state={her_state}"), 400),
        ("no state", "code=a".to_owned(), 400),
        ("an empty state", "code=a&state=".to_owned(), 400),
        ("a state twice", format!("code=a&state={state}&state={her_state}"), 400),
        ("two codes", format!("code=a&code=b&state={state}"), 400),
        ("code and error", format!("code=a&error=access_denied&state={state}"), 400),
        ("no code", format!("state={state}"), 400),
        ("a code with a line break", format!("code=a%0d%0aX&state={state}"), 400),
        ("half of the state", format!("code=a&state={}", &state[..11]), 400),
        ("the state and more", format!("code=a&state={state}a"), 400),
        ("the name of the attempt alone", format!("code=a&state={}{}", &state[..8], "A".repeat(14)), 400),
        ("another issuer", format!("code=a&state={state}&iss=https%3A%2F%2Fevil.example"), 400),
        ("an empty issuer", format!("code=a&state={state}&iss="), 400),
        ("an unknown code", format!("code=guess&state={state}"), 502),
        ("an error of the provider", format!("error=server_error&state={state}"), 502),
        ("a refusal", format!("error=access_denied&state={state}"), 403),
        ("an error for nobody", "error=access_denied&state=AAAAAAAAAAAAAAAAAAAAAA".to_owned(), 400),
        ("nothing", String::new(), 400),
        ("a long query", format!("code={}&state={state}", "a".repeat(6000)), 400),
        ("her code with the victim's state", format!("code={her_code}&state={state}"), 502),
    ];
    for (attack, query, status) in attacks {
        let response = victim.go(&format!("/oauth2/callback?{query}")).await;
        assert_eq!(response.status, status, "{attack}: {}", response.text());
        assert!(victim.session_cookie().is_none(), "{attack}");
    }
    let post = Request::post(HOST, "/oauth2/callback", "").header("Cookie", &victim.cookie_line()).close();
    assert_eq!(victim.send(post).await.status, 400);
    let victim_cookies = victim.cookies.clone();
    assert_eq!(victim.come_back(&site, &sent).await.status, 302, "the login still succeeds");
    let mut replay = Browser { cookies: victim_cookies, ..Browser::new(&fairway) };
    let response = replay.go(&format!("/oauth2/callback?code=code-1&state={state}")).await;
    assert_eq!(response.status, 502, "the code is already used");
    assert!(replay.session_cookie().is_none());
    let again = victim.go(&format!("/oauth2/callback?code=code-1&state={state}")).await;
    assert_eq!(again.status, 400, "the attempt is over");
}

#[tokio::test]
async fn tokens_that_the_provider_did_not_give_for_this_login_begin_no_session() {
    let site = Site::new().await;
    let fairway = site.run().await;
    type Change = fn(&mut Behaviour);
    let attacks: [(&str, Change, u16); 20] = [
        ("another nonce", |it| it.claims = |claims| claims["nonce"] = "AAAAAAAAAAAAAAAAAAAAAA".into(), 403),
        ("no nonce", |it| it.claims = |claims| drop(claims.as_object_mut().unwrap().remove("nonce")), 403),
        ("another issuer", |it| it.claims = |claims| claims["iss"] = "https://evil.example".into(), 403),
        ("no issuer", |it| it.claims = |claims| drop(claims.as_object_mut().unwrap().remove("iss")), 403),
        ("another client", |it| it.claims = |claims| claims["aud"] = "other".into(), 403),
        ("two clients", |it| it.claims = |claims| claims["aud"] = json!(["shop", "other"]), 403),
        ("for us by another", |it| it.claims = |claims| claims["azp"] = "other".into(), 403),
        ("no audience", |it| it.claims = |claims| drop(claims.as_object_mut().unwrap().remove("aud")), 403),
        ("expired", |it| it.claims = |claims| claims["exp"] = 1_000_000_000.into(), 403),
        ("no expiry", |it| it.claims = |claims| drop(claims.as_object_mut().unwrap().remove("exp")), 403),
        ("not valid yet", |it| it.claims = |claims| claims["nbf"] = 9_000_000_000_u64.into(), 403),
        ("nobody", |it| it.claims = |claims| drop(claims.as_object_mut().unwrap().remove("sub")), 403),
        ("an empty user", |it| it.claims = |claims| claims["sub"] = "".into(), 403),
        (
            "a wrong signature",
            |it| {
                it.id_token = |token| {
                    let (message, _) = token.rsplit_once('.').unwrap();
                    format!("{message}.{}", encode("signature"))
                }
            },
            403,
        ),
        (
            "no signature",
            |it| {
                it.id_token = |token| {
                    let payload = token.split('.').nth(1).unwrap();
                    format!("{}.{payload}.", encode(r#"{"alg":"none"}"#))
                }
            },
            403,
        ),
        ("no token", |it| it.id_token = |_| "a.b.c".to_owned(), 403),
        (
            "another kind of access token",
            |it| {
                it.tokens = Some(|tokens| {
                    let mut tokens = tokens.clone();
                    tokens["token_type"] = "DPoP".into();
                    json_answer(200, &tokens)
                });
            },
            502,
        ),
        (
            "no ID token",
            |it| {
                it.tokens = Some(|tokens| {
                    let mut tokens = tokens.clone();
                    tokens.as_object_mut().unwrap().remove("id_token");
                    json_answer(200, &tokens)
                });
            },
            502,
        ),
        (
            "a redirect",
            |it| {
                it.tokens = Some(|_| {
                    BackendResponse::with_headers(302, &[("Location", "https://evil.example/")], "")
                });
            },
            502,
        ),
        ("a flood", |it| it.tokens = Some(|_| BackendResponse::ok("a".repeat(1 << 20))), 503),
    ];
    for (attack, change, status) in attacks {
        site.provider.change(|it| {
            it.claims = |_| {};
            it.id_token = |token| token;
            it.tokens = None;
            change(it);
        });
        let mut browser = Browser::new(&fairway);
        let response = browser.log_in(&site, "/").await;
        assert_eq!(response.status, status, "{attack}: {}", response.text());
        assert!(browser.session_cookie().is_none(), "{attack}");
        assert_eq!(browser.go("/").await.status, 302, "{attack}");
    }
    assert_eq!(site.backend.request_count(), 0);
}

#[tokio::test]
async fn cookies_of_others_are_no_sessions() {
    let site = Site::new().await;
    site.guard("other", &oidc());
    site.guard("members", &changed(|it| it["clientId"] = "members".into()));
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    assert_eq!(browser.log_in(&site, "/").await.status, 302);
    let (name, value) = browser.session_cookie().map(|(name, value)| (name.clone(), value.clone())).unwrap();
    let mut started = Browser::new(&fairway);
    started.begin_login("/").await;
    let attempt = started.cookies.values().next().unwrap().clone();
    let middle = value.len() / 2;
    let flipped = if value.as_bytes()[middle] == b'A' { "B" } else { "A" };
    let flipped = format!("{}{flipped}{}", &value[..middle], &value[middle + 1..]);
    for (attack, line) in [
        ("cut", format!("{name}={}", &value[..value.len() - 4])),
        ("one character less", format!("{name}={}", &value[..value.len() - 1])),
        ("changed", format!("{name}={flipped}")),
        ("longer", format!("{name}={value}AAAA")),
        ("twice", format!("{name}={value}; {name}={value}")),
        ("of a login that has begun", format!("{name}={attempt}")),
        ("without the number of parts", format!("{name}={}", &value[2..])),
        ("with a part too many", format!("{name}=2{}", &value[1..])),
        ("empty", format!("{name}=")),
        ("of no base64", format!("{name}=1.!!!!")),
        ("of another name", format!("{}0={value}", &name[..name.len() - 1])),
        ("another's", format!("{name}=1.{}", encode(vec![7; 200]))),
    ] {
        let request = Request::get(HOST, "/").header("Cookie", &line).close();
        let response = Browser::new(&fairway).send(request).await;
        assert_eq!(response.status, 302, "{attack}");
    }
    for host in ["other.test", "members.test"] {
        let mut elsewhere = Browser { host, cookies: browser.cookies.clone(), ..Browser::new(&fairway) };
        assert_eq!(elsewhere.go("/").await.status, 302, "a session of {HOST} at {host}");
        // The name differs for another client.
        let suffix =
            elsewhere.cookies.keys().find_map(|name| name.strip_prefix("__Host-fairway-login-")).unwrap();
        let line = format!("__Host-fairway-session-{}={value}", &suffix[..8]);
        let request = Request::get(host, "/").header("Cookie", &line).close();
        assert_eq!(elsewhere.send(request).await.status, 302, "{host}");
    }
    assert_eq!(site.backend.request_count(), 0);
    assert_eq!(browser.go("/").await.status, 200, "the session is still valid");
}

#[tokio::test]
async fn logins_return_to_the_same_host_only() {
    let site = Site::new().await;
    let fairway = site.run().await;
    let origin = "https://shop.test";
    for target in [
        "//evil.test/",
        "/\\evil.test",
        "/%2f%2fevil.test",
        "/.evil.test",
        "/?rd=https://evil.test/",
        "/@evil.test",
    ] {
        let mut browser = Browser::new(&fairway);
        let response = browser.log_in(&site, target).await;
        assert_eq!(response.status, 302, "{target}");
        let rest =
            location(&response).strip_prefix(origin).unwrap_or_else(|| panic!("{}", location(&response)));
        assert!(rest.starts_with('/'), "{rest}");
    }
    let mut browser = Browser::new(&fairway);
    let long = format!("/{}", "a".repeat(3000));
    let response = browser.log_in(&site, &long).await;
    assert_eq!(location(&response), format!("{origin}/"), "a URL that is too long is dropped");
}

#[tokio::test]
async fn claims_decide_which_users_pass() {
    let site = Site::new().await;
    let needs =
        |group: &str| changed(|it| it["requiredClaims"] = json!([{"name": "groups", "values": [group]}]));
    site.guard("shop", &needs("staff"));
    site.guard("admins", &needs("admin"));
    let fairway = site.run().await;
    assert_eq!(Browser::new(&fairway).log_in(&site, "/").await.status, 302);
    let mut browser = Browser { host: "admins.test", ..Browser::new(&fairway) };
    assert_eq!(browser.log_in(&site, "/").await.status, 403);
    assert!(browser.session_cookie().is_none());
}

#[tokio::test]
async fn a_refresh_for_another_user_is_refused() {
    let site = Site::new().await;
    site.provider.change(|it| it.expires_in = 0);
    let fairway = site.run().await;
    let mut browser = Browser::new(&fairway);
    assert_eq!(browser.log_in(&site, "/").await.status, 302);
    site.provider.change(|it| it.claims = |claims| claims["sub"] = "mallory".into());
    assert_eq!(browser.go("/").await.status, 302, "the user logs in again");
    assert_eq!(site.backend.request_count(), 0);
}

#[tokio::test]
async fn metadata_of_another_issuer_closes_the_paths_with_a_log_message() {
    let site = Site::new().await;
    site.provider.change(|it| it.metadata["token_endpoint"] = "http://metadata.internal/token".into());
    let fairway = site.run().await;
    assert_eq!(Browser::new(&fairway).go("/").await.status, 503);
    let line = fairway.line_with("OpenID provider").await;
    assert!(line.contains("additionalHosts") && line.contains("metadata.internal"), "{line}");
}

#[tokio::test]
async fn secrets_are_never_shown_and_an_unreadable_annotation_closes_only_its_paths() {
    let site = Site::new().await;
    for (name, value) in [
        ("missing", changed(|it| it["clientSecretRef"]["name"] = "gone".into())),
        ("nobody", changed(|it| it["clientId"] = "".into())),
        ("outside", changed(|it| it["issuer"] = "http://login.example.com".into())),
        ("unknown", changed(|it| it["unknown"] = true.into())),
        ("paths", changed(|it| it["callbackPath"] = "/a/../b".into())),
        ("taken", changed(|it| it["parameters"] = json!([{"name": "state", "value": "a"}]))),
        ("forever", changed(|it| it["sessionLifetime"] = "9000h".into())),
    ] {
        site.guard(name, &value);
    }
    let fairway = site.run().await;
    for host in [
        "missing.test",
        "nobody.test",
        "outside.test",
        "unknown.test",
        "paths.test",
        "taken.test",
        "forever.test",
    ] {
        let mut browser = Browser { host, ..Browser::new(&fairway) };
        assert_eq!(browser.go("/").await.status, 503, "{host}");
    }
    let mut browser = Browser::new(&fairway);
    assert_eq!(browser.log_in(&site, "/").await.status, 302);
    assert_eq!(browser.go("/").await.status, 200);
    let config = fairway.admin("/config").await.unwrap().text();
    let shown = format!("{config}{}", fairway.lines().join("\n"));
    assert!(shown.contains(ISSUER), "the configuration is shown");
    for secret in [CLIENT_SECRET, "the-access-token", "refresh-0", &**browser.session_cookie().unwrap().1] {
        assert!(!shown.contains(secret), "{secret}");
    }
}

/// A login takes as long as the user wants, and its requests reach different workers.
#[tokio::test]
async fn many_users_can_log_in_concurrently() {
    let site = Site::new().await;
    let fairway = site.run().await;
    let logins = (0..20).map(|number| {
        let (site, fairway) = (&site, &fairway);
        async move {
            let mut browser = Browser::new(fairway);
            let response = browser.log_in(site, &format!("/{number}")).await;
            assert!(location(&response).ends_with(&format!("/{number}")), "{}", response.text());
            assert_eq!(browser.go("/").await.status, 200);
        }
    });
    let all = futures_util::future::join_all(logins);
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
}
