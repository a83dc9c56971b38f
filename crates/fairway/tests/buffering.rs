//! `fairway run` as a process: bodies that are buffered in memory and on disk.

use std::path::Path;
use std::process::Command;

use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, Request};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

fn site(backend: &Backend) -> Manifests {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
    let ingress = Ingress::new("a", "web")
        .class(Some("fairway"))
        .annotation("nginx.ingress.kubernetes.io/proxy-request-buffering", "on")
        .annotation("nginx.ingress.kubernetes.io/proxy-body-size", "4m")
        .route("a.test", "/", ("web", 80));
    manifests.put("ingress.yaml", ingress.yaml());
    manifests
}

/// Bytes that encode their own position.
fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7 % 251) as u8).collect()
}

async fn send(fairway: &Fairway, body: &[u8], chunked: bool) -> (u16, String) {
    let request = match chunked {
        false => Request::post("a.test", "/", body.to_vec()),
        true => Request::new("POST", "/")
            .header("Host", "a.test")
            .chunks(&body.chunks(50_000).collect::<Vec<_>>()),
    };
    let response = Client::connect(fairway.http).await.unwrap().exchange(&request.close()).await.unwrap();
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

#[tokio::test]
async fn bodies_are_buffered_in_memory_and_on_disk_and_arrive_unchanged() {
    let backend = Backend::http(|_| BackendResponse::ok("fine")).await;
    let (manifests, directory) = (site(&backend), tempfile::tempdir().unwrap());
    let flags = ["--buffer-dir", directory.path().to_str().unwrap(), "--buffer-disk", "8MiB"];
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    for (length, chunked) in [(10, false), (8192, true), (8193, true), (3_000_000, false), (4 << 20, true)] {
        let body = body(length);
        assert_eq!(send(&fairway, &body, chunked).await.0, 200, "{length}");
        let received = backend.requests().pop().unwrap();
        assert!(received.body == body, "{length} {chunked}");
        assert_eq!(received.header("content-length"), Some(length.to_string().as_str()));
    }
    assert_eq!(send(&fairway, &body((4 << 20) + 1), true).await.0, 413);
    let files_left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files_left, 0, "the file has no name");
}

#[tokio::test]
async fn without_disk_space_small_bodies_pass_and_large_ones_are_503_with_the_reason() {
    let backend = Backend::http(|_| BackendResponse::ok("fine")).await;
    let manifests = site(&backend);
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &[]).await;
    assert_eq!(send(&fairway, &body(8192), true).await.0, 200);
    let (status, text) = send(&fairway, &body(100_000), false).await;
    assert!(status == 503 && text.contains("buffer_full"), "{status} {text}");
    assert_eq!(backend.requests().len(), 1);
}

#[test]
fn a_directory_that_cannot_be_written_to_is_named_at_the_start() {
    let manifests = Manifests::new();
    let output = Command::new(BINARY)
        .args(["run", "--http", "127.0.0.1:0", "--https", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--buffer-dir", "/nonexistent/bodies", "--manifests"])
        .arg(manifests.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("/nonexistent/bodies"), "{stderr}");
}
