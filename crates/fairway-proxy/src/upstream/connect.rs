//! Makes connections to endpoints: TCP, and TLS over it where the backend asks for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
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

/// A connect under way. It borrows nothing, so it can outlive the exchange that began it.
pub(crate) type Connecting<S> = Pin<Box<dyn Future<Output = Result<UpstreamStream<S>, Fault>>>>;

/// Makes connections, and keeps the TLS settings of each kind of backend with their sessions.
pub(crate) struct Connector<N> {
    network: Rc<N>,
    tls: RefCell<HashMap<UpstreamTls, Arc<ClientConfig>>>,
}

impl<N: Network> Connector<N> {
    pub(crate) fn new(network: N) -> Self {
        Self { network: Rc::new(network), tls: RefCell::new(HashMap::new()) }
    }

    /// Forgets TLS settings: a new snapshot may bring other certificates.
    pub(crate) fn forget_tls(&self) {
        self.tls.borrow_mut().clear();
    }

    /// Begins to connect; the connect ends within `limit`.
    pub(crate) fn start(
        &self,
        to: &EndpointIdentity,
        identities: &Identities,
        limit: Duration,
    ) -> Connecting<N::Stream> {
        let network = Rc::clone(&self.network);
        let address = to.address;
        let secure = self.tls(to, identities);
        let connect = async move {
            let secure = secure?;
            let stream = network.connect(address).await.map_err(|error| fault_of(&error))?;
            let Some((tls, name)) = secure else { return Ok(Secured::Plain(stream)) };
            let stream = tls.connect(name, stream).await.map_err(|_| Fault::UpstreamTls)?;
            Ok(Secured::Tls(Box::new(stream)))
        };
        Box::pin(async move { timeout(limit, connect).await.unwrap_or(Err(Fault::ConnectTimeout)) })
    }

    /// What TLS towards `to` needs; none where the backend is in the clear.
    fn tls(
        &self,
        to: &EndpointIdentity,
        identities: &Identities,
    ) -> Result<Option<(TlsConnector, ServerName<'static>)>, Fault> {
        let Some(tls) = &to.tls else { return Ok(None) };
        let config = self.tls_config(tls, identities)?;
        // Without a name the address stands in: rustls sends no SNI for addresses (RFC 6066 §3).
        let name = match &tls.server_name {
            Some(name) => ServerName::try_from(name.to_string()).map_err(|_| Fault::UpstreamTls)?,
            None => ServerName::IpAddress(to.address.ip().into()),
        };
        Ok(Some((TlsConnector::from(config), name)))
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

/// What the system's error says about the endpoint.
fn fault_of(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::TimedOut => Fault::ConnectTimeout,
        _ => Fault::ConnectFailed,
    }
}
