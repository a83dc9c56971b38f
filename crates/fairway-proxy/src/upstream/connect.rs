//! Makes connections to endpoints: TCP, and TLS over it where the backend asks for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
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
use crate::shortage::Shortage;
use crate::tls::Identities;
use crate::tls::upstream::client_config;
use crate::transport::{Network, Secured};
use crate::upstream::endpoint::EndpointIdentity;
use crate::upstream::room::Room;

/// A stream to an endpoint.
pub(crate) type UpstreamStream<S> = Secured<S, TlsStream<S>>;

/// Makes connections, and keeps the TLS settings of each kind of backend with their sessions.
pub(crate) struct Connector<N: Network> {
    network: N,
    room: Rc<Room<UpstreamStream<N::Stream>>>,
    tls: RefCell<HashMap<UpstreamTls, Arc<ClientConfig>>>,
}

impl<N: Network> Connector<N> {
    pub(crate) fn new(network: N, room: Rc<Room<UpstreamStream<N::Stream>>>) -> Self {
        Self { network, room, tls: RefCell::new(HashMap::new()) }
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
        let stream = self.reach(to.address).await.map_err(|error| fault_of(&error))?;
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

    /// A stream in the clear. Where the system gives no socket, idle connections are closed and it is asked once more.
    async fn reach(&self, address: SocketAddr) -> io::Result<N::Stream> {
        if !self.room.make(0) {
            return Err(Shortage::no_descriptor());
        }
        match self.network.connect(address).await {
            Err(error) if Shortage::of(&error) == Some(Shortage::Sockets) && self.room.clear() => {
                self.network.connect(address).await
            }
            connected => connected,
        }
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

/// Why there is no connection. What this process or its machine lacks is not the endpoint's doing.
fn fault_of(error: &io::Error) -> Fault {
    match Shortage::of(error) {
        Some(Shortage::Sockets | Shortage::Ports) => Fault::LocalShortage,
        None if error.kind() == io::ErrorKind::TimedOut => Fault::ConnectTimeout,
        None => Fault::ConnectFailed,
    }
}
