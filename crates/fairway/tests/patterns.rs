//! Regular expressions in protected paths, with the real binary: `check` predicts what is served, and no request bypasses a guard
//! through its pattern.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use fairway_echo::{EchoOptions, EchoServer};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

const AUTHENTICATED: (&str, &str) = ("enable-modsecurity", "true");
const LISTED: (&str, &str) = ("whitelist-source-range", "203.0.113.0/24");

/// An open Ingress that covers all paths of `a.test`, and one next to it with `paths` and an annotation.
async fn site((annotation, value): (&str, &str), paths: &[&str]) -> Manifests {
    let options =
        EchoOptions { listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))], ..EchoOptions::default() };
    let backend = EchoServer::bind(options).await.unwrap();
    let address = backend.addresses()[0];
    tokio::spawn(backend.run(std::future::pending()));
    let manifests = Manifests::new();
    let ingress = |name| Ingress::new("demo", name).class(Some("fairway"));
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("web.yaml", service_with_endpoints("demo", "web", 80, &[address]));
    manifests.put("open.yaml", ingress("open").route("a.test", "/", ("web", 80)).yaml());
    let guard = ingress("zz-guard").annotation("use-regex", "true").annotation(annotation, value);
    let guard = paths
        .iter()
        .fold(guard, |guard, path| guard.typed_route("a.test", path, "ImplementationSpecific", ("web", 80)));
    manifests.put("guard.yaml", guard.yaml());
    manifests
}

fn check(directory: &Path) -> String {
    let output = Command::new(BINARY).arg("check").arg(directory).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The responses of the paths.
async fn statuses(manifests: &Manifests, paths: &[&str]) -> Vec<u16> {
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &[]).await;
    let mut statuses = Vec::new();
    for path in paths {
        let mut client = Client::connect(fairway.http).await.unwrap();
        statuses.push(client.exchange(&Request::get("a.test", path).close()).await.unwrap().status);
    }
    statuses
}

#[tokio::test]
async fn a_guard_with_look_ahead_protects_all_other_paths() {
    let manifests = site(AUTHENTICATED, &["/api/(?!health|version)(.*)"]).await;
    assert!(!check(manifests.path()).contains("invalid-regex"), "{}", check(manifests.path()));
    let paths = ["/api/users", "/API/users", "/api/", "/api/heal", "/api/health", "/api/version/1", "/x"];
    assert_eq!(statuses(&manifests, &paths).await, [503, 503, 503, 503, 200, 200, 200]);

    let manifests = site(LISTED, &["/(?!public)(.*)"]).await;
    let paths = ["/", "/private", "/%70ublic", "/public/x", "/PUBLIC"];
    assert_eq!(statuses(&manifests, &paths).await, [403, 403, 200, 200, 200]);
}

#[tokio::test]
async fn an_unusable_guard_closes_the_paths_that_check_reports() {
    for guard in [AUTHENTICATED, LISTED] {
        let manifests = site(guard, &[r"/api/(\w+)/\1"]).await;
        let diagnostics = check(manifests.path());
        let words = "the regular expression \"/api/(\\w+)/\\1\" cannot be used: backreferences are not supported; paths that \
                     begin with /api/ answer 503, except those that a longer path of the host matches";
        assert!(diagnostics.contains(words), "{diagnostics}");
        let paths = ["/api/x", "/api/x/x", "/API/", "/api", "/x"];
        assert_eq!(statuses(&manifests, &paths).await, [503, 503, 503, 200, 200], "{guard:?}");
    }
}

#[tokio::test]
async fn a_line_feed_does_not_pass_a_guard_that_ends_with_a_dollar() {
    let manifests = site(LISTED, &["/admin$", "/caf\u{e9}/(.*)x"]).await;
    let paths = ["/admin", "/admin%0a", "/admin%0A", "/ADMIN%0a", "/admins", "/caf%c3%a9/%ffx"];
    assert_eq!(statuses(&manifests, &paths).await, [403, 403, 403, 403, 200, 403]);
}

#[tokio::test]
async fn too_expensive_patterns_are_refused_individually_and_still_guard_their_paths() {
    let costly: Vec<String> = (0..10).map(|number| format!("/api/(.*)(x|y)[^/]{{500}}z{number}")).collect();
    let mut paths: Vec<&str> = costly.iter().map(String::as_str).collect();
    paths.push("/something[0-9]{1,3}(/|$)(.*)");
    let manifests = site(LISTED, &paths).await;
    let diagnostics = check(manifests.path());
    assert_eq!(diagnostics.matches("needs more than 256 KiB as an automaton").count(), 10, "{diagnostics}");
    let long = format!("/api/{}", "x".repeat(8_000));
    let paths = [&long, "/api/x", "/something12/", "/something", "/x"];
    assert_eq!(statuses(&manifests, &paths).await, [503, 503, 403, 200, 200]);
}
