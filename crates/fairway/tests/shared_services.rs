//! Ingresses with the same Service share sessions and canaries, as in ingress-nginx, unless `fairway.dev/compat` turns it off. The
//! real binary, by its flags.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// Service `web` with three endpoints and `canary` with one, which respond with their names. Ingresses have no creation time, so
/// their names decide.
struct Site {
    manifests: Manifests,
    _backends: Vec<Backend>,
}

impl Site {
    async fn new(ingresses: &[Ingress]) -> Self {
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        let mut backends = Vec::new();
        for (service, count) in [("web", 3), ("canary", 1)] {
            let mut addresses = Vec::new();
            for number in 0..count {
                let backend =
                    Backend::http(move |_| BackendResponse::ok(format!("{service} {number}"))).await;
                addresses.push(backend.address());
                backends.push(backend);
            }
            let yaml = service_with_endpoints("shop", service, 80, &addresses);
            manifests.put(&format!("{service}.yaml"), yaml);
        }
        for (at, ingress) in ingresses.iter().enumerate() {
            manifests.put(&format!("ingress-{at}.yaml"), ingress.yaml());
        }
        Self { manifests, _backends: backends }
    }

    async fn run(&self, flags: &[&str]) -> Fairway {
        let flags = [&["--workers", "1"][..], flags].concat();
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &flags).await
    }
}

/// An Ingress for the host with its name.
fn ingress(name: &str, service: &str) -> Ingress {
    Ingress::new("shop", name).class(Some("fairway")).route(&format!("{name}.test"), "/", (service, 80))
}

/// The backend that responds to a request for this host, and the cookie that is set.
async fn ask_host(fairway: &Fairway, host: &str, field: Option<(&str, &str)>) -> (String, Option<String>) {
    let mut client = Client::connect(fairway.http).await.unwrap();
    let request = Request::get(host, "/").close();
    let request = field.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    let response = client.exchange(&request).await.unwrap();
    assert_eq!(response.status, 200, "{host}");
    (response.text(), response.header("set-cookie").map(str::to_owned))
}

/// The backends that respond to a dozen requests; none may set a cookie.
async fn answering(fairway: &Fairway, host: &str, session: Option<&str>) -> BTreeSet<String> {
    let mut answering = BTreeSet::new();
    for _ in 0..12 {
        let (by, cookie) = ask_host(fairway, host, session.map(|session| ("Cookie", session))).await;
        assert_eq!(cookie, None, "{host}");
        answering.insert(by);
    }
    answering
}

#[tokio::test]
async fn a_session_continues_at_hosts_without_affinity_and_starts_at_none_of_them() {
    let site = Site::new(&[
        ingress("a-plain", "web"),
        ingress("b-sticky", "web").annotation("affinity", "cookie"),
        ingress("c-apart", "web").annotation("fairway.dev/compat", "strict"),
    ])
    .await;
    for (flags, kept) in [(["--compat", "nginx"], true), (["--compat", "strict"], false)] {
        let fairway = site.run(&flags).await;
        for _ in 0..4 {
            let (owner, cookie) = ask_host(&fairway, "b-sticky.test", None).await;
            let session = cookie.expect("a session starts").split(';').next().unwrap().to_owned();
            let owners = [owner].into();
            assert_eq!(answering(&fairway, "b-sticky.test", Some(&session)).await, owners);
            let response = answering(&fairway, "a-plain.test", Some(&session)).await;
            assert_eq!(response == owners, kept, "{flags:?}: {response:?}");
            let apart = answering(&fairway, "c-apart.test", Some(&session)).await;
            assert_eq!(apart.len(), 3, "strict keeps the Services separate");
        }
        assert_eq!(answering(&fairway, "a-plain.test", None).await.len(), 3, "no session starts");
    }
}

#[tokio::test]
async fn a_canary_takes_its_part_of_all_hosts_with_the_service() {
    let canary = Ingress::new("shop", "z-next").class(Some("fairway")).annotation("canary", "true");
    let site = Site::new(&[
        ingress("a-main", "web"),
        ingress("b-other", "web"),
        ingress("c-apart", "web").annotation("fairway.dev/compat", "strict"),
        canary.annotation("canary-by-header", "X-Canary").route("a-main.test", "/", ("canary", 80)),
    ])
    .await;
    for (flags, other) in [(["--compat", "nginx"], "canary"), (["--compat", "strict"], "web")] {
        let fairway = site.run(&flags).await;
        for (host, expected) in [("a-main.test", "canary"), ("b-other.test", other), ("c-apart.test", "web")]
        {
            let backend = ask_host(&fairway, host, Some(("X-Canary", "always"))).await.0;
            assert_eq!(backend.split(' ').next(), Some(expected), "{flags:?} {host}");
            let backend = ask_host(&fairway, host, None).await.0;
            assert_eq!(backend.split(' ').next(), Some("web"), "{flags:?} {host}");
        }
    }
}

#[tokio::test]
async fn check_names_the_other_ingress_and_how_to_separate_them() {
    let site =
        Site::new(&[ingress("a-fast", "web").annotation("load-balance", "ewma"), ingress("b-other", "web")])
            .await;
    let output = Command::new(BINARY).arg("check").arg(site.manifests.path()).output().unwrap();
    let diagnostics = String::from_utf8(output.stdout).unwrap();
    let expected = "balancing of Service shop/web port 80 is that of Ingress shop/a-fast, the oldest that uses it; it holds for \
                    requests of this Ingress, too; fairway.dev/compat: strict keeps them apart";
    assert!(
        diagnostics.contains("note[shared-service]: Ingress shop/b-other") && diagnostics.contains(expected),
        "{diagnostics}"
    );
    let output = Command::new(BINARY)
        .args(["check", "--compat", "strict"])
        .arg(site.manifests.path())
        .output()
        .unwrap();
    let diagnostics = String::from_utf8(output.stdout).unwrap();
    assert!(!diagnostics.contains("shared-service"), "{diagnostics}");
}
