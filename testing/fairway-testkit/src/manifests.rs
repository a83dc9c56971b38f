//! A directory of Kubernetes YAML that a test changes while it is watched, and the few objects tests write.
//!
//! Owns the directory and its files. Does not validate objects: invalid ones are written as given.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A temporary directory of manifests; it is removed with this value.
#[derive(Debug)]
pub struct Manifests {
    directory: TempDir,
    /// New files are written here first, so that a rename moves them into the watched directory atomically.
    nursery: TempDir,
}

impl Manifests {
    /// An empty directory.
    pub fn new() -> Self {
        let fresh = || TempDir::with_prefix("fairway-").expect("a temporary directory");
        Self { directory: fresh(), nursery: fresh() }
    }

    /// The directory to serve.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes `file` atomically: watchers see the old content or the new, never a part.
    pub fn put(&self, file: &str, yaml: impl AsRef<str>) -> PathBuf {
        let (born, place) = (self.nursery.path().join("born.yaml"), self.path().join(file));
        let written = parent(&place)
            .and_then(|()| std::fs::write(&born, yaml.as_ref()))
            .and_then(|()| std::fs::rename(&born, &place));
        written.unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        place
    }

    /// Writes `file` in place, as an editor without care does.
    pub fn overwrite(&self, file: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(file);
        let written = parent(&path).and_then(|()| std::fs::write(&path, content.as_ref()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Removes `file`.
    pub fn remove(&self, file: &str) {
        let path = self.path().join(file);
        std::fs::remove_file(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

impl Default for Manifests {
    fn default() -> Self {
        Self::new()
    }
}

fn parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// An Ingress (`networking.k8s.io/v1`) that becomes YAML.
#[derive(Clone, Debug)]
#[must_use]
pub struct Ingress(Value);

impl Ingress {
    /// An Ingress of class `nginx` without rules.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": name, "namespace": namespace },
            "spec": { "ingressClassName": "nginx" },
        }))
    }

    /// Sets another class, or none.
    pub fn class(mut self, class: Option<&str>) -> Self {
        match (class, self.0["spec"].as_object_mut()) {
            (None, Some(spec)) => drop(spec.remove("ingressClassName")),
            (class, _) => self.0["spec"]["ingressClassName"] = json!(class),
        }
        self
    }

    /// Created at this time (RFC 3339): the older of two Ingresses comes first.
    pub fn created(mut self, time: &str) -> Self {
        self.0["metadata"]["creationTimestamp"] = json!(time);
        self
    }

    /// Sets an annotation; a name without a slash gets the prefix `nginx.ingress.kubernetes.io/`.
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        let name =
            if name.contains('/') { name.to_owned() } else { format!("nginx.ingress.kubernetes.io/{name}") };
        self.0["metadata"]["annotations"][name] = json!(value);
        self
    }

    /// Sends `path` (type Prefix) of `host` to `service`; an empty host is every host.
    pub fn route(self, host: &str, path: &str, service: (&str, u16)) -> Self {
        self.typed_route(host, path, "Prefix", service)
    }

    /// Sends a path of a given type of `host` to `service`; an empty host is every host.
    pub fn typed_route(self, host: &str, path: &str, path_type: &str, service: (&str, u16)) -> Self {
        let path = json!({ "path": path, "pathType": path_type, "backend": backend(service) });
        let mut rule = json!({ "http": { "paths": [path] } });
        if !host.is_empty() {
            rule["host"] = json!(host);
        }
        self.push("rules", rule)
    }

    /// Terminates TLS for `hosts` with `secret`; without one, with the default certificate.
    pub fn tls(self, secret: Option<&str>, hosts: &[&str]) -> Self {
        let mut tls = json!({ "hosts": hosts });
        if let Some(secret) = secret {
            tls["secretName"] = json!(secret);
        }
        self.push("tls", tls)
    }

    /// Sends everything else to `service`.
    pub fn default_backend(mut self, service: (&str, u16)) -> Self {
        self.0["spec"]["defaultBackend"] = backend(service);
        self
    }

    /// The object as YAML.
    pub fn yaml(&self) -> String {
        yaml(&self.0)
    }

    /// The object.
    pub(crate) fn into_value(self) -> Value {
        self.0
    }

    fn push(mut self, list: &str, item: Value) -> Self {
        match &mut self.0["spec"][list] {
            Value::Array(items) => items.push(item),
            none => *none = json!([item]),
        }
        self
    }
}

fn backend((service, port): (&str, u16)) -> Value {
    json!({ "service": { "name": service, "port": { "number": port } } })
}

/// A Service with one port named `http`, whose target port is the same number.
pub fn service(namespace: &str, name: &str, port: u16) -> String {
    yaml(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": namespace },
        "spec": { "ports": [{ "name": "http", "port": port, "targetPort": port }] },
    }))
}

/// As many EndpointSlices of `service` as its addresses have ports, in one file; an empty one without addresses. All endpoints are
/// ready, and the port of each slice is named `http`.
pub fn endpoint_slices(namespace: &str, service: &str, addresses: &[SocketAddr]) -> String {
    let nowhere: Vec<_> = addresses.iter().map(|address| (*address, None)).collect();
    endpoint_slices_in_zones(namespace, service, &nowhere)
}

/// The same of endpoints in zones, for whose clients they are, as Kubernetes writes them for a Service with `PreferSameZone`.
pub fn endpoint_slices_in_zones(
    namespace: &str,
    service: &str,
    addresses: &[(SocketAddr, Option<&str>)],
) -> String {
    let mut slices: Vec<((u16, bool), Vec<Value>)> = Vec::new();
    for (address, zone) in addresses {
        let mut endpoint = json!({ "addresses": [address.ip()], "conditions": { "ready": true } });
        if let Some(zone) = zone {
            endpoint["zone"] = json!(zone);
            endpoint["hints"] = json!({ "forZones": [{ "name": zone }] });
        }
        let address_kind = (address.port(), address.is_ipv6());
        match slices.iter_mut().find(|(one, _)| *one == address_kind) {
            Some((_, endpoints)) => endpoints.push(endpoint),
            None => slices.push((address_kind, vec![endpoint])),
        }
    }
    let slice = |(number, ((port, is_ipv6), endpoints)): (usize, ((u16, bool), Vec<Value>))| {
        let ports =
            if port == 0 { json!([]) } else { json!([{ "name": "http", "port": port, "protocol": "TCP" }]) };
        yaml(&json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{service}-{number}"), "namespace": namespace,
                "labels": { "kubernetes.io/service-name": service },
            },
            "addressType": if is_ipv6 { "IPv6" } else { "IPv4" }, "ports": ports, "endpoints": endpoints,
        }))
    };
    if slices.is_empty() {
        slices.push(((0, false), Vec::new()));
    }
    slices.into_iter().enumerate().map(slice).collect::<Vec<_>>().join("---\n")
}

/// A Service with its EndpointSlices in one file: what most tests mean by a backend.
pub fn service_with_endpoints(namespace: &str, name: &str, port: u16, addresses: &[SocketAddr]) -> String {
    format!("{}---\n{}", service(namespace, name, port), endpoint_slices(namespace, name, addresses))
}

/// An IngressClass `name` of `controller`.
pub fn ingress_class(name: &str, controller: &str) -> String {
    yaml(&json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": { "name": name },
        "spec": { "controller": controller },
    }))
}

/// A ConfigMap with text entries.
pub fn config_map(namespace: &str, name: &str, entries: &[(&str, &str)]) -> String {
    let data: BTreeMap<_, _> = entries.iter().copied().collect();
    yaml(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace }, "data": data,
    }))
}

/// A value in block style, as people write it; text is quoted as in JSON, which is YAML.
pub(crate) fn yaml(value: &Value) -> String {
    let entry = |head: &str, value: &Value| {
        let below = yaml(value);
        match value {
            Value::Object(map) if !map.is_empty() => format!("{head}\n{}", indented(&below)),
            Value::Array(list) if !list.is_empty() => format!("{head}\n{}", indented(&below)),
            _ => format!("{head} {below}"),
        }
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().map(|(name, value)| entry(&format!("{name}:"), value)).collect()
        }
        Value::Array(list) if !list.is_empty() => list.iter().map(|value| entry("-", value)).collect(),
        value => format!("{value}\n"),
    }
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}
