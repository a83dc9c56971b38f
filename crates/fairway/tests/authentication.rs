//! `fairway run` as a process: who is let in by a password or by the word of another service, and that nobody else is.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::wait::{PATIENCE, eventually};
use fairway_testkit::{Answer, Backend, Client, Fairway, Request};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
/// A path of the service for each thing that it can say.
const VERIFY: &str = "http://auth.login.svc.cluster.local";

/// A backend that answers with the fields it was sent, and a service that says what its path asks for.
struct Site {
    manifests: Manifests,
    _backend: Backend,
    _service: Backend,
}

impl Site {
    async fn new() -> Self {
        let backend = Backend::http(|request| Answer::ok(&request.head())).await;
        let service = Backend::http(|request| say(request.target())).await;
        let manifests = Manifests::new();
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        manifests.put("web.yaml", service_with_endpoints(("a", "web"), 80, &[backend.address()]));
        manifests.put("auth.yaml", service_with_endpoints(("login", "auth"), 80, &[service.address()]));
        Self { manifests, _backend: backend, _service: service }
    }

    /// An Ingress for `<name>.test`.
    fn guard(&self, name: &str, annotations: &[(&str, &str)]) {
        let ingress = Ingress::new("a", name).class(Some("fairway"));
        let ingress = annotations.iter().fold(ingress, |it, (name, value)| it.annotation(name, value));
        let ingress = ingress.route(&format!("{name}.test"), "/", ("web", 80));
        self.manifests.put(&format!("{name}.yaml"), ingress.yaml());
    }
}

fn dummy(_: SocketAddr, _: Duration) {}
