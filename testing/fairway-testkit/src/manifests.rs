//! A directory of Kubernetes YAML that a test changes while it is watched, and the few objects tests write.
//!
//! Owns the directory and how files come into it. Knows no rule of Kubernetes: wrong objects are written as told.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary directory of manifests; it is removed with this value.
#[derive(Debug)]
pub struct Manifests {
    directory: TempDir,
    /// New files are born here, so that a rename brings them into the watched directory whole.
    nursery: TempDir,
}

impl Manifests {
    /// An empty directory.
    ///
    /// # Panics
    ///
    /// When no temporary directory can be made.
    #[must_use]
    pub fn new() -> Self {
        let fresh = || TempDir::with_prefix("fairway-").expect("a temporary directory");
        Self { directory: fresh(), nursery: fresh() }
    }

    /// The directory to serve.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes `file` atomically: whoever watches sees the old content or the new, never a part.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn put(&self, file: &str, yaml: impl AsRef<str>) -> PathBuf {
        let (born, place) = (self.nursery.path().join("born.yaml"), self.path().join(file));
        let written = parent(&place)
            .and_then(|()| std::fs::write(&born, yaml.as_ref()))
            .and_then(|()| std::fs::rename(&born, &place));
        written.unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        place
    }

    /// Writes `file` in place, as an editor without care does.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn overwrite(&self, file: &str, content: impl AsRef<[u8]>) {
        let place = self.path().join(file);
        let written = parent(&place).and_then(|()| std::fs::write(&place, content.as_ref()));
        written.unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    }

    /// Removes `file`.
    ///
    /// # Panics
    ///
    /// When it is not there.
    pub fn remove(&self, file: &str) {
        let place = self.path().join(file);
        std::fs::remove_file(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    }
}

impl Default for Manifests {
    fn default() -> Self {
        Self::new()
    }
}

fn parent(place: &Path) -> io::Result<()> {
    place.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// An Ingress (`networking.k8s.io/v1`) that becomes YAML.
#[derive(Clone, Debug)]
pub struct Ingress {
    namespace: String,
    name: String,
    class: Option<String>,
    created: Option<String>,
    annotations: Vec<(String, String)>,
    tls: Vec<(Option<String>, Vec<String>)>,
    rules: Vec<IngressRule>,
    default_backend: Option<(String, u16)>,
}

#[derive(Clone, Debug)]
struct IngressRule {
    host: Option<String>,
    path: String,
    path_type: &'static str,
    service: String,
    port: u16,
}

impl Ingress {
    /// An Ingress of class `nginx` without rules.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            class: Some("nginx".to_owned()),
            created: None,
            annotations: Vec::new(),
            tls: Vec::new(),
            rules: Vec::new(),
            default_backend: None,
        }
    }

    /// Of another class, or of none.
    #[must_use]
    pub fn class(mut self, class: Option<&str>) -> Self {
        self.class = class.map(str::to_owned);
        self
    }

    /// Created at this time (RFC 3339): the older of two Ingresses comes first.
    #[must_use]
    pub fn created(mut self, time: &str) -> Self {
        self.created = Some(time.to_owned());
        self
    }

    /// Adds an annotation; a name without a slash gets the prefix `nginx.ingress.kubernetes.io/`.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        let name =
            if name.contains('/') { name.to_owned() } else { format!("nginx.ingress.kubernetes.io/{name}") };
        self.annotations.push((name, value.to_owned()));
        self
    }

    /// Sends `path` (type Prefix) of `host` to `service`; an empty host is every host.
    #[must_use]
    pub fn route(self, host: &str, path: &str, service: (&str, u16)) -> Self {
        self.typed_route(host, path, "Prefix", service)
    }

    /// Sends a path of a given type of `host` to `service`; an empty host is every host.
    #[must_use]
    pub fn typed_route(
        mut self,
        host: &str,
        path: &str,
        path_type: &'static str,
        (service, port): (&str, u16),
    ) -> Self {
        let host = (!host.is_empty()).then(|| host.to_owned());
        let (path, service) = (path.to_owned(), service.to_owned());
        self.rules.push(IngressRule { host, path, path_type, service, port });
        self
    }

    /// Terminates TLS for `hosts` with `secret`; without one, with the default certificate.
    #[must_use]
    pub fn tls(mut self, secret: Option<&str>, hosts: &[&str]) -> Self {
        self.tls.push((secret.map(str::to_owned), hosts.iter().map(|&host| host.to_owned()).collect()));
        self
    }

    /// Sends everything else to `service`.
    #[must_use]
    pub fn default_backend(mut self, (service, port): (&str, u16)) -> Self {
        self.default_backend = Some((service.to_owned(), port));
        self
    }

    /// The object.
    #[must_use]
    pub fn yaml(&self) -> String {
        let mut yaml = "apiVersion: networking.k8s.io/v1\nkind: Ingress\n".to_owned();
        yaml += &metadata(&self.namespace, &self.name);
        if let Some(created) = &self.created {
            yaml += &format!("  creationTimestamp: {}\n", quoted(created));
        }
        if !self.annotations.is_empty() {
            yaml += "  annotations:\n";
        }
        for (name, value) in &self.annotations {
            yaml += &format!("    {name}: {}\n", quoted(value));
        }
        yaml += "spec:\n";
        if let Some(class) = &self.class {
            yaml += &format!("  ingressClassName: {class}\n");
        }
        if let Some((service, port)) = &self.default_backend {
            yaml += &format!(
                "  defaultBackend:\n    service:\n      name: {service}\n      port:\n        number: {port}\n"
            );
        }
        yaml + &self.tls_yaml() + &self.rules_yaml()
    }

    fn tls_yaml(&self) -> String {
        let mut yaml = if self.tls.is_empty() { String::new() } else { "  tls:\n".to_owned() };
        for (secret, hosts) in &self.tls {
            let hosts: Vec<String> = hosts.iter().map(|host| quoted(host)).collect();
            yaml += &format!("  - hosts: [{}]\n", hosts.join(", "));
            if let Some(secret) = secret {
                yaml += &format!("    secretName: {secret}\n");
            }
        }
        yaml
    }

    fn rules_yaml(&self) -> String {
        let mut yaml = if self.rules.is_empty() { String::new() } else { "  rules:\n".to_owned() };
        for IngressRule { host, path, path_type, service, port } in &self.rules {
            let first = host.as_ref().map_or(String::new(), |host| format!("host: {}\n    ", quoted(host)));
            yaml += &format!(
                "  - {first}http:\n      paths:\n      - path: {}\n        pathType: {path_type}\n        backend:\n          \
                 service:\n            name: {service}\n            port:\n              number: {port}\n",
                quoted(path)
            );
        }
        yaml
    }
}

/// A Service with one port named `http`, whose target port is the same number.
#[must_use]
pub fn service(namespace: &str, name: &str, port: u16) -> String {
    let head = metadata(namespace, name);
    format!(
        "apiVersion: v1\nkind: Service\n{head}spec:\n  ports:\n  - name: http\n    port: {port}\n    targetPort: {port}\n"
    )
}

/// An EndpointSlice of `service` with ready endpoints, its port named `http`. A slice has one port, so all addresses
/// must have the same; [`endpoint_slices`] writes any.
///
/// # Panics
///
/// When the ports differ.
#[must_use]
pub(crate) fn endpoint_slice(namespace: &str, service: &str, name: &str, addresses: &[SocketAddr]) -> String {
    let port = addresses.first().map_or(0, SocketAddr::port);
    assert!(addresses.iter().all(|address| address.port() == port), "one port per slice: {addresses:?}");
    let family = if addresses.first().is_some_and(SocketAddr::is_ipv6) { "IPv6" } else { "IPv4" };
    let head = metadata(namespace, name);
    let mut yaml = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n{head}  labels:\n    kubernetes.io/service-name: {service}\n\
         addressType: {family}\n"
    );
    yaml += &if addresses.is_empty() {
        "ports: []\nendpoints: []\n".to_owned()
    } else {
        format!("ports:\n- name: http\n  port: {port}\n  protocol: TCP\nendpoints:\n")
    };
    for address in addresses {
        yaml += &format!(
            "- addresses: [{}]\n  conditions:\n    ready: true\n",
            quoted(&address.ip().to_string())
        );
    }
    yaml
}

/// As many EndpointSlices of `service` as its addresses have ports, in one file; an empty one without addresses.
#[must_use]
pub fn endpoint_slices(namespace: &str, service: &str, addresses: &[SocketAddr]) -> String {
    let mut slices: Vec<Vec<SocketAddr>> = Vec::new();
    for address in addresses {
        let fits = |slice: &&mut Vec<SocketAddr>| {
            slice[0].port() == address.port() && slice[0].is_ipv6() == address.is_ipv6()
        };
        match slices.iter_mut().find(fits) {
            Some(slice) => slice.push(*address),
            None => slices.push(vec![*address]),
        }
    }
    if slices.is_empty() {
        slices.push(Vec::new());
    }
    let slices: Vec<String> = slices
        .iter()
        .enumerate()
        .map(|(number, slice)| endpoint_slice(namespace, service, &format!("{service}-{number}"), slice))
        .collect();
    slices.join("---\n")
}

/// A Service with its EndpointSlices in one file: what most tests mean by a backend.
#[must_use]
pub fn service_with_endpoints(namespace: &str, name: &str, port: u16, addresses: &[SocketAddr]) -> String {
    format!("{}---\n{}", service(namespace, name, port), endpoint_slices(namespace, name, addresses))
}

/// An IngressClass `name` of `controller`.
#[must_use]
pub fn ingress_class(name: &str, controller: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata:\n  name: {name}\nspec:\n  controller: {controller}\n"
    )
}

/// A ConfigMap with text entries.
#[must_use]
pub fn config_map(namespace: &str, name: &str, entries: &[(&str, &str)]) -> String {
    let mut yaml = format!("apiVersion: v1\nkind: ConfigMap\n{}data:\n", metadata(namespace, name));
    for (key, value) in entries {
        yaml += &format!("  {key}: {}\n", quoted(value));
    }
    yaml
}

fn metadata(namespace: &str, name: &str) -> String {
    format!("metadata:\n  name: {name}\n  namespace: {namespace}\n")
}

/// A JSON string is a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
