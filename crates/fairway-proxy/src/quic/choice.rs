//! Selects the listener and the TLS configuration of a QUIC client: as over TCP, by the snapshot current when
//! its SNI is known, with HTTP/3 as the only protocol.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use fairway_model::{ClientVerification, ListenerProtocol};
use fairway_net::permits::Permit;
use quinn_proto::TransportErrorCode;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{AlertDescription, ServerConfig};

use super::early::SessionOwner;
use super::session::{H3_PROTOCOL, SelectTls, TlsRefusal, tls_alert};
use crate::fault::Fault;
use crate::l4::hello::ClientHello;
use crate::listener::{ListenerId, PortId};
use crate::network::Network;
use crate::peer::Proof;
use crate::tls::ClientTrust;
use crate::worker::Worker;

/// Configurations cached; with more certificates in use, they are built again.
const MAX_CONFIGS: usize = 4096;

/// The selection for one client.
pub(super) struct TlsSelection<N: Network> {
    worker: Rc<Worker<N>>,
    port: PortId,
    /// Whose sessions may be resumed with early data.
    owner: SessionOwner,
    configs: Rc<Http3Configs>,
    selected: RefCell<Option<Result<SelectedListener, Fault>>>,
}

/// The selected listener.
pub(super) struct SelectedListener {
    pub(super) listener: ListenerId,
    /// The SNI in lower case.
    pub(super) name: Option<Box<str>>,
    /// Counts the connection against the listener's limit, if there is one.
    pub(super) slot: Option<Permit>,
    /// CAs with which the listener verifies clients, if it does.
    pub(super) trust: Option<Arc<ClientTrust>>,
    /// Client rules of its host and their CAs.
    host_trust: Option<(Arc<ClientVerification>, Option<Rc<ClientTrust>>)>,
}

impl SelectedListener {
    /// The client certificate, if its host has rules for one.
    pub(super) fn proof(&mut self, chain: &[CertificateDer<'_>]) -> Option<Box<Proof>> {
        let (rules, trust) = self.host_trust.take()?;
        let certificate = trust.and_then(|trust| trust.evaluate(chain, UnixTime::now()));
        Some(Box::new(Proof { rules, host: self.name.clone().unwrap_or_default(), certificate }))
    }
}

impl<N: Network> TlsSelection<N> {
    /// For a client of this port.
    pub(super) fn new(
        worker: &Rc<Worker<N>>,
        port: PortId,
        owner: SessionOwner,
        configs: &Rc<Http3Configs>,
    ) -> Self {
        let (worker, configs) = (Rc::clone(worker), Rc::clone(configs));
        Self { worker, port, owner, configs, selected: RefCell::new(None) }
    }

    /// The selection, or why the client is not served; `None` while the SNI is unknown.
    pub(super) fn take(&self) -> Option<Result<SelectedListener, Fault>> {
        self.selected.take()
    }

    /// The listener, once selected.
    pub(super) fn listener(&self) -> Option<ListenerId> {
        self.selected.borrow().as_ref()?.as_ref().ok().map(|chosen| chosen.listener)
    }

    fn select_by_name(&self, name: Option<Box<str>>) -> Result<(SelectedListener, Arc<ServerConfig>), Fault> {
        let adopted = self.worker.adopted();
        let termination =
            adopted.server_tls(self.port, name.as_deref(), &self.worker.guards.client_trusts)?;
        if termination.protocol != ListenerProtocol::Https
            || adopted.passes_through(termination.listener, name.as_deref())
        {
            return Err(Fault::NoListener);
        }
        let (listener, host_trust) = (termination.listener, termination.host_trust);
        let slot = adopted.listening().acquire_connection_slot(listener)?;
        let trust = adopted.listening().verification(listener).trust().cloned();
        let config = self.configs.for_http3(termination.config);
        // A client asked for a certificate has presented none before the handshake completes.
        let takes_early_data =
            host_trust.is_none() && trust.is_none() && adopted.client_limits(listener).early_data;
        let config = match takes_early_data {
            true => self.worker.quic.early_sessions().with_early_data(config, self.owner),
            false => config,
        };
        Ok((SelectedListener { listener, name, slot, trust, host_trust }, config))
    }
}

impl<N: Network> SelectTls for TlsSelection<N> {
    fn select_tls(&self, hello: ClientHello) -> Result<Arc<ServerConfig>, TlsRefusal> {
        match self.select_by_name(hello.name) {
            Ok((chosen, config)) => {
                *self.selected.borrow_mut() = Some(Ok(chosen));
                Ok(config)
            }
            Err(fault) => {
                *self.selected.borrow_mut() = Some(Err(fault));
                Err(match fault {
                    Fault::NoListener => tls_alert(AlertDescription::UnrecognisedName),
                    _ => TransportErrorCode::CONNECTION_REFUSED.into(),
                })
            }
        }
    }
}

/// HTTP/3-only variants of the snapshot's TLS configurations.
#[derive(Default)]
pub(super) struct Http3Configs(RefCell<HashMap<*const ServerConfig, Http3Config>>);

struct Http3Config {
    /// Keeps the allocation, so that its address, the key of this entry, is not reused.
    tcp_config: Weak<ServerConfig>,
    config: Arc<ServerConfig>,
}

impl Http3Configs {
    /// The configuration restricted to HTTP/3.
    fn for_http3(&self, mut config: Arc<ServerConfig>) -> Arc<ServerConfig> {
        if let Some(own) = Arc::get_mut(&mut config) {
            // Built for this client alone: caching it is useless.
            restrict_to_http3(own);
            return config;
        }
        let mut known = self.0.borrow_mut();
        let at = Arc::as_ptr(&config);
        if let Some(known) = known.get(&at) {
            return Arc::clone(&known.config);
        }
        if known.len() >= MAX_CONFIGS || known.len() == known.capacity() {
            known.retain(|_, known| known.tcp_config.strong_count() > 0);
        }
        if known.len() >= MAX_CONFIGS {
            known.clear();
        }
        let mut copy = ServerConfig::clone(&config);
        restrict_to_http3(&mut copy);
        let with_http3 = Arc::new(copy);
        known
            .insert(at, Http3Config { tcp_config: Arc::downgrade(&config), config: Arc::clone(&with_http3) });
        with_http3
    }
}

fn restrict_to_http3(config: &mut ServerConfig) {
    config.alpn_protocols = vec![H3_PROTOCOL.to_vec()];
    config.max_early_data_size = 0;
}

#[cfg(test)]
mod tests {
    use rustls::server::ResolvesServerCertUsingSni;
    use rustls::version::TLS13;

    use super::*;

    fn config() -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        Arc::new(config)
    }

    #[test]
    fn shared_configurations_are_copied_once_and_per_client_ones_never() {
        let (configs, shared) = (Http3Configs::default(), config());
        let first = configs.for_http3(Arc::clone(&shared));
        assert_eq!(first.alpn_protocols, [b"h3"]);
        assert!(shared.alpn_protocols.is_empty(), "those of TCP stay");
        assert!(Arc::ptr_eq(&first, &configs.for_http3(Arc::clone(&shared))));
        let config = config();
        let at = Arc::as_ptr(&config);
        assert_eq!(Arc::as_ptr(&configs.for_http3(config)), at);
        assert_eq!(configs.0.borrow().len(), 1);
    }

    #[test]
    fn configurations_of_old_snapshots_are_dropped() {
        let configs = Http3Configs::default();
        for _ in 0..1000 {
            let shared = config();
            configs.for_http3(Arc::clone(&shared));
        }
        assert!(configs.0.borrow().len() < 10, "{}", configs.0.borrow().len());
    }
}
