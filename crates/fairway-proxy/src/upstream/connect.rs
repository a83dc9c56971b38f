//! Makes connections to endpoints: TCP, and TLS over it where the backend asks for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fairway_model::UpstreamTls;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fault::Fault;
use crate::tls::Identities;
use crate::tls::upstream::client_config;
use crate::transport::{Network, Secured};
use crate::upstream::endpoint::EndpointIdentity;

/// A stream to an endpoint.
pub(crate) type UpstreamStream<S> = Secured<S, TlsStream<S>>;

/// Makes connections, and keeps the TLS settings of each kind of backend with their sessions.
pub(crate) struct Connector<N> {
    network: N,
    tls: RefCell<HashMap<UpstreamTls, Arc<ClientConfig>>>,
}

impl<N: Network> Connector<N> {
    pub(crate) fn new(network: N) -> Self {
        Self { network, tls: RefCell::new(HashMap::new()) }
    }

    /// Forgets TLS settings: a new snapshot may bring other certificates.
    pub(crate) fn forget_tls(&self) {
        self.tls.borrow_mut().clear();
    }

    /// Connects within `limit`.
    pub(crate) async fn connect(
        &self,
        to: &EndpointIdentity,
        identities: &Identities,
        limit: Duration,
    ) -> Result<UpstreamStream<N::Stream>, Fault> {
        match timeout(limit, self.connect_unlimited(to, identities)).await {
            Ok(connected) => connected,
            Err(_) => Err(Fault::ConnectTimeout),
        }
    }

    async fn connect_unlimited(
        &self,
        to: &EndpointIdentity,
        identities: &Identities,
    ) -> Result<UpstreamStream<N::Stream>, Fault> {
        let stream = self.network.connect(to.address).await.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Fault::ConnectTimeout,
            _ => Fault::ConnectFailed,
        })?;
        let Some(tls) = &to.tls else { return Ok(Secured::Plain(stream)) };
        let config = self.tls_config(tls, identities)?;
        // Without a name the address stands in: rustls sends no SNI for addresses (RFC 6066 §3).
        let name = match &tls.server_name {
            Some(name) => ServerName::try_from(name.to_string()).map_err(|_| Fault::UpstreamTls)?,
            None => ServerName::IpAddress(to.address.ip().into()),
        };
        let stream =
            TlsConnector::from(config).connect(name, stream).await.map_err(|_| Fault::UpstreamTls)?;
        Ok(Secured::Tls(Box::new(stream)))
    }

    fn tls_config(&self, tls: &UpstreamTls, identities: &Identities) -> Result<Arc<ClientConfig>, Fault> {
        if let Some(known) = self.tls.borrow().get(tls) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(client_config(tls, identities).map_err(|_| Fault::UpstreamTls)?);
        self.tls.borrow_mut().insert(tls.clone(), Arc::clone(&made));
        Ok(made)
    }
}
