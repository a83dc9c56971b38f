//! The flags for peers that may name a client's address, and for external names. Shared by `run`, `check` and `explain`, so
//! that all three come to the same result.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use fairway_objects::options::{ExternalNameOptions, ExternalNames, ProxySenders, Trust};
use fairway_objects::own_addresses::OwnAddresses;
use fairway_proxy::{ProxyProtocol, ProxyProtocolOn};
use ipnet::IpNet;

/// Trusted peers and external names.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Trust")]
pub(crate) struct TrustArgs {
    /// Peers whose X-Forwarded-* headers are trusted; the ConfigMap keys use-forwarded-headers and proxy-real-ip-cidr can only
    /// narrow this list
    #[arg(long, env = "FAIRWAY_TRUSTED_FORWARDERS", value_name = "CIDR", value_delimiter = ',')]
    pub(crate) trusted_forwarders: Vec<IpNet>,
    /// Listeners whose connections start with a PROXY protocol header
    #[arg(long, env = "FAIRWAY_PROXY_PROTOCOL", value_name = "WHERE", default_value = "off")]
    pub(crate) proxy_protocol: ProxyProtocolChoice,
    /// Peers that may send PROXY protocol headers to these listeners and to ports of TCP services that expect them
    /// [default: every peer, so that each can claim any client address]
    #[arg(long, env = "FAIRWAY_PROXY_PROTOCOL_TRUSTED", value_name = "CIDR", value_delimiter = ',')]
    pub(crate) proxy_protocol_trusted: Vec<IpNet>,
    /// Serve Services of type ExternalName, except those that resolve to special addresses (docs/operate.md) or to Fairway
    /// itself
    #[arg(long, env = "FAIRWAY_ENABLE_EXTERNAL_NAME")]
    pub(crate) enable_external_name: bool,
    /// Special addresses that are allowed for Services of type ExternalName, EndpointSlices and OCSP responders
    #[arg(long, env = "FAIRWAY_EXTERNAL_NAME_ALLOW", value_name = "CIDR", value_delimiter = ',')]
    pub(crate) external_name_allow: Vec<IpNet>,
}

/// Values of `--proxy-protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProxyProtocolChoice {
    Off,
    Http,
    Https,
    Both,
}

impl TrustArgs {
    /// The translator's trust options, without the addresses of this process, which only `run` knows. `has_tcp_services`: ports
    /// of TCP services may expect the PROXY protocol header too.
    ///
    /// # Errors
    /// A flag has no effect without another one.
    pub(super) fn trust(&self, has_tcp_services: bool) -> Result<Trust> {
        let expected = self.proxy_protocol != ProxyProtocolChoice::Off || has_tcp_services;
        if !expected && !self.proxy_protocol_trusted.is_empty() {
            bail!(
                "--proxy-protocol-trusted without --proxy-protocol or --tcp-services-configmap: no listener expects the header"
            );
        }
        let proxy_protocol = match self.proxy_protocol {
            ProxyProtocolChoice::Off => ProxySenders::Nobody,
            _ => ProxySenders::Peers(self.proxy_protocol_trusted.clone()),
        };
        let names = if self.enable_external_name { ExternalNames::Resolved } else { ExternalNames::Refused };
        let external = ExternalNameOptions {
            names,
            allowed: self.external_name_allow.clone(),
            own_addresses: OwnAddresses::default(),
        };
        Ok(Trust { forwarders: self.trusted_forwarders.clone(), proxy_protocol, external })
    }

    /// The data plane's PROXY protocol options.
    pub(crate) fn proxy_protocol(&self) -> ProxyProtocol {
        let on = match self.proxy_protocol {
            ProxyProtocolChoice::Off => ProxyProtocolOn::Off,
            ProxyProtocolChoice::Http => ProxyProtocolOn::Http,
            ProxyProtocolChoice::Https => ProxyProtocolOn::Https,
            ProxyProtocolChoice::Both => ProxyProtocolOn::Both,
        };
        ProxyProtocol { on, trusted: self.proxy_protocol_trusted.clone() }
    }

    /// Whether connections to HTTPS listeners start with the PROXY protocol header.
    pub(super) fn expects_header_over_tls(&self) -> bool {
        matches!(self.proxy_protocol, ProxyProtocolChoice::Https | ProxyProtocolChoice::Both)
    }

    /// Whether every peer may name a client address in a PROXY protocol header.
    pub(crate) fn trusts_every_proxy_header(&self) -> bool {
        self.proxy_protocol != ProxyProtocolChoice::Off && self.proxy_protocol_trusted.is_empty()
    }
}
