//! Connects to endpoints: TCP, and TLS if the backend uses it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fairway_connection::sides::{Hop, HopProtocol};
use fairway_connection::upstream::DescriptorRoom;
use fairway_connection::upstream::endpoint::EndpointIdentity;
use fairway_http::HeadLimits;
use fairway_http2::{PeerEvent, PeerEventKind};
use fairway_model::{BackendProtocol, UpstreamTls};
use fairway_net::clock::Instant;
use fairway_net::shortage::Shortage;
use fairway_net::transport::{MaybeTls, UpstreamStream};
use fairway_net::wire::Workspace;
use rustls::ClientConfig;
use rustls::sign::CertifiedKey;
use rustls_pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::fault::Fault;
use crate::metrics::EventCounts;
use crate::metrics::record::Microseconds;
use crate::network::Network;
use crate::tls::{Identities, client_config};

/// A connect in progress. It borrows nothing, so it can outlive the exchange that started it.
pub(crate) type Connecting<H> = Pin<Box<dyn Future<Output = Result<H, Fault>>>>;

/// A new connection.
pub(crate) struct Connected<H> {
    pub(crate) hop: H,
    /// The part of the connect that TLS took; 0 without TLS.
    pub(crate) handshake: Microseconds,
}

/// The key of TLS settings, in addition to the client certificate.
type TlsKind = (UpstreamTls, BackendProtocol);

/// Cached TLS settings, with their session cache.
struct KnownTls {
    config: Arc<ClientConfig>,
    /// The client certificate, if the backend names one.
    certified: Option<Arc<CertifiedKey>>,
    /// The backend settings from which they were made.
    tls: Weak<UpstreamTls>,
}

impl KnownTls {
    fn shows(&self, certified: Option<&Arc<CertifiedKey>>) -> bool {
        self.certified.as_ref().map(Arc::as_ptr) == certified.map(Arc::as_ptr)
    }
}

/// Connects to endpoints, and caches TLS settings with their sessions.
pub(crate) struct Connector<N: Network> {
    context: Rc<ConnectContext<N>>,
    room: Rc<DescriptorRoom<N::Hop>>,
    workspace: Rc<Workspace>,
    /// Counters of HTTP/2 events of endpoints.
    events: EventCounts,
    tls: RefCell<HashMap<TlsKind, KnownTls>>,
}

/// What every connect needs.
struct ConnectContext<N> {
    network: N,
    /// Limits of response heads.
    heads: HeadLimits,
}

impl<N: Network> Connector<N> {
    pub(crate) fn new(
        network: N,
        heads: HeadLimits,
        room: Rc<DescriptorRoom<N::Hop>>,
        workspace: Rc<Workspace>,
        events: EventCounts,
    ) -> Self {
        let context = Rc::new(ConnectContext { network, heads });
        Self { context, room, workspace, events, tls: RefCell::new(HashMap::new()) }
    }

    /// Starts a connect, which ends within `limit`.
    pub(crate) fn start(
        &self,
        to: &EndpointIdentity,
        identities: &Identities,
        limit: Duration,
    ) -> Connecting<Connected<N::Hop>> {
        let context = Rc::clone(&self.context);
        let (room, workspace) = (Rc::clone(&self.room), Rc::clone(&self.workspace));
        let (address, protocol, events) = (to.address, to.protocol, self.events.clone());
        let secure = match self.tls(to, identities) {
            Ok(secure) => secure,
            Err(fault) => return Box::pin(ready(Err(fault))),
        };
        Box::pin(async move {
            // Created where it is awaited: as an argument it would need its room twice.
            let connect = async {
                let stream =
                    open_stream(&context.network, &room, address).await.map_err(|error| fault_of(&error))?;
                context.network.enable_keepalive(&stream);
                let Some((tls, name)) = secure else {
                    let spoken = match protocol {
                        BackendProtocol::H2c | BackendProtocol::Http2 => HopProtocol::Http2,
                        BackendProtocol::Http1 | BackendProtocol::Auto => HopProtocol::Http1,
                    };
                    let hop = context.network.hop(MaybeTls::Plain(stream), spoken, &workspace, context.heads);
                    return Ok(Connected { hop, handshake: Microseconds::ZERO });
                };
                // Boxed: otherwise every plain connect would reserve room for it, and a burst of requests makes thousands at
                // once.
                let handshake = Box::pin(async move {
                    let began = Instant::now();
                    let stream = TlsConnector::from(tls).connect(name, stream).await;
                    stream.map(|stream| (stream, began.elapsed()))
                });
                let (stream, took) = handshake.await.map_err(|_| Fault::UpstreamTls)?;
                let spoken = negotiated_protocol(protocol, stream.get_ref().1.alpn_protocol())?;
                let secured = MaybeTls::Tls(Box::new(stream));
                let hop = context.network.hop(secured, spoken, &workspace, context.heads);
                Ok(Connected { hop, handshake: took.into() })
            };
            let mut connected = timeout(limit, connect).await.unwrap_or(Err(Fault::ConnectTimeout))?;
            connected.hop.set_event_observer(count_events(address, events));
            Ok(connected)
        })
    }

    /// Starts a connect for a raw stream; only `ahead` is sent first, unencrypted. The connect ends within `limit`. TLS is used
    /// if the backend uses it and the client's TLS ends here (`inside`).
    pub(crate) fn stream(
        &self,
        to: &EndpointIdentity,
        identities: &Identities,
        inside: bool,
        ahead: &Rc<[u8]>,
        limit: Duration,
    ) -> Connecting<UpstreamStream<N::Stream>> {
        let secure = if inside { self.tls(to, identities) } else { Ok(None) };
        let secure = match secure {
            Ok(secure) => secure,
            Err(fault) => return Box::pin(ready(Err(fault))),
        };
        let (context, room) = (Rc::clone(&self.context), Rc::clone(&self.room));
        let (address, ahead) = (to.address, Rc::clone(ahead));
        Box::pin(async move {
            let connect = async {
                let mut stream =
                    open_stream(&context.network, &room, address).await.map_err(|error| fault_of(&error))?;
                if !ahead.is_empty() {
                    stream.write_all(&ahead).await.map_err(|_| Fault::ConnectFailed)?;
                }
                let Some((config, name)) = secure else { return Ok(MaybeTls::Plain(stream)) };
                let mut config = ClientConfig::clone(&config);
                config.alpn_protocols.clear();
                let tls = TlsConnector::from(Arc::new(config));
                let stream = Box::pin(tls.connect(name, stream)).await.map_err(|_| Fault::UpstreamTls)?;
                Ok(MaybeTls::Tls(Box::new(stream)))
            };
            timeout(limit, connect).await.unwrap_or(Err(Fault::ConnectTimeout))
        })
    }

    /// The TLS settings and server name for `to`; `None` if the backend does not use TLS.
    fn tls(
        &self,
        to: &EndpointIdentity,
        identities: &Identities,
    ) -> Result<Option<(Arc<ClientConfig>, ServerName<'static>)>, Fault> {
        let Some(tls) = &to.tls else { return Ok(None) };
        let config = self.tls_config(tls, to.protocol, identities)?;
        // Without a name the address is used: rustls sends no SNI for addresses (RFC 6066 §3).
        let name = match &tls.server_name {
            Some(name) => ServerName::try_from(name.to_string()).map_err(|_| Fault::UpstreamTls)?,
            None => ServerName::IpAddress(to.address.ip().into()),
        };
        Ok(Some((config, name)))
    }

    fn tls_config(
        &self,
        tls: &Arc<UpstreamTls>,
        protocol: BackendProtocol,
        identities: &Identities,
    ) -> Result<Arc<ClientConfig>, Fault> {
        let kind = (UpstreamTls::clone(tls), protocol);
        let certified = tls.client_certificate.as_ref().and_then(|key| identities.certified(key));
        if let Some(known) = self.tls.borrow().get(&kind).filter(|known| known.shows(certified)) {
            return Ok(Arc::clone(&known.config));
        }
        let mut client_config = client_config(tls, identities).map_err(|_| Fault::UpstreamTls)?;
        client_config.alpn_protocols = offered_alpn(protocol).iter().map(|name| name.to_vec()).collect();
        let config = Arc::new(client_config);
        let connector =
            KnownTls { config: Arc::clone(&config), certified: certified.cloned(), tls: Arc::downgrade(tls) };
        let mut known = self.tls.borrow_mut();
        // Settings that no snapshot and no endpoint uses any more.
        known.retain(|_, known| known.tls.strong_count() > 0);
        known.insert(kind, connector);
        Ok(config)
    }
}

/// Counts HTTP/2 events of one connection. Its first fault is logged, later ones are only counted.
fn count_events(endpoint: SocketAddr, events: EventCounts) -> impl Fn(PeerEvent) {
    let is_told = Cell::new(false);
    move |note| {
        events.record(note);
        if note.kind == PeerEventKind::ConnectionFault && !is_told.replace(true) {
            tracing::info!(%endpoint, reason = note.reason, "closing the HTTP/2 connection of an endpoint after a fault");
        }
    }
}

/// The ALPN protocols offered to an endpoint (RFC 7301), preferred first.
fn offered_alpn(protocol: BackendProtocol) -> &'static [&'static [u8]] {
    match protocol {
        BackendProtocol::Http1 => &[b"http/1.1"],
        BackendProtocol::H2c | BackendProtocol::Http2 => &[b"h2"],
        BackendProtocol::Auto => &[b"h2", b"http/1.1"],
    }
}

/// The protocol that an endpoint chose. Without a choice it is HTTP/1.1, which not every backend may use.
fn negotiated_protocol(protocol: BackendProtocol, negotiated: Option<&[u8]>) -> Result<HopProtocol, Fault> {
    match (protocol, negotiated) {
        (BackendProtocol::Http1, _) => Ok(HopProtocol::Http1),
        (_, Some(b"h2")) => Ok(HopProtocol::Http2),
        (BackendProtocol::Auto, _) => Ok(HopProtocol::Http1),
        (BackendProtocol::H2c | BackendProtocol::Http2, _) => Err(Fault::UpstreamTls),
    }
}

/// Opens a TCP stream. If no socket is available, idle connections are closed and it is tried once more.
async fn open_stream<N: Network>(
    network: &N,
    room: &DescriptorRoom<N::Hop>,
    address: SocketAddr,
) -> io::Result<N::Stream> {
    if !room.make_room(0) {
        return Err(Shortage::no_descriptor());
    }
    match network.connect(address).await {
        Err(error) if Shortage::from_error(&error) == Some(Shortage::Sockets) && room.clear() => {
            network.connect(address).await
        }
        connected => connected,
    }
}

/// The fault of a failed connect. A shortage of this process or machine does not blame the endpoint.
pub(crate) fn fault_of(error: &io::Error) -> Fault {
    match Shortage::from_error(error) {
        Some(Shortage::Sockets | Shortage::Ports) => Fault::LocalShortage,
        None if error.kind() == io::ErrorKind::TimedOut => Fault::ConnectTimeout,
        None => Fault::ConnectFailed,
    }
}

#[cfg(test)]
mod tests {
    use crate::tls::{SelfSigned, ServerTls, SessionTickets};
    use fairway_model::{Certificate, Config, Origin, PrivateKey, TlsVersions, UpstreamVerification};
    use fairway_testkit::Authority;

    use super::*;
    use crate::network::TcpNetwork;
    use crate::options::Limits;
    use crate::testing::{ScriptedConnect, TestWorker, config_with_phases, run_local, worker_over};

    #[tokio::test(flavor = "local")]
    async fn a_connect_in_the_clear_has_no_room_for_a_handshake() {
        let network = TcpNetwork { keepalive_timeout: Duration::from_secs(3) };
        let worker = worker_over(network, Limits::default(), 1, |_, _| {});
        let address = ([127, 0, 0, 1], 80).into();
        let (transport, protocol) = (fairway_model::PortProtocol::Tcp, BackendProtocol::Http1);
        let to = EndpointIdentity { address, transport, protocol, tls: None };
        let connecting = worker.connector.start(&to, worker.adopted().identities(), Duration::from_secs(1));
        let bytes = size_of_val(&*connecting);
        // A handshake takes 1,500 more; a burst of requests makes thousands of connects at once.
        assert!(bytes <= 700, "{bytes} bytes");
    }
    fn unverified(client_certificate: Option<&str>) -> Arc<UpstreamTls> {
        Arc::new(UpstreamTls {
            server_name: None,
            verification: UpstreamVerification::Off,
            client_certificate: client_certificate.map(Into::into),
            versions: TlsVersions::Both,
            suites: Vec::new(),
        })
    }

    /// A configuration with a new certificate `client`.
    fn with_certificate() -> Config {
        let (mut config, leaf) = (Config::default(), Authority::new("clients").leaf(&["client"]));
        let certificate = Certificate {
            key: "client".into(),
            origin: Origin::default(),
            chain: leaf.chain_der.iter().map(|der| Arc::from(&**der)).collect(),
            private_key: PrivateKey::from_der(leaf.key_der.secret_pkcs8_der()),
            names: Vec::new(),
            not_after: i64::MAX,
            issued: Arc::default(),
        };
        config.certificates.insert(certificate.key.clone(), Arc::new(certificate));
        config
    }

    #[tokio::test(start_paused = true)]
    async fn an_adoption_reuses_tls_settings() {
        run_local(async {
            let stage =
                TestWorker::with_config(&config_with_phases(1, Vec::new()), |_| ScriptedConnect::Refused);
            let (connector, tls) = (&stage.worker.connector, unverified(None));
            let settings = || {
                let adopted = stage.worker.adopted();
                connector.tls_config(&tls, BackendProtocol::Http1, adopted.identities()).unwrap()
            };
            let before = settings();
            stage.publish(&config_with_phases(2, Vec::new()));
            assert!(Arc::ptr_eq(&before, &settings()), "a change elsewhere ends no session of TLS");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn tls_settings_last_as_long_as_the_certificate_that_they_show_and_their_backend() {
        run_local(async {
            let stage =
                TestWorker::with_config(&config_with_phases(1, Vec::new()), |_| ScriptedConnect::Refused);
            let fallback = Authority::new("stage").leaf(&["stage.invalid"]);
            let fallback = SelfSigned {
                chain: fallback.chain_der.iter().map(|der| der.to_vec()).collect(),
                private_key: fallback.key_der.secret_pkcs8_der().to_vec(),
            };
            let server = ServerTls::new(&fallback, SessionTickets::default());
            let (server, connector) = (server.unwrap(), &stage.worker.connector);
            let tls = unverified(Some("client"));
            let settings =
                |identities: &Identities| connector.tls_config(&tls, BackendProtocol::Http1, identities);
            let (first, _) = server.identities(&with_certificate(), None);
            let (renewed, _) = server.identities(&with_certificate(), Some(&first));
            let (none, _) = server.identities(&Config::default(), Some(&renewed));
            let before = settings(&first).unwrap();
            assert!(Arc::ptr_eq(&before, &settings(&first).unwrap()));
            assert!(!Arc::ptr_eq(&before, &settings(&renewed).unwrap()), "it shows the new certificate");
            assert!(settings(&none).is_err(), "what is gone is not shown");
            assert_eq!(connector.tls.borrow().len(), 1);
            drop(tls);
            connector.tls_config(&unverified(None), BackendProtocol::Http1, &none).unwrap();
            assert_eq!(connector.tls.borrow().len(), 1, "no backend has the other any more");
        })
        .await;
    }
}
