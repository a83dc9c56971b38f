//! The objects behind the proxies in a cluster: a namespace, the backends and the certificate. Values only; applies
//! nothing.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};

use crate::peers::{CERTIFICATE, Filters, Route};

/// The namespace of backends and routes.
pub(super) const NAMESPACE: &str = "lab";
/// The host of the route that streams use.
pub(super) const HOST: &str = "app.lab.example";
/// The Deployment and Service behind it.
pub(super) const BACKEND: &str = "backend";
/// Another Service, to which a route is changed.
pub(super) const OTHER: &str = "other";
/// A permanent pod in no Service: the target of direct streams.
pub(super) const STEADY: &str = "steady";
/// The port of backends.
pub(super) const PORT: u16 = 8080;

/// An RSA-2048 certificate for every host of a run, both PEM.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    pub(super) chain: String,
    pub(super) key: String,
}

impl Certificate {
    /// A new one, signed by itself.
    pub(super) fn make() -> anyhow::Result<Self> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let names = vec![HOST.to_owned(), "*.lab.example".to_owned()];
        let certificate = CertificateParams::new(names)?.self_signed(&key)?;
        Ok(Self { chain: certificate.pem(), key: key.serialize_pem() })
    }

    fn secret(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": CERTIFICATE, "namespace": NAMESPACE },
            "type": "kubernetes.io/tls",
            "data": { "tls.crt": STANDARD.encode(&self.chain), "tls.key": STANDARD.encode(&self.key) },
        })
    }
}

/// The backends' program.
#[derive(Clone, Copy)]
pub(super) struct Backends<'a> {
    pub(super) image: &'a str,
    /// The collector for request ids, if reachable.
    pub(super) collector: Option<SocketAddr>,
}

/// The namespace with all that is in it before the first scenario; no backend has pods yet.
pub(super) fn objects(backends: Backends<'_>, certificate: &Certificate) -> Vec<Value> {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    let mut objects = vec![namespace, certificate.secret()];
    for name in [BACKEND, OTHER, STEADY] {
        objects.push(deployment(backends, name));
    }
    objects.extend([BACKEND, OTHER].map(service));
    objects
}

/// Its pods exit at once on SIGTERM, like nginx and most programs without special handling.
fn deployment(backends: Backends<'_>, name: &str) -> Value {
    let listen = format!("0.0.0.0:{PORT}");
    let mut arguments = ["backend", "--listen", &listen, "--name", name].map(str::to_owned).to_vec();
    if let Some(collector) = backends.collector {
        arguments.extend(["--record".to_owned(), collector.to_string()]);
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "containers": [{
                        "name": "backend",
                        "image": backends.image,
                        "imagePullPolicy": "IfNotPresent",
                        "args": arguments,
                        "env": [{ "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
                        "ports": [{ "containerPort": PORT }],
                        "readinessProbe": {
                            "httpGet": { "path": "/healthz", "port": PORT },
                            "periodSeconds": 1,
                        },
                    }],
                },
            },
        },
    })
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "selector": { "app": name }, "ports": [{ "name": "http", "port": 80, "targetPort": PORT }] },
    })
}

/// The route that streams use, without filters.
pub(super) fn route() -> Route {
    route_of("app", HOST, BACKEND)
}

/// A route with its own host.
pub(super) fn route_of(name: &str, host: &str, service: &str) -> Route {
    Route {
        name: name.to_owned(),
        namespace: NAMESPACE.to_owned(),
        host: host.to_owned(),
        service: service.to_owned(),
        port: 80,
        tls: true,
        filters: Filters::default(),
    }
}
