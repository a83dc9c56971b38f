//! The objects around the recorded Ingresses: the recorded environment, with echo backends in this process in place of its
//! Deployments and with a new certificate. Changes only the creation time of Ingresses.

use std::net::SocketAddr;
use std::path::Path;

use fairway_echo::{EchoOptions, EchoServer, Identity};
use fairway_testkit::certificates::Leaf;
use fairway_testkit::manifests::{Manifests, endpoint_slices, ingress_class};

use crate::recorded::case::Case;

const NAMESPACE: &str = "demo";
const SERVICES: &[&str] = &["main", "other", "canary", "errors", "auth"];

/// The flags under which the recorded objects have the same meaning.
pub(crate) const FLAGS: &[&str] =
    &["--ingress-class-compat", "--configmap", "ingress-nginx/ingress-nginx-controller"];

/// Starts an echo backend per Service and writes all objects except the Ingresses. `certificate` is in the Secret `cert`.
pub(crate) async fn environment(certificate: &Leaf) -> Manifests {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("nginx", "k8s.io/ingress-nginx"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/environment.yaml");
    let recorded = std::fs::read_to_string(file).unwrap();
    let headers: Vec<_> = recorded
        .split("\n---\n")
        .filter(|object| !object.contains("kind: Deployment") && !object.contains("name: cert,"))
        .collect();
    manifests.put("environment.yaml", headers.join("\n---\n"));
    manifests.put("certificate.yaml", certificate.secret_yaml(NAMESPACE, "cert"));
    for service in SERVICES {
        let address = echo(service).await;
        let slices = endpoint_slices(NAMESPACE, service, &[address]);
        manifests.put(&format!("endpoints-{service}.yaml"), slices);
    }
    manifests.put("endpoints-empty.yaml", endpoint_slices(NAMESPACE, "empty", &[]));
    manifests
}

/// Adds the Ingresses of `cases`, each a second younger than the one before, and returns their files.
pub(crate) fn add_ingresses<'a>(
    manifests: &Manifests,
    cases: impl IntoIterator<Item = &'a Case>,
) -> Vec<String> {
    let mut second = 0;
    let mut files = Vec::new();
    for case in cases {
        let mut documents = Vec::new();
        for ingress in &case.ingresses {
            let mut ingress = ingress.clone();
            let born = format!("2026-11-21T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
            ingress["metadata"]["creationTimestamp"] = born.into();
            documents.push(serde_json::to_string_pretty(&ingress).unwrap());
            second += 1;
        }
        // JSON is YAML.
        let file = format!("case-{}.yaml", case.name);
        manifests.put(&file, documents.join("\n---\n"));
        files.push(file);
    }
    files
}

async fn echo(service: &str) -> SocketAddr {
    let options = EchoOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        identity: Identity {
            namespace: NAMESPACE.to_owned(),
            service: service.to_owned(),
            pod: service.to_owned(),
        },
        ..EchoOptions::default()
    };
    let server = EchoServer::bind(options).await.unwrap();
    let address = server.addresses()[0];
    tokio::spawn(server.run(std::future::pending()));
    address
}
