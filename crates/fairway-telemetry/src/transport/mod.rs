//! Speaking with a collector: one request for each message, over connections that are kept.
//!
//! [`grpc`] and [`http`] say what a request and a response are, [`client`] has the connections, [`details`] reads what a collector says
//! about a failure. A redirect is never followed: headers with credentials would follow it.

mod answer;
mod client;
mod details;
mod endpoint;
mod grpc;
mod http;
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

/// What a collector has to be given, and by which authorities its certificate is verified.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The collector that gets `headers`; others do not, whoever names them.
    pub endpoint: Option<Arc<str>>,
    /// Headers of each request.
    pub headers: Headers,
    /// Authorities, as DER. `None`: those of the system.
    pub authorities: Option<Arc<[rustls_pki_types::CertificateDer<'static>]>>,
}

/// Makes links.
pub(crate) trait Connect {
    /// What it makes.
    type Link: Link;

    /// A link to a collector. Nothing is sent yet.
    ///
    /// # Errors
    /// With the reason, where there can be none.
    fn connect(&self, collector: &Collector) -> Result<Self::Link, String>;
}

/// A way to a collector.
pub(crate) trait Link {
    /// Sends a message, and gives the response of a collector that took it. The caller limits the time.
    ///
    /// # Errors
    /// The collector did not take it, or not as far as is known.
    async fn send(&self, signal: Signal, message: Bytes) -> Result<Bytes, Failure>;
}

/// Connects over TCP, and over TLS where the address says so.
pub(crate) struct Network {
    credentials: Credentials,
    user_agent: String,
}

/// Connections to one collector.
pub(crate) struct NetworkLink {
    endpoint: Endpoint,
    protocol: OtlpProtocol,
    headers: Headers,
    user_agent: String,
    client: Client,
}

impl Network {
    /// That gives collectors these credentials, and says that it is this version.
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
            Endpoint::read(&collector.endpoint, collector.protocol).map_err(|error| error.to_string())?;
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
        self.headers.write(headers);
        let answer = self.client.exchange(request).await?;
        match self.protocol {
            OtlpProtocol::Grpc => grpc::outcome(answer),
            OtlpProtocol::Http => http::outcome(&answer),
        }
    }
}
