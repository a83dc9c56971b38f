//! The environment of every peer: its own directory, loopback ports, the backend, and one shared certificate. Starts
//! nothing.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

use crate::backend::Upstream;
use crate::body::Body;
use crate::scenario::{Downstream, ForwardedUnit, Scenario};
pub(crate) use crate::scenario::{HOST, PREFIX};
use fairway_lab_traffic::backend::Spoken;
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize};

/// Idle connections to the backend that every peer keeps: more than any scenario has requests at a time.
pub(crate) const IDLE_UPSTREAMS: usize = 1024;

/// Seconds after which a session of datagrams is over. Each block opens new ones, and those of the blocks before must not
/// fill what a client may have.
const DATAGRAMS_IDLE: u32 = 2;

/// The headers every peer adds to responses when it edits them: those of ingress-nginx for `enable-cors`, and one more.
pub(crate) const ANSWER_FIELDS: [(&str, &str); 6] = [
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Credentials", "true"),
    ("Access-Control-Allow-Methods", "GET, PUT, POST, DELETE, PATCH, OPTIONS"),
    (
        "Access-Control-Allow-Headers",
        "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization",
    ),
    ("Access-Control-Max-Age", "1728000"),
    ("X-One", "one"),
];

/// Seconds for which a forwarded connection may be idle.
const CONNECTIONS_IDLE: u32 = 600;

/// An RSA-2048 certificate and its key, both PEM.
pub(crate) struct Certificate {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Certificate {
    pub(crate) fn generate() -> anyhow::Result<Self> {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let chain = CertificateParams::new([HOST.to_owned()])?.self_signed(&key)?.pem();
        Ok(Self { chain, key: key.serialize_pem() })
    }
}

pub(crate) struct Site {
    pub(crate) scenario: Scenario,
    pub(crate) directory: PathBuf,
    pub(crate) http: SocketAddr,
    pub(crate) https: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) backend: SocketAddr,
    /// Worker threads or processes.
    pub(crate) workers: usize,
    /// Whether responses must have a Content-Length; not through a service that may change their bodies in pieces.
    pub(crate) announces_length: bool,
    /// The configuration as written, for the report.
    pub(crate) written: Vec<(String, String)>,
}

impl Site {
    pub(crate) fn prepare(
        root: &Path,
        peer: &str,
        backend: &Upstream,
        scenario: &Scenario,
        workers: usize,
    ) -> anyhow::Result<Self> {
        let directory = root.join(peer.replace(' ', "-"));
        fs::create_dir_all(&directory)?;
        let [http, https, admin] = free_ports()?;
        Ok(Self {
            scenario: *scenario,
            directory,
            http,
            https,
            admin,
            backend: backend.address(scenario.upstream),
            workers,
            announces_length: true,
            written: Vec::new(),
        })
    }

    /// Whether requests are calls of gRPC.
    pub(crate) fn is_grpc(&self) -> bool {
        self.scenario.upstream == Spoken::Grpc
    }

    /// Whether the backend speaks HTTP/2.
    pub(crate) fn has_h2c_upstream(&self) -> bool {
        self.scenario.upstream != Spoken::Http1
    }

    /// Bytes that every peer may hold for one direction of a connection that it forwards as it comes. Fairway's own numbers: it
    /// reads 64 KiB, and 256 KiB once a connection has had much to move.
    pub(crate) fn stream_buffer(&self) -> usize {
        if self.is_bulk() { 256 * 1024 } else { 64 * 1024 }
    }

    /// Whether much is moved in one piece.
    pub(crate) fn is_bulk(&self) -> bool {
        self.scenario.body == Body::Megabyte
    }

    /// Idle timeout in seconds of every peer for TCP and UDP forwarding.
    pub(crate) fn stream_idle(&self) -> u32 {
        if self.scenario.forwarded == ForwardedUnit::Datagrams { DATAGRAMS_IDLE } else { CONNECTIONS_IDLE }
    }

    /// The protocols that ALPN may choose: what the scenario's clients offer.
    pub(crate) fn alpn(&self) -> &'static str {
        match self.scenario.downstream {
            Downstream::Http1 => "http/1.1",
            Downstream::Http2 { .. } => "h2",
            Downstream::Http3 { .. } => "h3",
        }
    }

    /// Writes a configuration file and remembers it for the report.
    pub(crate) fn write(&mut self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let directory = self.directory.display().to_string();
        self.written.push((name.to_owned(), text.replace(&directory, "DIR")));
        self.write_secret(name, text)
    }

    /// Writes a file that the report does not show.
    pub(crate) fn write_secret(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.directory.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, text)?;
        Ok(path)
    }
}

/// Free ports, for datagrams as well. All are bound until all are chosen, so that they differ.
fn free_ports() -> anyhow::Result<[SocketAddr; 3]> {
    let bind = || -> std::io::Result<TcpListener> {
        loop {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            match UdpSocket::bind(listener.local_addr()?) {
                Ok(_) => return Ok(listener),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
    };
    let sockets = [bind()?, bind()?, bind()?];
    Ok([sockets[0].local_addr()?, sockets[1].local_addr()?, sockets[2].local_addr()?])
}
