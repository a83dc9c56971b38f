//! The flags for the addresses that the process binds, shared by `run` and `check`.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use clap::Args;
use fairway_objects::options::Options;
use fairway_objects::own_addresses::{OwnListener, overlaps};

/// The addresses that the process binds.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Listeners")]
pub(crate) struct AddressArgs {
    /// Addresses for plain HTTP
    #[arg(
        long,
        env = "FAIRWAY_HTTP",
        value_name = "ADDR",
        value_delimiter = ',',
        default_value = "0.0.0.0:8080"
    )]
    pub(crate) http: Vec<SocketAddr>,
    /// Addresses for HTTPS
    #[arg(
        long,
        env = "FAIRWAY_HTTPS",
        value_name = "ADDR",
        value_delimiter = ',',
        default_value = "0.0.0.0:8443"
    )]
    pub(crate) https: Vec<SocketAddr>,
    /// Address of the admin server: /healthz /readyz /servingz /metrics /config
    #[arg(long, env = "FAIRWAY_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:10254")]
    pub(crate) admin: SocketAddr,
    /// Addresses of a second server for probes and scrapes from outside: /healthz /readyz /servingz /metrics /served
    #[arg(long, env = "FAIRWAY_PROBE", value_name = "ADDR", value_delimiter = ',')]
    pub(crate) probe: Vec<SocketAddr>,
}

impl AddressArgs {
    /// # Errors
    /// Two of the addresses overlap, or one overlaps with that of the webhook.
    pub(crate) fn validate(&self, webhook: Option<SocketAddr>) -> Result<()> {
        let all = self.own_listeners(webhook);
        for (index, OwnListener { address, flag }) in all.iter().enumerate() {
            if let Some(taken) = all[..index].iter().find(|other| overlaps(&other.address, address)) {
                bail!("{flag} {address} and {} {} are the same address", taken.flag, taken.address);
            }
        }
        Ok(())
    }

    /// Sets the addresses of this process in `options`, including that of the webhook if there is one.
    pub(crate) fn apply_to(&self, webhook: Option<SocketAddr>, options: &mut Options) {
        options.listeners.http.bind.clone_from(&self.http);
        options.listeners.https.bind.clone_from(&self.https);
        options.trust.external.own_addresses.listeners = self.own_listeners(webhook);
    }

    /// The addresses for traffic, probes and scrapes.
    pub(crate) fn all(&self) -> impl Iterator<Item = SocketAddr> {
        self.own_listeners(None).into_iter().map(|listener| listener.address)
    }

    fn own_listeners(&self, webhook: Option<SocketAddr>) -> Vec<OwnListener> {
        let (admin, webhook) = ([self.admin], webhook.map(|address| [address]));
        let by_flag = [
            ("--http", self.http.as_slice()),
            ("--https", &self.https),
            ("--admin", &admin),
            ("--probe", &self.probe),
            ("--webhook", webhook.as_ref().map(<[_; 1]>::as_slice).unwrap_or_default()),
        ];
        let listeners = by_flag.into_iter().flat_map(|(flag, addresses)| {
            addresses.iter().map(move |address| OwnListener { address: *address, flag })
        });
        listeners.collect()
    }
}
