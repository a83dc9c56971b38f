//! A route with basic authentication, and wrong passwords for it. Each is sent once, so caching does not help the proxy: it
//! must hash every password that it does not refuse.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::client::{Client, Request};
use crate::manifests::{Ingress, yaml};
use crate::proof::site::{HOST, Site};

const NAMESPACE: &str = "proof";
const SERVICE: (&str, u16) = ("backend", 80);
const SECRET: &str = "users";
/// The guarded path. Well-behaved clients ask the same host for another one.
const PATH: &str = "/bytes/10";
const USER: &str = "user";
const PASSWORD: &str = "secret";
/// The bcrypt hash of [`PASSWORD`] with cost 10, as from crypt(3).
const HASH: &str = "$2y$10$abcdefghijklmnopqrstuuqflPDzB6gcMhKa1rZqKiun2YGL5sa2u";
/// The proxy names its threads that verify passwords `password-0`, `password-1` and so on.
const VERIFIER: &str = "password-";

/// Whether a thread of the proxy with this name verifies passwords.
pub(super) fn verifies(thread: &str) -> bool {
    thread.starts_with(VERIFIER)
}

/// An Ingress for the guarded path, and a Secret with its one user.
pub(super) fn furnish(site: &Site) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": SECRET, "namespace": NAMESPACE },
        "stringData": { "auth": format!("{USER}:{HASH}") },
    });
    site.manifests().put("users.yaml", yaml(&secret));
    let ingress = Ingress::new(NAMESPACE, "guarded")
        .annotation("ssl-redirect", "false")
        .annotation("auth-type", "basic")
        .annotation("auth-secret", SECRET)
        .typed_route(HOST, PATH, "Exact", SERVICE);
    site.manifests().put("guarded.yaml", ingress.yaml());
}

/// Requests with wrong passwords. All threads share them, so that no password is sent twice.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    guesses_made: AtomicU64,
}

impl Guesses {
    /// A request with a password that no request had before.
    pub(super) fn another(&self) -> Request {
        request(&format!("wrong-{}", self.guesses_made.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Guesses for the proxy at `address`, once it has shown that it guards the path.
pub(super) async fn guesses(address: SocketAddr) -> Guesses {
    let guesses = Guesses::default();
    for (request, expected) in [(request(PASSWORD), 200), (guesses.another(), 401)] {
        let mut client = Client::connect(address).await.expect("a proxy that is ready takes connections");
        let response = client.exchange(&request).await.expect("one password is verified in time");
        assert_eq!(response.status, expected, "the guarded path takes the right password and no other");
    }
    guesses
}

fn request(password: &str) -> Request {
    let credentials = STANDARD.encode(format!("{USER}:{password}"));
    Request::get(HOST, PATH).header("Authorization", &format!("Basic {credentials}"))
}
