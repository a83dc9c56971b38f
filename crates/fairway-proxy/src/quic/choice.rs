//! Which listener serves a client of QUIC, and with which TLS settings: as over TCP, by the snapshot that is current when its name
//! is known, with HTTP/3 as the only protocol.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use fairway_model::{ClientVerification, ListenerProtocol};
use fairway_net::places::Place;
use quinn_proto::TransportErrorCode;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{AlertDescription, ServerConfig};

use super::early::Owner;
use super::session::{Choose, PROTOCOL, Refusal, alert};
use crate::fault::Fault;
use crate::l4::hello::ClientHello;
use crate::listener::{ListenerId, PortId};
use crate::network::Network;
use crate::peer::Proof;
use crate::tls::ClientTrust;
use crate::worker::Worker;

/// The most settings that are kept; with more certificates in use at a time, they are made anew.
const MAX_CONFIGS: usize = 4096;

/// The choice for one client.
pub(super) struct Choice<N: Network> {
    worker: Rc<Worker<N>>,
    port: PortId,
    /// Whose sessions may be resumed with early data.
    owner: Owner,
    configs: Rc<Configs>,
    made: RefCell<Option<Result<Chosen, Fault>>>,
}

/// What was chosen.
pub(super) struct Chosen {
    pub(super) listener: ListenerId,
    /// The name that the client asked for, lower case.
    pub(super) name: Option<Box<str>>,
    /// Its place among the connections of the listener, where these are counted.
    pub(super) place: Option<Place>,
    /// By which the listener verifies its clients, where it does.
    pub(super) trust: Option<Arc<ClientTrust>>,
    /// The rules of its host for certificates of clients, and what they trust.
    clients: Option<(Arc<ClientVerification>, Option<Rc<ClientTrust>>)>,
}

impl Chosen {
    /// What the client showed, where its host has rules for that.
    pub(super) fn proof(&mut self, chain: &[CertificateDer<'_>]) -> Option<Box<Proof>> {
        let (rules, trust) = self.clients.take()?;
        let shown = trust.and_then(|trust| trust.judge(chain, UnixTime::now()));
        Some(Box::new(Proof { rules, host: self.name.clone().unwrap_or_default(), shown }))
    }
}

impl<N: Network> Choice<N> {
    /// For a client of this port.
    pub(super) fn new(worker: &Rc<Worker<N>>, port: PortId, owner: Owner, configs: &Rc<Configs>) -> Self {
        let (worker, configs) = (Rc::clone(worker), Rc::clone(configs));
        Self { worker, port, owner, configs, made: RefCell::new(None) }
    }

    /// What was chosen, or why the client is not served; `None` while its name is not known.
    pub(super) fn take(&self) -> Option<Result<Chosen, Fault>> {
        self.made.take()
    }

    /// The listener, once it is chosen.
    pub(super) fn listener(&self) -> Option<ListenerId> {
        self.made.borrow().as_ref()?.as_ref().ok().map(|chosen| chosen.listener)
    }

    fn choose_by_name(&self, name: Option<Box<str>>) -> Result<(Chosen, Arc<ServerConfig>), Fault> {
        let adopted = self.worker.adopted();
        let side = adopted.server_tls(self.port, name.as_deref(), &self.worker.guards.trusts)?;
        if side.protocol != ListenerProtocol::Https || adopted.passes_through(side.listener, name.as_deref())
        {
            return Err(Fault::NoListener);
        }
        let (listener, clients) = (side.listener, side.clients);
        let place = adopted.listening().place(listener)?;
        let trust = adopted.listening().verification(listener).trust().cloned();
        let config = self.configs.with_http3(side.config);
        // Who is asked for a certificate has shown none before the handshake is complete.
        let takes_early_data = clients.is_none() && trust.is_none() && adopted.clients(listener).early_data;
        let config = match takes_early_data {
            true => self.worker.quic.early().config(config, self.owner),
            false => config,
        };
        Ok((Chosen { listener, name, place, trust, clients }, config))
    }
}

impl<N: Network> Choose for Choice<N> {
    fn choose(&self, hello: ClientHello) -> Result<Arc<ServerConfig>, Refusal> {
        match self.choose_by_name(hello.name) {
            Ok((chosen, config)) => {
                *self.made.borrow_mut() = Some(Ok(chosen));
                Ok(config)
            }
            Err(fault) => {
                *self.made.borrow_mut() = Some(Err(fault));
                Err(match fault {
                    Fault::NoListener => alert(AlertDescription::UnrecognisedName),
                    _ => TransportErrorCode::CONNECTION_REFUSED.into(),
                })
            }
        }
    }
}

/// Settings of TLS with HTTP/3 as the only protocol, for each of those that the snapshot has for TCP.
#[derive(Default)]
pub(super) struct Configs(RefCell<HashMap<*const ServerConfig, Known>>);

struct Known {
    /// Keeps the address that this is found by from becoming another's.
    of_tcp: Weak<ServerConfig>,
    with_http3: Arc<ServerConfig>,
}

impl Configs {
    /// The same settings with HTTP/3 alone.
    fn with_http3(&self, mut config: Arc<ServerConfig>) -> Arc<ServerConfig> {
        if let Some(own) = Arc::get_mut(&mut config) {
            // Made for this client: nobody else will ever have the same.
            only_http3(own);
            return config;
        }
        let mut known = self.0.borrow_mut();
        let at = Arc::as_ptr(&config);
        if let Some(known) = known.get(&at) {
            return Arc::clone(&known.with_http3);
        }
        if known.len() >= MAX_CONFIGS || known.len() == known.capacity() {
            known.retain(|_, known| known.of_tcp.strong_count() > 0);
        }
        if known.len() >= MAX_CONFIGS {
            known.clear();
        }
        let mut own = ServerConfig::clone(&config);
        only_http3(&mut own);
        let with_http3 = Arc::new(own);
        known.insert(at, Known { of_tcp: Arc::downgrade(&config), with_http3: Arc::clone(&with_http3) });
        with_http3
    }
}

fn only_http3(config: &mut ServerConfig) {
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
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
    fn settings_that_a_snapshot_has_are_copied_once_and_those_of_one_client_never() {
        let (configs, shared) = (Configs::default(), config());
        let first = configs.with_http3(Arc::clone(&shared));
        assert_eq!(first.alpn_protocols, [b"h3"]);
        assert!(shared.alpn_protocols.is_empty(), "those of TCP stay");
        assert!(Arc::ptr_eq(&first, &configs.with_http3(Arc::clone(&shared))));
        let own = config();
        let at = Arc::as_ptr(&own);
        assert_eq!(Arc::as_ptr(&configs.with_http3(own)), at);
        assert_eq!(configs.0.borrow().len(), 1);
    }

    #[test]
    fn settings_that_no_snapshot_has_any_more_are_forgotten() {
        let configs = Configs::default();
        for _ in 0..1000 {
            let shared = config();
            configs.with_http3(Arc::clone(&shared));
        }
        assert!(configs.0.borrow().len() < 10, "{}", configs.0.borrow().len());
    }
}
