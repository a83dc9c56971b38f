//! A route that asks for a password, and wrong passwords for it. Each is sent once, so remembering answers does not help
//! the proxy: it has to hash every password that it does not refuse.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::client::{Client, Request};
use crate::manifests::Ingress;
use crate::proof::site::{HOST, Site};

const NAMESPACE: &str = "proof";
const SERVICE: (&str, u16) = ("backend", 80);
const SECRET: &str = "users";
/// The guarded path. Well-behaved clients ask the same host for another one.
const PATH: &str = "/bytes/10";
const USER: &str = "user";
const PASSWORD: &str = "secret";
/// What crypt(3) makes of [`PASSWORD`] with bcrypt and cost 10.
const HASH: &str = "$2y$10$abcdefghijklmnopqrstuuqflPDzB6gcMhKa1rZqKiun2YGL5sa2u";
/// The proxy names its threads that verify passwords `password-0`, `password-1` and so on.
const VERIFIER: &str = "password-";

/// Whether a thread of the proxy with this name verifies passwords.
pub(super) fn verifies(thread: &str) -> bool {
    thread.starts_with(VERIFIER)
}

/// An Ingress for the guarded path, and a Secret with its one user.
pub(super) fn furnish(site: &Site) {
    let metadata = format!("metadata:\n  name: {SECRET}\n  namespace: {NAMESPACE}\n");
    let secret = format!("apiVersion: v1\nkind: Secret\n{metadata}stringData:\n  auth: \"{USER}:{HASH}\"\n");
    site.manifests().put("users.yaml", secret);
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
    made: AtomicU64,
}

impl Guesses {
    /// A request with a password that no request had before.
    pub(super) fn another(&self) -> Request {
        request(&format!("wrong-{}", self.made.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Guesses for the proxy at `address`, once it has shown that it guards the path.
///
/// # Panics
///
/// When it refuses the right password or takes a wrong one.
pub(super) async fn guesses(address: SocketAddr) -> Guesses {
    let guesses = Guesses::default();
    for (request, expected) in [(request(PASSWORD), 200), (guesses.another(), 401)] {
        let mut client = Client::connect(address).await.expect("a proxy that is ready takes connections");
        let answer = client.exchange(&request).await.expect("one password is verified in time");
        assert_eq!(answer.status, expected, "the guarded path takes the right password and no other");
    }
    guesses
}

fn request(password: &str) -> Request {
    let credentials = STANDARD.encode(format!("{USER}:{password}"));
    Request::get(HOST, PATH).header("Authorization", &format!("Basic {credentials}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The user and the password in the only `Authorization` field of a request.
    fn claim(request: &Request) -> String {
        let head = String::from_utf8(request.bytes()).unwrap();
        let fields: Vec<_> = head.lines().filter_map(|line| line.strip_prefix("Authorization: ")).collect();
        let [field] = fields[..] else { panic!("{head}") };
        String::from_utf8(STANDARD.decode(field.strip_prefix("Basic ").unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn every_guess_is_a_password_of_the_user_that_is_new_and_wrong() {
        let guesses = Guesses::default();
        let claims: BTreeSet<_> = (0..1_000).map(|_| claim(&guesses.another())).collect();
        assert_eq!(claims.len(), 1_000);
        assert!(claims.iter().all(|claim| claim.starts_with("user:wrong-")), "{claims:?}");
        assert!(!claims.contains(&claim(&request(PASSWORD))));
    }

    #[test]
    fn the_hash_is_of_bcrypt_with_cost_10() {
        assert_eq!((HASH.get(..7), HASH.len()), (Some("$2y$10$"), 60));
    }

    #[test]
    fn only_threads_that_verify_passwords_are_known_as_such() {
        assert!(verifies("password-0") && verifies("password-12"));
        assert!(!verifies("worker-0") && !verifies("fairway"));
    }
}
