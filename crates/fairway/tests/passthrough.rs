//! `ssl-passthrough`: which backend gets the TLS connections if several Ingresses name a host, and what is never bypassed. The
//! real binary, by its flags.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use fairway_testkit::certificates::{Authority, unverified_client_config};
use fairway_testkit::client::{Client, Request, TlsOffer};
use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::{Backend, BackendResponse};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

const OLDER: &str = "2025-01-01T00:00:00Z";
const YOUNGER: &str = "2025-02-01T00:00:00Z";

fn ingress(namespace: &str, name: &str) -> Ingress {
    Ingress::new(namespace, name).class(Some("fairway"))
}

fn passing(namespace: &str, host: &str) -> Ingress {
    let passing = ingress(namespace, "passing").annotation("ssl-passthrough", "true");
    passing.route(host, "/", ("secure", 443))
}

/// Each namespace has a Service `web`, which speaks HTTP, and a Service `secure`, which terminates TLS; each responds with both
/// names.
struct Site {
    manifests: Manifests,
    arguments: Vec<&'static str>,
    backends: Vec<(&'static str, Backend)>,
}

impl Site {
    async fn new(ingresses: &[Ingress], arguments: &[&'static str]) -> Self {
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        for (number, ingress) in ingresses.iter().enumerate() {
            manifests.put(&format!("ingress-{number}.yaml"), ingress.yaml());
        }
        let config = Authority::new("pods").leaf(&["pod.test"]).server_config(&["http/1.1"]);
        let mut backends = Vec::new();
        for (name, web, secure) in [("a", "a/web", "a/secure"), ("b", "b/web", "b/secure")] {
            let plain = Backend::http(move |_| BackendResponse::ok(web)).await;
            let tls = Backend::https(config.clone(), move |_| BackendResponse::ok(secure)).await;
            for (service, port, backend) in [("web", 80, &plain), ("secure", 443, &tls)] {
                let yaml = service_with_endpoints(name, service, port, &[backend.address()]);
                manifests.put(&format!("{name}-{service}.yaml"), yaml);
            }
            backends.extend([(web, plain), (secure, tls)]);
        }
        Self { manifests, arguments: arguments.to_vec(), backends }
    }

    async fn run(&self) -> Fairway {
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &self.arguments).await
    }

    /// The output of `fairway check`.
    fn check(&self) -> String {
        let mut command = Command::new(BINARY);
        command.arg("check").arg(self.manifests.path()).args(&self.arguments);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    fn connections(&self, backend: &str) -> usize {
        self.backends.iter().find(|(name, _)| *name == backend).unwrap().1.connection_count()
    }
}

/// Status and body of the response over TLS with the server name `name`.
async fn over_tls(at: SocketAddr, name: &str) -> io::Result<(u16, String)> {
    let mut client = Client::connect_tls(at, &TlsOffer::new(unverified_client_config(), name)).await?;
    let response = client.exchange(&Request::get(name, "/").header("cookie", "session=1").close()).await?;
    Ok((response.status, response.text()))
}

async fn in_the_clear(at: SocketAddr, name: &str, target: &str) -> (u16, String) {
    let mut client = Client::connect(at).await.unwrap();
    let response = client.exchange(&Request::get(name, target).close()).await.unwrap();
    (response.status, response.text())
}

fn answered(backend: &str) -> (u16, String) {
    (200, backend.to_owned())
}

/// An Ingress of namespace `a` serves `shop.test`, and a wildcard with `ssl-passthrough` covers it: the wildcard gets the names
/// that no other Ingress has, but no byte of this one.
async fn expect_shop_stays_with(owner: Ingress, wildcard: Ingress, arguments: &[&'static str]) {
    let wildcards = if wildcard.yaml().contains("namespace: \"b\"") { "b/secure" } else { "a/secure" };
    let site = Site::new(&[owner, wildcard], arguments).await;
    let fairway = site.run().await;
    assert_eq!(over_tls(fairway.https, "shop.test").await.unwrap(), answered("a/web"));
    assert_eq!(site.connections(wildcards), 0, "the backend received no byte");
    assert_eq!(over_tls(fairway.https, "other.test").await.unwrap(), answered(wildcards));
}

fn shop() -> Ingress {
    ingress("a", "shop").annotation("ssl-redirect", "false").route("shop.test", "/", ("web", 80))
}

#[tokio::test]
async fn a_younger_wildcard_does_not_take_the_tls_of_an_exact_host() {
    let shop = shop().tls(None, &["shop.test"]).created(OLDER);
    expect_shop_stays_with(shop, passing("b", "*.test").created(YOUNGER), &[]).await;
}

#[tokio::test]
async fn an_older_wildcard_does_not_take_the_tls_of_an_exact_host() {
    let shop = shop().tls(None, &["shop.test"]).created(YOUNGER);
    expect_shop_stays_with(shop, passing("b", "*.test").created(OLDER), &[]).await;
}

#[tokio::test]
async fn a_wildcard_does_not_take_the_tls_of_a_host_that_another_namespace_owns() {
    let shop = shop().tls(None, &["shop.test"]).created(OLDER);
    let flags = ["--host-ownership", "namespace"];
    expect_shop_stays_with(shop, passing("b", "*.test").created(YOUNGER), &flags).await;
}

#[tokio::test]
async fn a_wildcard_does_not_take_the_tls_of_a_host_without_a_tls_section() {
    expect_shop_stays_with(shop(), passing("b", "*.test"), &[]).await;
}

#[tokio::test]
async fn a_wildcard_does_not_take_the_tls_of_an_alias() {
    let aliased = ingress("a", "shop").annotation("server-alias", "shop.test");
    let aliased = aliased.annotation("ssl-redirect", "false").route("shop.org", "/", ("web", 80));
    expect_shop_stays_with(aliased, passing("b", "*.test"), &[]).await;
}

#[tokio::test]
async fn a_wildcard_does_not_pass_through_an_exact_host_of_its_namespace() {
    expect_shop_stays_with(shop(), passing("a", "*.test"), &[]).await;
}

#[tokio::test]
async fn a_wildcard_does_not_take_the_tls_of_a_name_that_only_redirects() {
    let shop = shop().annotation("from-to-www-redirect", "true");
    let site = Site::new(&[shop, passing("b", "*.shop.test")], &[]).await;
    let fairway = site.run().await;
    assert_eq!(over_tls(fairway.https, "www.shop.test").await.unwrap().0, 308);
    assert_eq!(site.connections("b/secure"), 0);
}

#[tokio::test]
async fn a_wildcard_does_not_take_the_tls_of_a_host_that_demands_client_certificates() {
    let (clients, shop) = (Authority::new("clients"), shop().annotation("auth-tls-secret", "a/clients"));
    let site = Site::new(&[shop, passing("b", "*.test")], &[]).await;
    let pem: String = clients.pem().lines().map(|line| format!("    {line}\n")).collect();
    site.manifests.put(
        "clients.yaml",
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: clients, namespace: a}}\nstringData:\n  ca.crt: |\n{pem}"),
    );
    let fairway = site.run().await;
    assert_eq!(
        over_tls(fairway.https, "shop.test").await.unwrap().0,
        400,
        "Fairway asks for a client certificate"
    );
    let shown = clients.leaf(&["client.test"]).add_client_certificate(unverified_client_config());
    let offer = TlsOffer::new(shown, "shop.test");
    let mut client = Client::connect_tls(fairway.https, &offer).await.unwrap();
    let response = client.exchange(&Request::get("shop.test", "/").close()).await.unwrap();
    assert_eq!((response.status, response.text()), answered("a/web"));
    assert_eq!(site.connections("b/secure"), 0);
}

#[tokio::test]
async fn with_host_ownership_an_older_wildcard_owns_the_names_below_it() {
    let flags = ["--host-ownership", "namespace"];
    let site = Site::new(&[shop().created(YOUNGER), passing("b", "*.test").created(OLDER)], &flags).await;
    assert!(site.check().contains("error[host-owned]: Ingress a/shop"), "{}", site.check());
    let fairway = site.run().await;
    assert_eq!(over_tls(fairway.https, "shop.test").await.unwrap(), answered("b/secure"));
}

#[tokio::test]
async fn a_request_for_a_passthrough_host_on_a_terminated_connection_is_misdirected() {
    let site = Site::new(&[shop(), passing("b", "pass.test")], &[]).await;
    let fairway = site.run().await;
    let mut client =
        Client::connect_tls(fairway.https, &TlsOffer::new(unverified_client_config(), "shop.test"))
            .await
            .unwrap();
    let response = client.exchange(&Request::get("pass.test", "/").close()).await.unwrap();
    assert_eq!(response.status, 421);
    assert_eq!(over_tls(fairway.https, "pass.test").await.unwrap(), answered("b/secure"));
}

/// No client on this machine is allowed.
fn guarded(ingress: Ingress) -> Ingress {
    ingress.annotation("allowlist-source-range", "192.0.2.1")
}

#[tokio::test]
async fn a_younger_ingress_does_not_switch_the_host_of_an_older_one_to_passthrough() {
    let passing_path = passing("b", "other.test").route("shop.test", "/x", ("secure", 443));
    let site = Site::new(&[guarded(shop()).created(OLDER), passing_path.created(YOUNGER)], &[]).await;
    let fairway = site.run().await;
    assert_eq!(over_tls(fairway.https, "shop.test").await.unwrap().0, 403, "the allow list applies");
    assert_eq!(over_tls(fairway.https, "other.test").await.unwrap(), answered("b/secure"));
    let diagnostics = site.check();
    let line = diagnostics.lines().find(|line| line.contains("[passthrough-ignored]: Ingress b/passing"));
    assert!(line.is_some_and(|line| line.contains("Ingress a/shop")), "{diagnostics}");
}

#[tokio::test]
async fn a_younger_ingress_of_the_same_path_and_namespace_does_not_enable_passthrough() {
    let younger = passing("a", "shop.test").created(YOUNGER);
    let site = Site::new(&[guarded(shop()).created(OLDER), younger], &[]).await;
    let fairway = site.run().await;
    assert_eq!(over_tls(fairway.https, "shop.test").await.unwrap().0, 403);
    assert_eq!(site.connections("a/secure"), 0);
}

#[tokio::test]
async fn the_oldest_ingress_of_a_host_decides_about_passthrough() {
    let younger = ingress("b", "younger").annotation("ssl-passthrough", "false");
    let younger = guarded(younger).route("shop.test", "/b", ("web", 80)).created(YOUNGER);
    let site = Site::new(&[passing("a", "shop.test").created(OLDER), younger], &[]).await;
    let fairway = site.run().await;
    assert_eq!(over_tls(fairway.https, "shop.test").await.unwrap(), answered("a/secure"));
    assert_eq!(in_the_clear(fairway.http, "shop.test", "/b").await.0, 403);
}

#[tokio::test]
async fn passthrough_never_leads_to_a_backend_of_another_namespace() {
    let asking = ingress("a", "asking").annotation("ssl-passthrough", "true");
    let asking = asking.route("shop.test", "/x", ("secure", 443)).created(OLDER);
    let root = ingress("b", "root").route("shop.test", "/", ("secure", 443)).created(YOUNGER);
    let site = Site::new(&[asking, root], &[]).await;
    let fairway = site.run().await;
    assert!(over_tls(fairway.https, "shop.test").await.is_err());
    assert_eq!(site.connections("b/secure"), 0);
    assert!(site.check().contains("warning[passthrough-nowhere]: Ingress a/asking"), "{}", site.check());
}

const PROTECTING: [(&str, &str); 11] = [
    ("allowlist-source-range", "192.0.2.1"),
    ("whitelist-source-range", "127.0.0.0/8"),
    ("denylist-source-range", "192.0.2.1"),
    ("auth-type", "basic"),
    ("auth-url", "http://auth.example.com/"),
    ("auth-tls-secret", "a/clients"),
    ("limit-rps", "100"),
    ("limit-rpm", "100"),
    ("limit-connections", "100"),
    ("limit-rate", "100"),
    ("fairway.dev/deny", r#"{"when": [{"path": "/admin"}]}"#),
];

fn protected_hosts() -> Vec<Ingress> {
    let each = PROTECTING.iter().enumerate().map(|(number, (name, value))| {
        let passthrough = ingress("a", &format!("protected-{number}")).annotation("ssl-passthrough", "true");
        passthrough.annotation(name, value).route(&format!("host-{number}.test"), "/", ("secure", 443))
    });
    each.collect()
}

#[tokio::test]
async fn an_ingress_with_a_protection_that_passthrough_would_bypass_is_closed() {
    let site = Site::new(&protected_hosts(), &[]).await;
    let (fairway, diagnostics) = (site.run().await, site.check());
    for (number, (name, _)) in PROTECTING.iter().enumerate() {
        let host = format!("host-{number}.test");
        assert!(over_tls(fairway.https, &host).await.is_err(), "{name}");
        // A host that requires client certificates refuses plain requests.
        let closed = if *name == "auth-tls-secret" { 403 } else { 503 };
        assert_eq!(in_the_clear(fairway.http, &host, "/").await.0, closed, "{name}");
        let of_it =
            format!("error[passthrough-protected]: Ingress a/protected-{number} metadata.annotations[");
        let lines: Vec<_> = diagnostics.lines().filter(|line| line.contains(&of_it)).collect();
        assert!(lines.len() == 1 && lines[0].contains(name), "{name}: {diagnostics}");
    }
    assert_eq!(site.connections("a/secure"), 0);
}

#[tokio::test]
async fn if_allowed_passthrough_bypasses_protections_and_each_is_reported() {
    let site = Site::new(&protected_hosts()[..3], &["--ignore-unsupported-protection"]).await;
    let fairway = site.run().await;
    assert_eq!(over_tls(fairway.https, "host-0.test").await.unwrap(), answered("a/secure"));
    assert!(
        site.check().contains("warning[passthrough-protected]: Ingress a/protected-0"),
        "{}",
        site.check()
    );
}

#[tokio::test]
async fn without_the_feature_the_annotation_is_ignored_and_protections_are_enforced() {
    let plain = ingress("a", "plain").annotation("ssl-passthrough", "true");
    let plain = plain.route("plain.test", "/", ("web", 80));
    let open = guarded(ingress("a", "open").annotation("ssl-passthrough", "true"));
    let flags = ["--enable-ssl-passthrough=false"];
    let site = Site::new(&[plain, open.route("shop.test", "/", ("web", 80))], &flags).await;
    let fairway = site.run().await;
    assert_eq!(over_tls(fairway.https, "plain.test").await.unwrap(), answered("a/web"));
    assert_eq!(over_tls(fairway.https, "shop.test").await.unwrap().0, 403);
    assert_eq!(in_the_clear(fairway.http, "shop.test", "/").await.0, 403);
    assert!(site.check().contains("warning[passthrough-off]: Ingress a/plain"), "{}", site.check());
}

#[tokio::test]
async fn tls_is_refused_where_another_ingress_protects_the_service_that_would_get_it() {
    let admin = guarded(ingress("a", "admin")).route("shop.test", "/admin", ("secure", 443));
    let site = Site::new(&[passing("a", "shop.test").created(OLDER), admin.created(YOUNGER)], &[]).await;
    let fairway = site.run().await;
    assert!(over_tls(fairway.https, "shop.test").await.is_err());
    assert_eq!(in_the_clear(fairway.http, "shop.test", "/admin").await.0, 403, "plain HTTP stays open");
    let diagnostics = site.check();
    let of_it = "error[passthrough-protected]: Ingress a/admin metadata.annotations[";
    assert!(diagnostics.contains(of_it), "{diagnostics}");
}

#[tokio::test]
async fn another_namespace_cannot_close_a_passthrough_host() {
    let admin = guarded(ingress("b", "admin")).annotation("auth-tls-secret", "b/clients");
    let admin = admin.route("shop.test", "/admin", ("secure", 443)).created(YOUNGER);
    let site = Site::new(&[passing("a", "shop.test").created(OLDER), admin], &[]).await;
    let fairway = site.run().await;
    assert_eq!(over_tls(fairway.https, "shop.test").await.unwrap(), answered("a/secure"));
}

#[tokio::test]
async fn protection_from_the_settings_closes_passthrough_hosts() {
    let site = Site::new(&[passing("a", "shop.test")], &["--configmap", "a/settings"]).await;
    let settings = config_map("a", "settings", &[("whitelist-source-range", "192.0.2.1")]);
    site.manifests.put("settings.yaml", settings);
    let fairway = site.run().await;
    assert!(over_tls(fairway.https, "shop.test").await.is_err());
    assert!(site.check().contains("error[passthrough-protected]: Ingress a/passing"), "{}", site.check());
}
