//! The objects that every proof serves: a class, one host with a certificate, a Service. Knows nothing of load.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::certificates::{Authority, KeyKind, Leaf, Validity};
use crate::client::{Client, TlsOffer};
use crate::manifests::{
    Ingress, Manifests, config_map, endpoint_slices, endpoint_slices_in_zones, ingress_class, service,
};
use crate::process::Fairway;

/// The host of every request.
pub const HOST: &str = "proof.test";
const NAMESPACE: &str = "proof";
const SERVICE: &str = "backend";
const SETTINGS: &str = "settings";
const WORKERS: [&str; 4] = ["--workers", "2", "--access-log", "off"];

/// The scheme of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// HTTP in the clear.
    Plain,
    /// HTTPS.
    Tls,
}

impl Scheme {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Tls];
}

/// A directory of manifests and the authority behind its certificates.
pub struct Site {
    manifests: Manifests,
    authority: Authority,
    offer: TlsOffer,
    records: TempDir,
}

impl Site {
    /// The arguments that make a process read the settings of [`Site::write_settings`].
    pub const SETTINGS: [&str; 2] = ["--configmap", "proof/settings"];

    /// A site with a class, a certificate, and an Ingress for [`HOST`] over a Service without endpoints.
    pub fn new() -> Self {
        let (manifests, authority) = (Manifests::new(), Authority::new("proof"));
        // Sessions are resumed, as browsers do: the configuration is shared by all clients.
        let offer = TlsOffer::new(authority.client_config(), HOST);
        let records = TempDir::with_prefix("fairway-").expect("a temporary directory");
        let site = Self { manifests, authority, offer, records };
        site.manifests.put("class.yaml", ingress_class("nginx", "fairway.dev/ingress-controller"));
        site.manifests.put("service.yaml", service(NAMESPACE, SERVICE, 80));
        site.certify(&site.leaf());
        site.list(&[]);
        site.manifests.put("ingress.yaml", main_ingress().yaml());
        site
    }

    /// Takes request bodies of any size.
    pub(crate) fn allow_any_body(&self) {
        self.manifests.put("ingress.yaml", main_ingress().annotation("proxy-body-size", "0").yaml());
    }

    /// Entries of the settings ConfigMap, for a process that is started with [`Site::SETTINGS`].
    pub fn write_settings(&self, entries: &[(&str, &str)]) {
        self.manifests.put("settings.yaml", config_map(NAMESPACE, SETTINGS, entries));
    }

    /// The directory.
    pub fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    /// The file in which backends record requests, outside of the served directory.
    pub fn numbers(&self) -> PathBuf {
        self.records.path().join("numbers")
    }

    /// Another certificate for the host.
    pub fn leaf(&self) -> Leaf {
        self.authority.leaf(&[HOST])
    }

    /// A certificate for the host with an RSA key, whose signatures cost the server most.
    pub(crate) fn rsa_leaf(&self) -> Leaf {
        self.authority.issue(&[HOST], KeyKind::Rsa2048, Validity::Current)
    }

    /// Serves with `leaf` from now on.
    pub(crate) fn certify(&self, leaf: &Leaf) {
        self.manifests.put("certificate.yaml", leaf.secret_yaml(NAMESPACE, "certificate"));
    }

    /// Lists `addresses`, all of them ready, as the Service's endpoints.
    pub fn list(&self, addresses: &[SocketAddr]) {
        self.manifests.put("endpoints.yaml", endpoint_slices(NAMESPACE, SERVICE, addresses));
    }

    /// The same of addresses in zones.
    pub(super) fn list_in_zones(&self, addresses: &[(SocketAddr, Option<&str>)]) {
        self.manifests.put("endpoints.yaml", endpoint_slices_in_zones(NAMESPACE, SERVICE, addresses));
    }

    /// Writes an Ingress that redirects `path` to `https://LABEL.test/`; returns the time just before its file was renamed
    /// into place.
    pub fn redirect(&self, path: &str, label: &str) -> Instant {
        let ingress = Ingress::new(NAMESPACE, "redirect")
            .annotation("ssl-redirect", "false")
            .annotation("temporal-redirect", &format!("https://{label}.test/"))
            .route(HOST, path, (SERVICE, 80));
        let yaml = ingress.yaml();
        let began = Instant::now();
        self.manifests.put("redirect.yaml", yaml);
        began
    }

    /// Starts `binary` with two workers and waits until it is ready.
    pub async fn serve(&self, binary: &Path, flags: &[&str]) -> Fairway {
        let arguments = [&WORKERS, flags].concat();
        Fairway::ready(binary, self.manifests.path(), &arguments).await
    }

    /// As [`Site::serve`] in a process that may open `limit` files.
    pub(crate) async fn serve_with_open_files(&self, limit: u32, binary: &Path, flags: &[&str]) -> Fairway {
        let manifests = self.manifests.path().display().to_string();
        let arguments = [&WORKERS, flags, &["--manifests", &manifests]].concat();
        Fairway::start_with_open_files(limit, binary, &arguments).until_ready().await
    }

    /// The address for clients of `scheme`.
    pub fn endpoint(&self, fairway: &Fairway, scheme: Scheme) -> Endpoint {
        match scheme {
            Scheme::Plain => Endpoint::plain(fairway.http),
            Scheme::Tls => Endpoint { address: fairway.https, tls: Some(self.offer.clone()) },
        }
    }
}

fn main_ingress() -> Ingress {
    Ingress::new(NAMESPACE, "main")
        .annotation("ssl-redirect", "false")
        .tls(Some("certificate"), &[HOST])
        .route(HOST, "/", (SERVICE, 80))
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

/// The address and scheme of clients.
#[derive(Clone, Debug)]
pub struct Endpoint {
    address: SocketAddr,
    tls: Option<TlsOffer>,
}

impl Endpoint {
    /// In the clear at `address`.
    pub fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    /// Makes a full handshake each time, in which the certificate is shown.
    pub(crate) fn without_resumption(mut self) -> Self {
        if let Some(offer) = &mut self.tls {
            offer.config.resumption = rustls::client::Resumption::disabled();
        }
        self
    }

    /// A new connection.
    pub async fn connect(&self) -> std::io::Result<Client> {
        match &self.tls {
            None => Client::connect(self.address).await,
            Some(offer) => Client::connect_tls(self.address, offer).await,
        }
    }
}
