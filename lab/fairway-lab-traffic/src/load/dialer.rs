//! Opens connections to the addresses of a plan in turn. Never waits.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;

use super::observed::Observed;
use super::plan::Plan;
use super::tls;
use super::transport::Transport;

/// Opens the connections of one thread.
pub(super) struct Dialer {
    addresses: Vec<SocketAddr>,
    turn: usize,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    observed: Arc<Observed>,
}

impl Dialer {
    /// That of thread `index`, which begins with another address than its neighbours.
    ///
    /// # Errors
    /// TLS as planned cannot be had.
    pub(super) fn new(plan: &Plan, index: usize) -> anyhow::Result<Self> {
        let observed = Arc::new(Observed::default());
        let tls = match &plan.wire.tls {
            Some(wanted) => Some((
                Arc::new(tls::configuration(wanted, plan.wire.protocol, &observed)?),
                tls::server_name(&plan.target.name)?,
            )),
            None => None,
        };
        Ok(Self { addresses: plan.target.addresses.clone(), turn: index, tls, observed })
    }

    /// What the handshakes of its connections showed.
    pub(super) fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Begins to open a connection.
    pub(super) fn dial(&mut self) -> io::Result<Transport> {
        let address = self.addresses[self.turn % self.addresses.len()];
        self.turn = self.turn.wrapping_add(1);
        Transport::open(address, self.tls.as_ref().map(|(config, name)| (config, name)))
    }
}
