//! The connections to a collector, and the limits of responses.

use std::time::Duration;

use ::http::{HeaderMap, Request, Response};
use bytes::Bytes;
use fairway_model::OtlpProtocol;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client as Pool, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use super::response::{CollectorResponse, MAX_RESPONSE_BYTES};
use crate::failure::Failure;

/// Timeout of a connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The maximum size of a response head.
const MAX_HEAD_BYTES: u32 = 16 * 1024;

type Body = Full<Bytes>;

/// The connections to a collector, usually one.
pub(super) enum Client {
    Plain(Pool<HttpConnector, Body>),
    Secure(Pool<HttpsConnector<HttpConnector>, Body>),
}

impl Client {
    /// Uses TLS if `tls` is given.
    pub(super) fn new(protocol: OtlpProtocol, tls: Option<ClientConfig>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.enforce_http(false);
        let mut builder = Pool::builder(TokioExecutor::new());
        set_limits(&mut builder, protocol);
        match tls {
            None => Self::Plain(builder.build(tcp)),
            Some(config) => {
                let connector = HttpsConnectorBuilder::new().with_tls_config(config).https_only();
                Self::Secure(builder.build(match protocol {
                    OtlpProtocol::Grpc => connector.enable_http2().wrap_connector(tcp),
                    OtlpProtocol::Http => connector.enable_http1().wrap_connector(tcp),
                }))
            }
        }
    }

    /// Sends a request and reads its response, up to the limits.
    ///
    /// # Errors
    /// No response arrived.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<CollectorResponse, Failure> {
        let response = match self {
            Self::Plain(pool) => pool.request(request).await,
            Self::Secure(pool) => pool.request(request).await,
        };
        Ok(read_response(response.map_err(|error: Error| Failure::no_response(&error))?).await)
    }
}

/// Sets the limits of responses, and selects HTTP/2 for gRPC.
fn set_limits(builder: &mut Builder, protocol: OtlpProtocol) {
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(2)
        .http1_max_buf_size(MAX_HEAD_BYTES as usize)
        .http2_max_header_list_size(MAX_HEAD_BYTES)
        .http2_initial_stream_window_size(u32::try_from(MAX_RESPONSE_BYTES).unwrap_or(u32::MAX))
        .http2_only(protocol == OtlpProtocol::Grpc);
}

async fn read_response(response: Response<Incoming>) -> CollectorResponse {
    let (parts, body) = response.into_parts();
    let (body, trailers) = match Limited::new(body, MAX_RESPONSE_BYTES).collect().await {
        Ok(collected) => {
            let trailers = collected.trailers().cloned().unwrap_or_default();
            (Some(collected.to_bytes()), trailers)
        }
        Err(_) => (None, HeaderMap::new()),
    };
    CollectorResponse { status: parts.status, headers: parts.headers, body, trailers }
}
