//! Communication with a collector: one request per message, over persistent connections.
//!
//! [`grpc`] and [`http`] build requests and parse responses, [`client`] owns the connections, [`details`] decodes the details of
//! failures. Redirects are never followed: headers with credentials would follow them.

mod client;
mod details;
mod endpoint;
mod grpc;
mod http;
mod response;
mod roots;

use std::sync::Arc;

use bytes::Bytes;
use fairway_model::{Collector, OtlpProtocol};
use rustls::ClientConfig;

use crate::failure::Failure;
use crate::headers::Headers;
use crate::signal::Signal;
use client::Client;
use endpoint::Endpoint;

pub use endpoint::{EndpointError, check_endpoint};
pub use roots::{CertificatesError, read_certificates};

/// Credentials for the collector, and the authorities that verify its certificate.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The collector that gets `headers`; others never get them, whoever configures them.
    pub endpoint: Option<Arc<str>>,
    /// Headers of each request.
    pub headers: Headers,
    /// Authorities, as DER. `None`: those of the system.
    pub authorities: Option<Arc<[rustls_pki_types::CertificateDer<'static>]>>,
}

/// Opens links.
pub(crate) trait Connect {
    /// The type of its links.
    type Link: Link;

    /// Opens a link to a collector. Nothing is sent yet.
    ///
    /// # Errors
    /// The reason why there is none.
    fn connect(&self, collector: &Collector) -> Result<Self::Link, String>;
}

/// A link to a collector.
pub(crate) trait Link {
    /// Sends a message; returns the response of a collector that accepted it. The caller sets a timeout.
    ///
    /// # Errors
    /// The collector did not accept it, or that is unknown.
    async fn send(&self, signal: Signal, message: Bytes) -> Result<Bytes, Failure>;
}

/// Connects over TCP, or over TLS for `https` addresses.
pub(crate) struct Network {
    credentials: Credentials,
    user_agent: String,
}

/// The connections to one collector.
pub(crate) struct NetworkLink {
    endpoint: Endpoint,
    protocol: OtlpProtocol,
    headers: Headers,
    user_agent: String,
    client: Client,
}

impl Network {
    /// With these credentials and this version as user agent.
    pub(crate) fn new(credentials: Credentials, version: &str) -> Self {
        Self { credentials, user_agent: format!("Fairway/{version} OTLP") }
    }

    fn tls(&self) -> Result<ClientConfig, String> {
        roots::client_config(self.credentials.authorities.as_deref())
    }
}

impl Connect for Network {
    type Link = NetworkLink;

    fn connect(&self, collector: &Collector) -> Result<NetworkLink, String> {
        let endpoint =
            Endpoint::parse(&collector.endpoint, collector.protocol).map_err(|error| error.to_string())?;
        let tls = if endpoint.is_secure() { Some(self.tls()?) } else { None };
        let is_known = self.credentials.endpoint.as_deref() == Some(&*collector.endpoint);
        Ok(NetworkLink {
            client: Client::new(collector.protocol, tls),
            endpoint,
            protocol: collector.protocol,
            headers: if is_known { self.credentials.headers.clone() } else { Headers::default() },
            user_agent: self.user_agent.clone(),
        })
    }
}

impl Link for NetworkLink {
    async fn send(&self, signal: Signal, message: Bytes) -> Result<Bytes, Failure> {
        let mut request = match self.protocol {
            OtlpProtocol::Grpc => grpc::request(&self.endpoint, signal, &message)?,
            OtlpProtocol::Http => http::request(&self.endpoint, signal, message),
        };
        let headers = request.headers_mut();
        if let Ok(value) = self.user_agent.parse() {
            headers.insert(::http::header::USER_AGENT, value);
        }
        self.headers.add_to(headers);
        let response = self.client.send(request).await?;
        match self.protocol {
            OtlpProtocol::Grpc => grpc::parse_response(response),
            OtlpProtocol::Http => http::parse_response(&response),
        }
    }
}
