//! `fairway run` as a process: the effects of HTTPRouteFilters on the rules that refer to them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use fairway_testkit::certificates::{Authority, tls_secret_yaml, unverified_client_config};
use fairway_testkit::client::TlsOffer;
use fairway_testkit::manifests::{Manifests, service_with_endpoints};
use fairway_testkit::mmdb::{Mmdb, country};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually, free_port};
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, RawResponse, Request};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// A Gateway with an HTTPRoute that has a rule for each filter, `/NAME` for the filter `NAME`, and one without a filter.
struct Site {
    manifests: Manifests,
    backend: Backend,
    gateway: SocketAddr,
}

impl Site {
    async fn new(filters: &[&str]) -> Self {
        let backend = Backend::http(|_| {
            BackendResponse::with_headers(200, &[("X-Internal", "yes")], "from the backend")
        })
        .await;
        let (manifests, port) = (Manifests::new(), free_port());
        manifests.put("web.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
        manifests.put("gateway.yaml", format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: fairway}}\n\
             spec: {{controllerName: fairway.dev/gateway-controller}}\n---\n\
             apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge, namespace: a}}\n\
             spec:\n  gatewayClassName: fairway\n  listeners:\n  - {{name: http, port: {port}, protocol: HTTP}}\n"
        ));
        let rule = |name: &&str| {
            format!(
                "  - matches: [{{path: {{value: /{name}}}}}]\n    backendRefs: [{{name: web, port: 80}}]\n    \
                 filters: [{{type: ExtensionRef, extensionRef: {{group: fairway.dev, kind: HTTPRouteFilter, name: {name}}}}}]\n"
            )
        };
        let rules: String = filters.iter().map(rule).collect();
        manifests.put(
            "route.yaml",
            format!(
                "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: web, namespace: a}}\n\
                 spec:\n  parentRefs: [{{name: edge}}]\n  rules:\n{rules}  - backendRefs: [{{name: web, port: 80}}]\n"
            ),
        );
        Self { manifests, backend, gateway: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// The filter with this name; `spec` is indented by two.
    fn filter(&self, name: &str, spec: &str) {
        let filter = format!(
            "apiVersion: fairway.dev/v1alpha1\nkind: HTTPRouteFilter\nmetadata: {{name: {name}, namespace: a}}\n\
             spec:\n{spec}"
        );
        self.manifests.put(&format!("filter-{name}.yaml"), filter);
    }

    /// With two workers, the second may still serve the old configuration when the first one has adopted a change.
    async fn run(&self) -> Fairway {
        self.run_with(&[]).await
    }

    async fn run_with(&self, additional: &[&str]) -> Fairway {
        let flags = [&["--gateway-address", "127.0.0.1", "--workers", "1"], additional].concat();
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &flags).await
    }

    async fn send_request(&self, path: &str, headers: &[(&str, &str)]) -> RawResponse {
        let request = Request::get("a.test", path).close();
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        Client::connect(self.gateway).await.unwrap().exchange(&request).await.unwrap()
    }
}

#[tokio::test]
async fn headers_have_parts_of_the_request_and_the_backend_cannot_undo_them() {
    let site = Site::new(&["headers"]).await;
    site.filter(
        "headers",
        "  requestHeaders:\n    set:\n    - {name: X-Client, value: \"{client.address}\"}\n    \
         - {name: X-From, value: \"{request.method} {request.host}{request.path} {{{header.x-user}}}\"}\n    \
         - {name: X-Absent, value: \"{cookie.none}\"}\n    add: [{name: X-Tag, value: edge}]\n    remove: [X-Secret]\n  \
         responseHeaders:\n    set: [{name: X-Echo, value: \"{query.q}\"}]\n    remove: [X-Internal]\n",
    );
    let _fairway = site.run().await;
    let sent =
        [("X-User", "a"), ("X-Secret", "b"), ("X-Tag", "c"), ("X-Client", "forged"), ("X-Absent", "d")];
    let response = site.send_request("/headers/%0d%0aX-Evil:%201?q=7", &sent).await;
    assert_eq!(
        (response.status, response.header("X-Echo"), response.header("X-Internal")),
        (200, Some("7"), None)
    );
    let received = site.backend.requests().pop().unwrap();
    assert_eq!(received.header("X-Client"), Some("127.0.0.1"));
    assert_eq!(
        received.header("X-From"),
        Some("GET a.test/headers/  X-Evil: 1 {a}"),
        "line breaks are spaces"
    );
    assert_eq!(
        [received.header("X-Secret"), received.header("X-Absent"), received.header("X-Evil")],
        [None; 3]
    );
    let tags: Vec<_> =
        received.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("X-Tag")).collect();
    assert_eq!(tags.len(), 2, "{tags:?}");
    site.send_request("/", &sent).await;
    let other = site.backend.requests().pop().unwrap();
    assert_eq!(other.header("X-Client"), Some("forged"), "a rule without the filter changes nothing");
}

#[tokio::test]
async fn headers_contain_the_requested_server_name() {
    let site = Site::new(&["named"]).await;
    let port = free_port();
    let leaf = Authority::new("edge").leaf(&["*.test"]);
    site.manifests.put("secret.yaml", tls_secret_yaml("a", "edge", &leaf.chain_pem, &leaf.key_pem));
    site.manifests.put(
        "tls.yaml",
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: secure, namespace: a}}\n\
             spec:\n  gatewayClassName: fairway\n  listeners:\n  - name: https\n    port: {port}\n    protocol: HTTPS\n    \
             tls: {{certificateRefs: [{{name: edge}}]}}\n---\n\
             apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: secure, namespace: a}}\n\
             spec:\n  parentRefs: [{{name: secure}}, {{name: edge}}]\n  hostnames: [a.test]\n  rules:\n  \
             - backendRefs: [{{name: web, port: 80}}]\n    filters: [{{type: ExtensionRef, \
             extensionRef: {{group: fairway.dev, kind: HTTPRouteFilter, name: named}}}}]\n"
        ),
    );
    site.filter("named", "  requestHeaders: {set: [{name: X-Name, value: \"{tls.sni}\"}]}\n");
    let _fairway = site.run().await;
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let header_at = |backend: &Backend| backend.requests().pop().unwrap().header("X-Name").map(str::to_owned);
    let forged = || Request::get("a.test", "/").header("X-Name", "forged");
    let offers = [
        (TlsOffer::new(unverified_client_config(), "A.test"), Some("a.test")),
        (TlsOffer::new(unverified_client_config(), "a.test").without_sni(), None),
    ];
    for (offer, name) in offers {
        let mut client = Client::connect_tls(at, &offer).await.unwrap();
        for _ in 0..2 {
            assert_eq!(client.exchange(&forged()).await.unwrap().status, 200);
            assert_eq!(header_at(&site.backend).as_deref(), name);
        }
    }
    assert_eq!(site.send_request("/", &[("X-Name", "forged")]).await.status, 200);
    assert_eq!(header_at(&site.backend), None, "there is no handshake without TLS");
}

#[tokio::test]
async fn headers_contain_geoip_values_of_the_client() {
    let site = Site::new(&["located"]).await;
    site.filter(
        "located",
        "  requestHeaders: {set: [{name: X-Country, value: \"{geo.country-code}\"}]}\n  \
         responseHeaders: {set: [{name: X-Country-Name, value: \"{geo.country-name}\"}]}\n",
    );
    let database = tempfile::NamedTempFile::new().unwrap();
    let countries =
        Mmdb::new("GeoLite2-Country", 1).with_network("203.0.113.0/24", &country("DE", "Germany"));
    std::fs::write(database.path(), countries.bytes()).unwrap();
    let database = database.path().display().to_string();
    let _fairway = site.run_with(&["--geoip", &database, "--trusted-forwarders", "127.0.0.0/8"]).await;
    for (client, code, name) in [("203.0.113.9", Some("DE"), Some("Germany")), ("192.0.2.1", None, None)] {
        let response =
            site.send_request("/located", &[("X-Forwarded-For", client), ("X-Country", "forged")]).await;
        assert_eq!((response.status, response.header("X-Country-Name")), (200, name), "{client}");
        assert_eq!(site.backend.requests().pop().unwrap().header("X-Country"), code, "{client}");
    }
}

#[tokio::test]
async fn a_response_is_given_without_the_backend_and_with_its_headers() {
    let site = Site::new(&["fixed", "empty", "moved"]).await;
    site.filter(
        "fixed",
        "  directResponse: {statusCode: 503, contentType: application/json, body: '{\"down\": true}'}\n",
    );
    site.filter("empty", "  directResponse: {statusCode: 204}\n");
    site.filter(
        "moved",
        "  directResponse: {statusCode: 308}\n  responseHeaders:\n    \
         set: [{name: Location, value: \"https://new.test{request.uri}\"}]\n",
    );
    let _fairway = site.run().await;
    let fixed = site.send_request("/fixed/a.png", &[]).await;
    assert_eq!((fixed.status, fixed.header("Content-Type")), (503, Some("application/json")));
    assert_eq!(fixed.body, b"{\"down\": true}");
    let empty = site.send_request("/empty", &[]).await;
    assert_eq!((empty.status, empty.body.len(), empty.header("Content-Type")), (204, 0, None));
    let moved = site.send_request("/moved/a?b=c", &[]).await;
    assert_eq!((moved.status, moved.header("Location")), (308, Some("https://new.test/moved/a?b=c")));
    assert_eq!(moved.header("Content-Length"), Some("0"));
    let head = Request::new("HEAD", "/fixed").header("Host", "a.test").close();
    let head = Client::connect(site.gateway).await.unwrap().exchange(&head).await.unwrap();
    assert_eq!((head.status, head.body.len()), (503, 0));
    assert_eq!(site.backend.request_count(), 0);
}

#[tokio::test]
async fn paths_are_rewritten_by_a_regular_expression() {
    let site = Site::new(&["old"]).await;
    site.filter(
        "old",
        "  pathRewrite: {pattern: \"/old/([a-z]+)/([0-9]+)$\", substitution: \"/$2/$1?from=old\"}\n  \
         forwardedPrefix: {pattern: \"(/[a-z]+)/.*\", substitution: $1}\n",
    );
    let _fairway = site.run().await;
    site.send_request("/old/item/7?q=1", &[]).await;
    let received = site.backend.requests().pop().unwrap();
    assert_eq!(
        (&*received.target, received.header("X-Forwarded-Prefix")),
        ("/7/item?from=old&q=1", Some("/old"))
    );
    site.send_request("/old/other", &[]).await;
    let received = site.backend.requests().pop().unwrap();
    assert_eq!(received.target, "/old/other", "text that the pattern does not match is unchanged");
}

#[tokio::test]
async fn a_rule_is_closed_while_its_filter_is_missing_or_invalid_and_no_other_is() {
    let site = Site::new(&["first", "second"]).await;
    site.filter("second", "  directResponse: {body: second}\n");
    let _fairway = site.run().await;
    let status = |path: &'static str| {
        let site = &site;
        async move { site.send_request(path, &[]).await.status }
    };
    assert_eq!((status("/first").await, status("/second").await, status("/").await), (500, 200, 200));
    site.filter("first", "  directResponse: {statusCode: 418}\n");
    eventually("the filter applies", WAIT_TIMEOUT, || async { status("/first").await == 418 }).await;
    site.filter("first", "  requestHeaders: {set: [{name: X-A, value: \"{request.body}\"}]}\n");
    eventually("the filter is invalid", WAIT_TIMEOUT, || async { status("/first").await == 500 }).await;
    let check = Command::new(BINARY).arg("check").arg(site.manifests.path()).output().unwrap();
    let diagnostics = String::from_utf8_lossy(&check.stdout).into_owned();
    let problem =
        "HTTPRouteFilter a/first cannot be used: spec.requestHeaders.set[0].value: it has {request.body}";
    assert!(diagnostics.contains(problem) && diagnostics.contains("spec.rules[0].filters"), "{diagnostics}");
    assert_eq!((status("/first").await, status("/second").await, status("/").await), (500, 200, 200));
}
