//! Finds Services and TLS Secrets that Ingresses refer to but the input does not contain. The translation does not depend on the
//! endpoints of Services or the keys of certificates, so placeholders are sufficient.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::resources::Change;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{Ingress, IngressBackend, IngressRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The missing objects.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    /// Placeholders for missing Services, with the port numbers that Ingresses use.
    pub services: Vec<Change>,
    /// Missing TLS Secrets with their hosts.
    pub certificates: Vec<(ObjectKey, Vec<String>)>,
}

/// Finds the objects that Ingresses refer to but that are not among the objects.
#[must_use]
pub fn missing(changes: &[Change]) -> Missing {
    let mut known: BTreeSet<(&str, ObjectKey)> = BTreeSet::new();
    let mut ports: BTreeMap<ObjectKey, BTreeSet<i32>> = BTreeMap::new();
    let mut hosts: BTreeMap<ObjectKey, BTreeSet<String>> = BTreeMap::new();
    for change in changes {
        match change {
            Change::Set(Object::Service(it), _) => {
                known.insert(("Service", ObjectKey::from_metadata(&it.metadata)));
            }
            Change::Set(Object::Secret(it), _) => {
                known.insert(("Secret", ObjectKey::from_metadata(&it.metadata)));
            }
            Change::Set(Object::Ingress(ingress), _) => {
                collect_ports(ingress, &mut ports);
                collect_hosts(ingress, &mut hosts);
            }
            _ => {}
        }
    }
    let is_missing = |kind: &'static str, key: &ObjectKey| !known.contains(&(kind, key.clone()));
    let services = ports.into_iter().filter(|(key, _)| is_missing("Service", key));
    let certificates = hosts.into_iter().filter(|(key, _)| is_missing("Secret", key));
    Missing {
        services: services.map(|(key, ports)| set_service(&key, &ports)).collect(),
        certificates: certificates.map(|(key, hosts)| (key, hosts.into_iter().collect())).collect(),
    }
}

fn rules(ingress: &Ingress) -> impl Iterator<Item = &IngressRule> {
    ingress.spec.iter().flat_map(|spec| spec.rules.iter().flatten())
}

fn in_namespace(ingress: &Ingress, name: &str) -> ObjectKey {
    ObjectKey { name: name.into(), ..ObjectKey::from_metadata(&ingress.metadata) }
}

fn collect_ports(ingress: &Ingress, ports: &mut BTreeMap<ObjectKey, BTreeSet<i32>>) {
    let default = ingress.spec.iter().filter_map(|spec| spec.default_backend.as_ref());
    let paths = rules(ingress).filter_map(|rule| rule.http.as_ref()).flat_map(|http| &http.paths);
    let backends = paths.map(|path| &path.backend).chain(default);
    for service in backends.filter_map(|backend: &IngressBackend| backend.service.as_ref()) {
        let service_ports = ports.entry(in_namespace(ingress, &service.name)).or_default();
        service_ports.extend(service.port.as_ref().and_then(|port| port.number));
    }
}

/// A TLS section without hosts applies to the hosts of all rules.
fn collect_hosts(ingress: &Ingress, hosts: &mut BTreeMap<ObjectKey, BTreeSet<String>>) {
    let sections = ingress.spec.iter().flat_map(|spec| spec.tls.iter().flatten());
    for section in sections {
        let Some(name) = section.secret_name.as_deref().filter(|name| !name.is_empty()) else { continue };
        let secret_hosts = hosts.entry(in_namespace(ingress, name)).or_default();
        secret_hosts.extend(section.hosts.iter().flatten().cloned());
        if secret_hosts.is_empty() {
            secret_hosts.extend(rules(ingress).filter_map(|rule| rule.host.clone()));
        }
    }
}

fn set_service(key: &ObjectKey, ports: &BTreeSet<i32>) -> Change {
    let name = |port: &i32| format!("port-{port}");
    let port = |port: &i32| ServicePort { name: Some(name(port)), port: *port, ..ServicePort::default() };
    let spec = ServiceSpec { ports: Some(ports.iter().map(port).collect()), ..ServiceSpec::default() };
    let service = Service { metadata: metadata(key), spec: Some(spec), ..Service::default() };
    Change::Set(Object::Service(Arc::new(service)), None)
}

/// A TLS Secret with this chain and key, in PEM.
#[must_use]
pub fn certificate(key: &ObjectKey, chain: &str, private_key: &str) -> Change {
    let entry = |name: &str, pem: &str| (name.to_owned(), ByteString(pem.as_bytes().to_vec()));
    let secret = Secret {
        metadata: metadata(key),
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some([entry("tls.crt", chain), entry("tls.key", private_key)].into()),
        ..Secret::default()
    };
    Change::Set(Object::Secret(Arc::new(secret)), None)
}

fn metadata(key: &ObjectKey) -> ObjectMeta {
    ObjectMeta {
        name: Some(key.name.to_string()),
        namespace: Some(key.namespace.to_string()),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn existing_services_and_secrets_are_not_missing() {
        let ingress: Ingress = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "tls": [{"secretName": "tls"}, {"secretName": "own", "hosts": ["b.test"]}],
                "defaultBackend": {"service": {"name": "rest", "port": {"name": "http"}}},
                "rules": [{"host": "a.test", "http": {"paths": [
                    {"pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
                    {"pathType": "Prefix", "backend": {"service": {"name": "there", "port": {"number": 80}}}},
                ]}}]
            }
        }))
        .unwrap();
        let service: Service =
            serde_json::from_value(json!({"metadata": {"name": "there", "namespace": "shop"}})).unwrap();
        let changes = [
            Change::Set(Object::Ingress(Arc::new(ingress)), None),
            Change::Set(Object::Service(Arc::new(service)), None),
        ];
        let found = missing(&changes);
        let services: Vec<_> = found.services.iter().map(|it| it.reference().key.to_string()).collect();
        assert_eq!(services, ["shop/rest", "shop/web"]);
        let hosts = |name: &str, host: &str| (ObjectKey::new("shop", name), vec![host.to_owned()]);
        assert_eq!(found.certificates, [hosts("own", "b.test"), hosts("tls", "a.test")]);
    }
}
