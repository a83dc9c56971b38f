//! The flags for the ports that clients see: those of Ingresses and those of TCP and UDP services.

use anyhow::{Context, Result};
use clap::Args;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::{IngressListeners, ListenAddresses, ReservedPorts, ServiceMaps};
use ipnet::IpNet;

/// The ports that clients see.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Ingress options")]
pub(crate) struct PortArgs {
    /// Port at which clients reach the plain HTTP listener; used in redirects, headers and logs
    #[arg(long, env = "FAIRWAY_PUBLIC_HTTP_PORT", value_name = "PORT", default_value_t = 80)]
    pub(crate) public_http_port: u16,
    /// Port at which clients reach the HTTPS listener
    #[arg(long, env = "FAIRWAY_PUBLIC_HTTPS_PORT", value_name = "PORT", default_value_t = 443)]
    pub(crate) public_https_port: u16,
    /// Serve HTTP/3 on HTTPS listeners too, on the UDP port with the same number, and advertise it at the public port. The
    /// ConfigMap key use-http3 and ClientTrafficPolicies override this. Not for listeners with the PROXY protocol
    #[arg(long, env = "FAIRWAY_HTTP3", help_heading = "Listeners")]
    pub(crate) http3: bool,
    /// ConfigMap of TCP services, as in ingress-nginx: each key is a port on the plain HTTP addresses, each value a destination
    /// NAMESPACE/SERVICE:PORT, followed by up to two :PROXY
    #[arg(long, env = "FAIRWAY_TCP_SERVICES_CONFIGMAP", value_name = "NS/NAME")]
    pub(crate) tcp_services_configmap: Option<String>,
    /// ConfigMap of UDP services, with values NAMESPACE/SERVICE:PORT
    #[arg(long, env = "FAIRWAY_UDP_SERVICES_CONFIGMAP", value_name = "NS/NAME")]
    pub(crate) udp_services_configmap: Option<String>,
}

impl PortArgs {
    /// The listeners, still without addresses. `senders` may send PROXY protocol headers.
    ///
    /// # Errors
    /// A flag is not a `NAMESPACE/NAME`.
    pub(crate) fn listeners(&self, senders: &[IpNet]) -> Result<IngressListeners> {
        let unbound = |public_port| ListenAddresses { bind: Vec::new(), public_port };
        let service_maps = ServiceMaps {
            tcp: key("--tcp-services-configmap", self.tcp_services_configmap.as_deref())?,
            udp: key("--udp-services-configmap", self.udp_services_configmap.as_deref())?,
            proxy_senders: senders.to_vec(),
            reserved: vec![
                ReservedPorts::tcp(self.public_http_port, "--public-http-port"),
                ReservedPorts::tcp(self.public_https_port, "--public-https-port"),
            ],
        };
        let (http, https) = (unbound(self.public_http_port), unbound(self.public_https_port));
        Ok(IngressListeners { http, https, service_maps })
    }
}

/// Parses the object that a flag names.
///
/// # Errors
/// The text is not a `NAMESPACE/NAME`.
pub(super) fn key(flag: &str, text: Option<&str>) -> Result<Option<ObjectKey>> {
    text.map(|text| ObjectKey::parse(text).with_context(|| format!("{flag} {text}: is not a NAMESPACE/NAME")))
        .transpose()
}
