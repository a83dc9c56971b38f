//! Namespaces that share a proxy: what one can do to the hosts and paths of another. The real binary, by its flags.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

fn ingress(namespace: &str, name: &str) -> Ingress {
    Ingress::new(namespace, name).class(Some("fairway"))
}

/// A site of namespace `a` and a Service of namespace `b`: each responds with the name of its namespace.
struct Site {
    manifests: Manifests,
    _backends: [Backend; 2],
}

impl Site {
    async fn new(owner: &Ingress) -> Self {
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        manifests.put("owner.yaml", owner.yaml());
        let backends = [answering("a", &manifests).await, answering("b", &manifests).await];
        Self { manifests, _backends: backends }
    }

    /// The output of `fairway check`.
    fn check(&self, arguments: &[&str]) -> String {
        let output =
            Command::new(BINARY).arg("check").arg(self.manifests.path()).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    async fn run(&self, arguments: &[&str]) -> Fairway {
        Fairway::ready(Path::new(BINARY), self.manifests.path(), arguments).await
    }
}

async fn answering(namespace: &'static str, manifests: &Manifests) -> Backend {
    let backend =
        Backend::http(move |request| BackendResponse::ok(format!("{namespace} {}", request.target))).await;
    let service = service_with_endpoints(namespace, "web", 80, &[backend.address()]);
    manifests.put(&format!("{namespace}.yaml"), service);
    backend
}

/// Status and body.
async fn get_target(address: SocketAddr, target: &str) -> (u16, String) {
    let mut client = Client::connect(address).await.unwrap();
    let response = client.exchange(&Request::get("a.test", target).close()).await.unwrap();
    (response.status, response.text())
}

/// Claims the whole host unless something prevents it.
fn greedy() -> Ingress {
    let greedy = ingress("b", "greedy").annotation("use-regex", "true").annotation("app-root", "/b");
    greedy.typed_route("a.test", "/(.*)(|x|y|z)", "ImplementationSpecific", ("web", 80))
}

#[tokio::test]
async fn a_newer_namespace_gets_nothing_of_an_owned_host() {
    let site = Site::new(&ingress("a", "web").route("a.test", "/", ("web", 80))).await;
    site.manifests.put("greedy.yaml", greedy().route("b.test", "/", ("web", 80)).yaml());
    let flags = ["--host-ownership", "namespace"];
    let fairway = site.run(&flags).await;
    for target in ["/", "/cart", "/xyz"] {
        assert_eq!(get_target(fairway.http, target).await, (200, format!("a {target}")));
    }
    let diagnostics = site.check(&flags);
    assert!(
        diagnostics.contains(
            "error[host-owned]: Ingress b/greedy spec.rules[0].host: host a.test belongs to namespace a"
        ),
        "{diagnostics}"
    );
    let mut client = Client::connect(fairway.http).await.unwrap();
    let other = client.exchange(&Request::get("b.test", "/x").close()).await.unwrap();
    assert_eq!(other.text(), "b /x", "the Ingress keeps its own hosts");
}

#[tokio::test]
async fn the_owner_lets_a_namespace_only_add_paths() {
    let owner =
        ingress("a", "web").annotation("fairway.dev/shared-hosts", "b").route("a.test", "/", ("web", 80));
    let site = Site::new(&owner).await;
    site.manifests.put("greedy.yaml", greedy().route("a.test", "/b", ("web", 80)).yaml());
    let fairway = site.run(&["--host-ownership", "namespace"]).await;
    for (target, namespace) in [("/", "a"), ("/cart", "a"), ("/b/c", "b"), ("/bc", "a")] {
        assert_eq!(get_target(fairway.http, target).await, (200, format!("{namespace} {target}")));
    }
}

#[tokio::test]
async fn without_host_ownership_an_ingress_that_loses_paths_gets_a_diagnostic() {
    let site = Site::new(&ingress("a", "web").route("a.test", "/", ("web", 80))).await;
    site.manifests.put("greedy.yaml", greedy().yaml());
    let fairway = site.run(&[]).await;
    assert_eq!(get_target(fairway.http, "/").await.0, 302);
    assert_eq!(get_target(fairway.http, "/cart").await.1, "b /cart");
    let diagnostics = site.check(&[]);
    for code in ["taken-by-pattern", "root-redirected"] {
        let line = diagnostics
            .lines()
            .find(|line| line.contains(&format!("warning[{code}]: Ingress a/web")))
            .unwrap_or(&diagnostics);
        assert!(line.contains("Ingress b/greedy"), "{line}");
    }
}

#[tokio::test]
async fn sharing_a_host_without_touching_each_other_is_silent() {
    let site = Site::new(&ingress("a", "web").route("a.test", "/", ("web", 80))).await;
    let shop = ingress("b", "shop").route("a.test", "/shop", ("web", 80));
    site.manifests.put("shop.yaml", shop.yaml());
    assert!(site.check(&[]).starts_with("0 errors, 0 warnings, 0 notes"), "{}", site.check(&[]));
}
