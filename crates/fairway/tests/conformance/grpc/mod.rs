//! The interoperability cases of gRPC (doc/interop-test-descriptions.md of the gRPC project) through the binary: clients and
//! servers of grpc-go and tonic in all pairings, cleartext and TLS on both sides. Each case also runs without Fairway, so that a
//! failure can be attributed. `conformance/grpc` has the programs.

mod page;
mod programs;
mod web;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairway_testkit::certificates::{Authority, Leaf};
use fairway_testkit::golden;
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::conformance::report::{checkout, output, revision};
use programs::{Certificate, Server, Side};

/// The cases that need no credentials, load balancer or load reports.
const CASES: [&str; 20] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "client_compressed_unary",
    "server_compressed_unary",
    "client_compressed_streaming",
    "server_compressed_streaming",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "rpc_soak",
    "channel_soak",
];

/// More concurrent clients would only wait for each other.
const AT_A_TIME: usize = 4;

const RESULTS: &str = "conformance/grpc/results.json";

#[tokio::test]
#[ignore = "builds tonic and grpc-go, and runs for minutes: make interop"]
async fn interop() {
    let certificates = Certificates::new();
    let sides = programs::built().await;
    let mut servers = Vec::new();
    for side in &sides {
        servers.push(side.serve(None).await);
        servers.push(side.serve(Some(&certificates.files())).await);
    }
    let manifests = manifests(&servers, &certificates.leaf);
    let fairway = Fairway::ready(
        Path::new(env!("CARGO_BIN_EXE_fairway")),
        manifests.path(),
        &["--workers", "2", "--access-log", "off"],
    )
    .await;
    let mut runs = Vec::new();
    for client in &sides {
        for server in &servers {
            for path in paths(&fairway, server) {
                let found = run(client, server, &path, &certificates.authority()).await;
                println!(
                    "{} -> {}, {}: {} of {}",
                    client.name, server.name, path.name, found["passed"], found["cases"]
                );
                runs.push(found);
            }
        }
    }
    let calls = fairway.metrics().await.sum("fairway_grpc_calls_total", &[]);
    let versions: Value = sides.iter().map(|side| (side.name.to_owned(), side.version.clone())).collect();
    let found = json!({"command": "make interop", "revision": revision().await, "versions": versions,
        "cases": CASES, "runs": runs});
    std::fs::write(output(RESULTS), format!("{found:#}\n")).unwrap();
    std::fs::write(output(page::DOCUMENT), page::with(&found)).unwrap();
    let failed: Vec<_> = runs.iter().filter(|run| run["passed"] != run["cases"]).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    // The cases went through Fairway, each with at least one call.
    let through = sides.len() * servers.len() * 2 * CASES.len();
    assert!(calls >= f64::from(u32::try_from(through).unwrap()), "{calls} calls in {through} cases");
}

#[test]
fn the_page_is_made_of_the_results_of_interop() {
    let text = std::fs::read_to_string(checkout().join(RESULTS)).unwrap();
    let found = serde_json::from_str(&text).unwrap();
    golden::check(checkout().join(page::DOCUMENT), &page::with(&found));
}

/// A path from a client to a server.
struct Route {
    name: String,
    address: String,
    tls: bool,
}

/// Directly to the server, and through Fairway from cleartext and TLS.
fn paths(fairway: &Fairway, server: &Server) -> Vec<Route> {
    let upstream = server.protocol();
    let route = |name: &str, address: std::net::SocketAddr, tls| Route {
        name: name.to_owned(),
        address: address.to_string(),
        tls,
    };
    let direct = if server.tls { "direct, TLS" } else { "direct, h2c" };
    vec![
        route(direct, server.address, server.tls),
        route(&format!("h2c, {upstream}"), fairway.http, false),
        route(&format!("TLS, {upstream}"), fairway.https, true),
    ]
}

/// Runs all cases on one path.
async fn run(client: &Side, server: &Server, route: &Route, authority: &Path) -> Value {
    let gate = Arc::new(Semaphore::new(AT_A_TIME));
    let mut under_way = Vec::new();
    for case in CASES {
        let permit = Arc::clone(&gate).acquire_owned().await.unwrap();
        let calling = client.call(&route.address, &server.host, case, route.tls.then_some(authority));
        under_way.push((
            case,
            tokio::spawn(async move {
                let found = calling.await;
                drop(permit);
                found
            }),
        ));
    }
    let mut failed = serde_json::Map::new();
    for (case, one) in under_way {
        if let Err(why) = one.await.unwrap() {
            failed.insert(case.to_owned(), why.into());
        }
    }
    json!({"client": client.name, "server": server.name, "path": route.name, "cases": CASES.len(),
        "passed": CASES.len() - failed.len(), "failed": failed})
}

/// One CA for Fairway and the servers.
struct Certificates {
    folder: TempDir,
    leaf: Leaf,
}

impl Certificates {
    fn new() -> Self {
        let authority = Authority::new("interop");
        let leaf = authority.leaf(&["*.interop.test"]);
        let folder = TempDir::with_prefix("fairway-interop-").unwrap();
        std::fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
        leaf.write_to(folder.path()).unwrap();
        Self { folder, leaf }
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    fn files(&self) -> Certificate {
        Certificate { chain: self.folder.path().join("tls.crt"), key: self.folder.path().join("tls.key") }
    }
}

/// A host for each server.
fn manifests(servers: &[Server], leaf: &Leaf) -> Manifests {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("secret.yaml", leaf.secret_yaml("interop", "certificate"));
    for server in servers {
        let (host, name) = (server.host.as_str(), server.host.replace('.', "-"));
        let service = service_with_endpoints("interop", &name, 80, &[server.address]);
        let ingress = Ingress::new("interop", &name)
            .class(Some("fairway"))
            .annotation("backend-protocol", server.protocol())
            .annotation("ssl-redirect", "false")
            .tls(Some("certificate"), &[host])
            .route(host, "/", (&name, 80));
        manifests.put(&format!("{name}.yaml"), format!("{service}---\n{}", ingress.yaml()));
    }
    manifests
}
