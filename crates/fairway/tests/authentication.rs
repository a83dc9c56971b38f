//! `fairway run` as a process: clients that pass by a password or by an external authentication service, and that no others do.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use fairway_testkit::{
    Authority, Backend, BackendResponse, Client, Fairway, RawResponse, RecordedRequest, Request,
};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
/// The authentication service, which responds according to the path.
const SERVICE: &str = "http://auth.login.svc.cluster.local:81";

/// A backend, an authentication service, and Ingresses in front of them.
struct Site {
    manifests: Manifests,
    backend: Backend,
    service: Backend,
}

impl Site {
    /// `guards`: host names without `.test`, and their annotations.
    async fn new(guards: &[(&str, &[(&str, &str)])]) -> Self {
        let backend = Backend::http(|_| BackendResponse::ok("inside")).await;
        let service = Backend::http(say).await;
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        manifests.put("web.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
        manifests.put("auth.yaml", service_with_endpoints("login", "auth", 81, &[service.address()]));
        manifests.put("settings.yaml", config_map("a", "settings", &[("proxy-read-timeout", "1")]));
        let site = Self { manifests, backend, service };
        guards.iter().for_each(|(name, annotations)| site.guard(name, annotations));
        site
    }

    fn guard(&self, name: &str, annotations: &[(&str, &str)]) {
        let ingress = Ingress::new("a", name).class(Some("fairway"));
        let ingress = annotations.iter().fold(ingress, |it, (name, value)| it.annotation(name, value));
        let ingress = ingress.route(&format!("{name}.test"), "/", ("web", 80));
        self.manifests.put(&format!("{name}.yaml"), ingress.yaml());
    }

    fn users(&self, file: &str) {
        let head = "apiVersion: v1\nkind: Secret\nmetadata: {name: users, namespace: a}\nstringData:\n";
        let lines: String = file.lines().map(|line| format!("    {line}\n")).collect();
        self.manifests.put("users.yaml", format!("{head}  auth: |\n{lines}"));
    }

    async fn run(&self) -> Fairway {
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &["--configmap", "a/settings"]).await
    }

    /// The last request that the backend received.
    fn last(&self) -> RecordedRequest {
        self.backend.requests().pop().unwrap()
    }
}

/// The response of the service: its path is the status.
fn say(request: &RecordedRequest) -> BackendResponse {
    let path = request.target.split('?').next().unwrap_or_default();
    match path.trim_start_matches('/') {
        "slow" => BackendResponse::Silence,
        "cut" => BackendResponse::ThenReset(b"HTTP/1.1 200 Half of".to_vec()),
        "garbage" => BackendResponse::Bytes(b"garbage\r\n\r\n".to_vec()),
        "user" => BackendResponse::with_headers(
            200,
            &[("X-User", "alice"), ("Set-Cookie", "s=1"), ("Set-Cookie", "t=2")],
            "",
        ),
        "oauth2/auth" if request.header("Cookie") == Some("_oauth2_proxy=good") => {
            BackendResponse::with_headers(202, &[("X-Auth-Request-User", "alice")], "")
        }
        "oauth2/auth" => BackendResponse::with_headers(401, &[("Set-Cookie", "csrf=1")], ""),
        status => match status.parse() {
            Ok(status @ 300..=399) => BackendResponse::with_headers(status, &[("Location", "/200")], ""),
            Ok(401) => {
                BackendResponse::with_headers(401, &[("WWW-Authenticate", "Bearer realm=\"x\"")], "no")
            }
            Ok(status) => BackendResponse::with_headers(status, &[("Set-Cookie", "s=1")], ""),
            Err(_) => BackendResponse::status(404, ""),
        },
    }
}

async fn send_request(fairway: &Fairway, request: &Request) -> RawResponse {
    Client::connect(fairway.http).await.unwrap().exchange(request).await.unwrap()
}

async fn get(fairway: &Fairway, name: &str) -> RawResponse {
    send_request(fairway, &Request::get(&format!("{name}.test"), "/p?q=1").close()).await
}

async fn log_in(fairway: &Fairway, name: &str, credentials: &str) -> RawResponse {
    let value = format!("Basic {}", STANDARD.encode(credentials));
    let request = Request::get(&format!("{name}.test"), "/p").header("Authorization", &value).close();
    send_request(fairway, &request).await
}

#[tokio::test]
async fn only_an_explicit_yes_of_the_service_admits_a_request() {
    let cases = [
        ("200", 200),
        ("204", 200),
        ("299", 200),
        ("401", 401),
        ("403", 403),
        ("304", 500),
        ("302", 500),
        ("400", 500),
        ("404", 500),
        ("429", 500),
        ("500", 500),
        ("503", 500),
        ("slow", 500),
        ("cut", 500),
        ("garbage", 500),
    ];
    let site = Site::new(&[]).await;
    for (path, _) in cases {
        site.guard(&format!("s{path}"), &[("auth-url", &format!("{SERVICE}/{path}"))]);
    }
    site.guard("port", &[("auth-url", "http://auth.login.svc:82/200")]);
    site.guard("absent", &[("auth-url", "http://absent.login.svc.invalid/200")]);
    site.guard("loopback", &[("auth-url", &format!("http://{}/200", site.service.address()))]);
    let fairway = site.run().await;
    for (path, expected) in cases {
        let before = site.backend.request_count();
        assert_eq!(get(&fairway, &format!("s{path}")).await.status, expected, "{path}");
        assert_eq!(site.backend.request_count() - before, usize::from(expected == 200), "{path}");
    }
    for name in ["port", "absent", "loopback"] {
        assert_eq!(get(&fairway, name).await.status, 500, "{name}");
    }
    let unauthorized = get(&fairway, "s401").await;
    assert_eq!(unauthorized.header_values("www-authenticate"), ["Bearer realm=\"x\""]);
    site.service.kill().await;
    assert_eq!(get(&fairway, "s200").await.status, 500, "the service is down");
    site.manifests.remove("auth.yaml");
    eventually("the Service is gone", WAIT_TIMEOUT, || async { get(&fairway, "s401").await.status == 500 })
        .await;
}

#[tokio::test]
async fn the_service_gets_the_request_and_the_backend_the_user() {
    let url = format!("{SERVICE}/user?from=$scheme://$http_host$request_uri");
    let site = Site::new(&[(
        "app",
        &[
            ("auth-url", &url),
            ("auth-method", "POST"),
            ("auth-response-headers", "X-User,X_Groups"),
            ("auth-request-redirect", "https://app.example/"),
            ("auth-proxy-set-headers", "a/asked"),
        ],
    )])
    .await;
    site.manifests
        .put("asked.yaml", config_map("a", "asked", &[("X-Uri", "$request_uri"), ("X-Fixed", "one two")]));
    let fairway = site.run().await;
    let request = Request::post("app.test", "/p?q=1", "body").header("Cookie", "c=1").close();
    let reply = send_request(&fairway, &request).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header_values("set-cookie"), ["s=1", "t=2"]);
    let auth_request = site.service.requests().pop().unwrap();
    assert_eq!((&*auth_request.method, &*auth_request.target), ("POST", "/user?from=http://app.test/p?q=1"));
    assert!(auth_request.body.is_empty());
    for (name, value) in [
        ("Host", "auth.login.svc.cluster.local"),
        ("Cookie", "c=1"),
        ("X-Original-URL", "http://app.test/p?q=1"),
        ("X-Original-URI", "/p?q=1"),
        ("X-Original-Method", "POST"),
        ("X-Auth-Request-Redirect", "https://app.example/"),
        ("X-Sent-From", "nginx-ingress-controller"),
        ("X-Forwarded-Host", "app.test"),
        ("X-Real-IP", "127.0.0.1"),
        ("X-Uri", "/p?q=1"),
        ("X-Fixed", "one two"),
    ] {
        assert_eq!(auth_request.header_values(name), [value], "{name}");
    }
    let received = site.last();
    assert_eq!((&*received.body, received.header_values("X-User")), (&b"body"[..], vec!["alice"]));
    assert!(received.header("X-Uri").is_none() && received.header("X-Sent-From").is_none());
}

#[tokio::test]
async fn no_spelling_of_a_copied_name_reaches_the_backend_from_the_client() {
    let url = format!("{SERVICE}/204");
    let headers = ("auth-response-headers", "X-User, X_Groups, Authorization");
    let any = [("auth-url", &*url), headers, ("satisfy", "any"), ("whitelist-source-range", "127.0.0.0/8")];
    let site = Site::new(&[("all", &[("auth-url", &url), headers]), ("any", &any)]).await;
    let fairway = site.run().await;
    let names = [
        "X-User",
        "x-user",
        "X_User",
        "X_USER",
        "X.User",
        "X-Groups",
        "X_Groups",
        "x-groups",
        "Authorization",
    ];
    for host in ["all.test", "any.test"] {
        let request = names.iter().fold(Request::get(host, "/"), |it, name| it.header(name, "mallory"));
        assert_eq!(send_request(&fairway, &request.close()).await.status, 200);
        let received = site.last();
        let smuggled: Vec<_> = received.headers.iter().filter(|(_, value)| value == "mallory").collect();
        assert!(smuggled.is_empty(), "{host}: {smuggled:?}");
        let chunked = format!(
            "POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nTrailer: X-User\r\n\r\n1\r\na\r\n0\r\nX-User: mallory\r\n\r\n"
        );
        let mut client = Client::connect(fairway.http).await.unwrap();
        client.send(chunked).await.unwrap();
        assert_eq!(client.read_response().await.unwrap().status, 200);
        let received = site.last();
        assert!(received.trailers.is_empty(), "{host}: {:?}", received.trailers);
    }
}

#[tokio::test]
async fn who_is_not_known_is_sent_to_the_page_with_the_cookies_of_the_service() {
    let (no, forbidden, yes) =
        (format!("{SERVICE}/oauth2/auth"), format!("{SERVICE}/403"), format!("{SERVICE}/user"));
    let page = ("auth-signin", "https://login.test/start?tenant=x");
    let always = ("auth-always-set-cookie", "true");
    let broken = ("proxy-connect-timeout", "1");
    let site = Site::new(&[
        ("page", &[("auth-url", &no), page, ("auth-signin-redirect-param", "back")]),
        ("plain", &[("auth-url", &no)]),
        ("always", &[("auth-url", &no), always]),
        ("forbidden", &[("auth-url", &forbidden), page]),
        ("yes", &[("auth-url", &yes), page, broken]),
    ])
    .await;
    let fairway = site.run().await;
    let sent = get(&fairway, "page").await;
    let location = "https://login.test/start?tenant=x&back=http://page.test%2Fp%3Fq%3D1";
    assert_eq!((sent.status, sent.header("location")), (302, Some(location)));
    assert_eq!(sent.header_values("set-cookie"), ["csrf=1"]);
    for (name, status, cookies) in [
        ("plain", 401, vec![]),
        ("always", 401, vec!["csrf=1"]),
        ("forbidden", 403, vec![]),
        ("yes", 200, vec!["s=1", "t=2"]),
    ] {
        let response = get(&fairway, name).await;
        assert_eq!((response.status, response.header_values("set-cookie")), (status, cookies), "{name}");
        assert_eq!(response.header("location"), None, "{name}");
    }
}

#[tokio::test]
async fn the_documented_setup_of_oauth2_proxy_works() {
    let external = [
        ("auth-url", "https://$host/oauth2/auth"),
        ("auth-signin", "https://$host/oauth2/start?rd=$escaped_request_uri"),
        ("auth-response-headers", "X-Auth-Request-User"),
    ];
    let internal =
        [("auth-url", "http://auth.login.svc.cluster.local:81/oauth2/auth"), external[1], external[2]];
    let site = Site::new(&[("app", &external), ("internal", &internal), ("lost", &external)]).await;
    // A separate Ingress without guards, in the namespace of the service.
    let proxy =
        Ingress::new("login", "proxy").class(Some("fairway")).route("app.test", "/oauth2", ("auth", 81));
    site.manifests.put("proxy.yaml", proxy.yaml());
    let fairway = site.run().await;
    for name in ["app", "internal"] {
        let sent = get(&fairway, name).await;
        let location = format!("https://{name}.test/oauth2/start?rd=%2Fp%3Fq%3D1");
        assert_eq!((sent.status, sent.header("location")), (302, Some(&*location)));
        let request = Request::get(&format!("{name}.test"), "/p").header("Cookie", "_oauth2_proxy=good");
        let request = request.header("X-Auth-Request-User", "mallory").close();
        assert_eq!(send_request(&fairway, &request).await.status, 200);
        assert_eq!(site.last().header_values("X-Auth-Request-User"), ["alice"]);
    }
    let requests = site.service.requests();
    let app_request = requests.iter().find(|it| it.header("Host") == Some("app.test")).unwrap();
    assert_eq!(app_request.header("X-Forwarded-Proto"), Some("https"));
    // The only rule for /oauth2 on this host is the guarded one: two rules must not wait for each other.
    assert_eq!(get(&fairway, "lost").await.status, 500);
    // The sign-in path itself is not guarded.
    let start = Request::get("app.test", "/oauth2/204").close();
    assert_eq!(send_request(&fairway, &start).await.status, 404, "the response of the auth service");
}

#[tokio::test]
async fn a_service_with_a_certificate_is_called_over_tls() {
    let leaf = Authority::new("any").leaf(&["auth.login.svc"]);
    let secure = Backend::https(leaf.server_config(&[]), say).await;
    let site = Site::new(&[("app", &[("auth-url", "https://auth.secure.svc/204")])]).await;
    site.guard("no", &[("auth-url", "https://auth.secure.svc/403")]);
    site.guard("clear", &[("auth-url", "https://auth.login.svc:81/204")]);
    site.manifests.put("secure.yaml", service_with_endpoints("secure", "auth", 443, &[secure.address()]));
    let fairway = site.run().await;
    assert_eq!(get(&fairway, "app").await.status, 200);
    assert_eq!(get(&fairway, "no").await.status, 403);
    assert_eq!(get(&fairway, "clear").await.status, 500, "the auth service does not speak TLS");
}

#[tokio::test]
async fn the_certificate_of_a_service_is_verified_if_its_ingress_says_so() {
    let (authority, another) = (Authority::new("login"), Authority::new("another"));
    let leaf = authority.leaf(&["auth.secure.svc"]);
    let secure = Backend::https(leaf.server_config(&[]), say).await;
    let (yes, no) =
        (("auth-url", "https://auth.secure.svc/204"), ("auth-url", "https://auth.secure.svc/403"));
    let (by_its_own, by_another) = (("proxy-ssl-secret", "a/login"), ("proxy-ssl-secret", "a/another"));
    let verified = ("proxy-ssl-verify", "on");
    let site = Site::new(&[
        ("good", &[yes, verified, by_its_own]),
        ("no", &[no, verified, by_its_own]),
        ("another", &[yes, verified, by_another]),
        ("named", &[yes, verified, by_its_own, ("proxy-ssl-name", "elsewhere.test")]),
        ("unasked", &[yes, by_another]),
        ("nothing", &[yes, verified]),
    ])
    .await;
    for (name, authority) in [("login", &authority), ("another", &another)] {
        let secret = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "a"},
            "stringData": {"ca.crt": authority.pem()},
        });
        site.manifests.put(&format!("{name}-authority.yaml"), secret.to_string());
    }
    site.manifests.put("secure.yaml", service_with_endpoints("secure", "auth", 443, &[secure.address()]));
    let fairway = site.run().await;
    for (name, status) in
        [("good", 200), ("no", 403), ("another", 500), ("named", 500), ("unasked", 200), ("nothing", 503)]
    {
        assert_eq!(get(&fairway, name).await.status, status, "{name}");
    }
}

const USERS: &str = "\
plain:{PLAIN}secret
sha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=
ssha:{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0
md5:$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1
apr:$apr1$r31.....$G/cElGhD0cboYkZN5h5Ne/
sha256:$5$rounds=1000$saltstring$AH5PD0i.riCRu4BNDy9v7OPV7u3dfLBApcXI6khquVA
sha512:$6$rounds=1000$saltstring$2BkAo106CG84raQcWpAlhyy6TSSkAsL1nfvBCoezLYyerUzY2l8axTvq6NynEt7SQAx3/cdop9ds0po8uaeHq0
bcrypt:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW
unknown:secret
des:sa3tHJ3/KuYvI
none:
slow:$2y$31$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
const BASIC: [(&str, &str); 2] = [("auth-type", "basic"), ("auth-secret", "users")];

#[tokio::test]
async fn a_password_lets_in_its_user_alone() {
    let site = Site::new(&[("app", &[BASIC[0], BASIC[1], ("auth-realm", "My Realm")])]).await;
    site.users(USERS);
    let fairway = site.run().await;
    for user in ["plain", "sha", "ssha", "md5", "apr", "sha256", "sha512", "bcrypt"] {
        // Twice: the second response comes from the cache.
        for _ in 0..2 {
            assert_eq!(log_in(&fairway, "app", &format!("{user}:secret")).await.status, 200, "{user}");
            assert_eq!(site.last().header("Authorization"), None, "the backend does not see the password");
        }
        for wrong in ["", "Secret", "secret ", "secre", &"x".repeat(2000)] {
            let refused = log_in(&fairway, "app", &format!("{user}:{wrong}")).await;
            assert_eq!(refused.status, 401, "{user}:{wrong}");
            assert_eq!(refused.header_values("www-authenticate"), ["Basic realm=\"My Realm\""]);
        }
    }
    for claim in
        ["unknown:secret", "des:secret", "none:", "slow:secret", "nobody:secret", ":secret", "plain", ""]
    {
        assert_eq!(log_in(&fairway, "app", claim).await.status, 401, "{claim}");
    }
    let twice = format!("Basic {}", STANDARD.encode("plain:secret"));
    let request =
        Request::get("app.test", "/").header("Authorization", &twice).header("authorization", "Bearer x");
    assert_eq!(
        send_request(&fairway, &request.close()).await.status,
        401,
        "two Authorization headers are ambiguous"
    );
    assert_eq!(get(&fairway, "app").await.status, 401);
}

#[tokio::test]
async fn changes_of_the_secret_apply_and_without_it_no_client_passes() {
    let site = Site::new(&[("app", &BASIC)]).await;
    let fairway = site.run().await;
    let status = async || log_in(&fairway, "app", "apr:secret").await.status;
    assert_eq!(status().await, 503, "the Secret does not exist");
    site.users(USERS);
    eventually("Fairway has read the Secret", WAIT_TIMEOUT, || async { status().await == 200 }).await;
    site.users("apr:$apr1$r31.....$4rOnWBjwHzEmGnLxh/ZgF/");
    eventually("the password has changed", WAIT_TIMEOUT, || async { status().await == 401 }).await;
    site.users(USERS);
    eventually("the original password is back", WAIT_TIMEOUT, || async { status().await == 200 }).await;
    site.users("other:{PLAIN}x");
    eventually("the user is deleted", WAIT_TIMEOUT, || async { status().await == 401 }).await;
    site.users("# nobody");
    eventually("the Secret is empty", WAIT_TIMEOUT, || async { status().await == 503 }).await;
}

#[tokio::test]
async fn both_guards_must_agree_unless_any_is_enough() {
    let (yes, no, broken) = (format!("{SERVICE}/204"), format!("{SERVICE}/403"), format!("{SERVICE}/500"));
    let both = |url| [BASIC[0], BASIC[1], ("auth-url", url)];
    let any = |url| [BASIC[0], BASIC[1], ("auth-url", url), ("satisfy", "any")];
    let listed = |name, range| [BASIC[0], BASIC[1], (name, range), ("satisfy", "any")];
    let site = Site::new(&[
        ("both-yes", &both(&yes)),
        ("both-no", &both(&no)),
        ("both-broken", &both(&broken)),
        ("any-yes", &any(&yes)),
        ("any-no", &any(&no)),
        ("any-broken", &any(&broken)),
        ("here", &listed("whitelist-source-range", "127.0.0.0/8")),
        ("elsewhere", &listed("whitelist-source-range", "10.0.0.0/8")),
        ("not-there", &listed("denylist-source-range", "10.0.0.0/8")),
        ("not-here", &listed("denylist-source-range", "127.0.0.0/8")),
        ("lists", &[("satisfy", "any"), ("whitelist-source-range", "10.0.0.0/8")]),
    ])
    .await;
    site.users(USERS);
    let fairway = site.run().await;
    for (name, without, wrong, right) in [
        ("both-yes", 401, 401, 200),
        ("both-no", 401, 401, 403),
        ("both-broken", 401, 401, 500),
        ("any-yes", 200, 200, 200),
        ("any-no", 401, 401, 200),
        ("any-broken", 500, 500, 200),
        ("here", 200, 200, 200),
        ("elsewhere", 401, 401, 200),
        ("not-there", 401, 401, 200),
        ("not-here", 401, 401, 200),
        ("lists", 403, 403, 403),
    ] {
        assert_eq!(get(&fairway, name).await.status, without, "{name} without a password");
        assert_eq!(log_in(&fairway, name, "plain:wrong").await.status, wrong, "{name} with a wrong password");
        assert_eq!(
            log_in(&fairway, name, "plain:secret").await.status,
            right,
            "{name} with the correct password"
        );
        assert!(
            site.backend.requests().iter().all(|it| name == "lists" || it.header("Authorization").is_none())
        );
    }
    let requests = site.service.requests();
    assert!(
        requests.iter().any(|it| it.header("Authorization").is_some()),
        "the service sees what the client sent"
    );
}

#[tokio::test]
async fn a_cached_response_is_used_until_the_annotations_change() {
    let service_url = |path: &str| format!("{SERVICE}/{path}");
    let (no, own, status, good) =
        (service_url("401"), service_url("user"), service_url("404"), service_url("oauth2/auth"));
    let key = ("auth-cache-key", "$http_authorization$cookie__oauth2_proxy");
    let site = Site::new(&[
        ("no", &[("auth-url", &no), key]),
        ("own", &[("auth-url", &own), key]),
        ("status", &[("auth-url", &status), key]),
        ("good", &[("auth-url", &good), key, ("auth-response-headers", "X-Auth-Request-User")]),
    ])
    .await;
    let flags = ["--configmap", "a/settings", "--workers", "1"];
    let fairway = Fairway::ready(Path::new(BINARY), site.manifests.path(), &flags).await;
    // A response with a cookie belongs to one client, and responses with 404 are not cached.
    for (name, questions, expected) in [("no", 1, 401), ("own", 3, 200), ("status", 3, 500), ("good", 1, 200)]
    {
        let before = site.service.requests().len();
        for _ in 0..3 {
            let request = Request::get(&format!("{name}.test"), "/p").header("Cookie", "_oauth2_proxy=good");
            assert_eq!(send_request(&fairway, &request.close()).await.status, expected, "{name}");
            let user = (name == "good").then_some("alice");
            assert!(user.is_none() || site.last().header("X-Auth-Request-User") == user);
        }
        assert_eq!(site.service.requests().len() - before, questions, "{name}");
    }
    assert_eq!(get(&fairway, "good").await.status, 401, "another key");
    site.guard("no", &[("auth-url", &own), key]);
    eventually("Fairway asks the auth service again", WAIT_TIMEOUT, || async {
        get(&fairway, "no").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn one_service_can_decide_for_all_ingresses_except_those_that_opt_out() {
    let service_url = format!("{SERVICE}/204");
    let site = Site::new(&[
        ("asked", &[]),
        ("own", &[("auth-url", &service_url)]),
        ("out", &[("enable-global-auth", "false")]),
        ("maybe", &[("enable-global-auth", "perhaps")]),
    ])
    .await;
    let solver = Ingress::new("a", "solver").class(Some("fairway"));
    site.manifests
        .put("solver.yaml", solver.route("asked.test", "/.well-known/acme-challenge/x", ("web", 80)).yaml());
    let settings = |url: &str| config_map("a", "settings", &[("global-auth-url", url)]);
    site.manifests.put("settings.yaml", settings(&format!("{SERVICE}/403")));
    let fairway = site.run().await;
    for (name, status) in [("asked", 403), ("own", 200), ("out", 200), ("maybe", 403)] {
        assert_eq!(get(&fairway, name).await.status, status, "{name}");
    }
    let challenge = Request::get("asked.test", "/.well-known/acme-challenge/x").close();
    assert_eq!(send_request(&fairway, &challenge).await.status, 200);
    site.manifests.put("settings.yaml", settings("http://auth.$host/"));
    eventually("the auth service is unavailable", WAIT_TIMEOUT, || async {
        get(&fairway, "asked").await.status == 503
    })
    .await;
    eventually("requests without authorization are refused", WAIT_TIMEOUT, || async {
        get(&fairway, "out").await.status == 503
    })
    .await;
    site.manifests.put("settings.yaml", settings(""));
    eventually("requests need no authorization", WAIT_TIMEOUT, || async {
        get(&fairway, "asked").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_flood_of_wrong_passwords_admits_no_one_and_delays_only_logins() {
    let site = Site::new(&[("app", &BASIC), ("open", &[])]).await;
    // Cost 12: a quarter of a second each.
    site.users("u:$2y$12$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\nplain:{PLAIN}secret");
    let fairway = site.run().await;
    let mut flood = Vec::new();
    for number in 0..120 {
        let mut client = Client::connect(fairway.http).await.unwrap();
        let value = format!("Basic {}", STANDARD.encode(format!("u:wrong{number}")));
        let request = Request::get("app.test", "/").header("Authorization", &value).close();
        client.send(request.bytes()).await.unwrap();
        flood.push(client);
    }
    // More requests wait than the queue can hold: those are refused at once, while the others still wait.
    // Which requests are refused depends on which worker is faster.
    let (refused, early) = refusal(&mut flood).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    for _ in 0..20 {
        assert_eq!(get(&fairway, "open").await.status, 200);
        assert_eq!(log_in(&fairway, "app", "plain:secret").await.status, 200, "nothing to wait for");
    }
    // This took less time than forty verifications, so passwords are not verified on the workers.
    assert!(early + decided(&mut flood).await < 40);
    // Verifications for clients that have left are dropped: the queue is empty soon after all have gone.
    drop(flood);
    eventually("the queue is empty", WAIT_TIMEOUT, || async {
        log_in(&fairway, "app", "u:wrong").await.status == 401
    })
    .await;
    assert_eq!(site.backend.request_count(), 40);
}

/// The refusal that one of these clients gets because the queue is full, and how many passwords had been verified by then.
async fn refusal(clients: &mut [Client]) -> (RawResponse, usize) {
    let (began, mut decided) = (std::time::Instant::now(), 0);
    while began.elapsed() < WAIT_TIMEOUT {
        for client in clients.iter_mut() {
            match answered(client).await {
                Some(answer) if answer.status == 503 => return (answer, decided),
                Some(_) => decided += 1,
                None => {}
            }
        }
    }
    panic!("none of {} was refused", clients.len());
}

/// The response that a client has received so far.
async fn answered(client: &mut Client) -> Option<RawResponse> {
    tokio::time::timeout(Duration::from_millis(1), client.read_response()).await.ok()?.ok()
}

/// How many of these clients have received a response about their password.
async fn decided(clients: &mut [Client]) -> usize {
    let mut decided = 0;
    for client in clients {
        decided += usize::from(answered(client).await.is_some_and(|answer| answer.status == 401));
    }
    decided
}
