//! Fetches one OCSP response (RFC 6960 §A.1). The URL comes from a certificate that a tenant may have written:
//! only plain HTTP, no redirects, addresses checked, and everything bounded.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::request::OcspRequest;

/// Response body limit in bytes.
pub(super) const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// Response head limit in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Addresses of a responder to try.
const MAX_ADDRESSES: usize = 3;

/// Timeouts of a fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchTimeouts {
    /// Of each connect.
    pub(super) connect: Duration,
    /// Of the whole fetch, including name resolution.
    pub(super) total: Duration,
}

/// Decides whether a responder's address is allowed; the error is the reason.
#[derive(Clone)]
pub(super) struct AddressRule(pub(super) Arc<dyn Fn(SocketAddr) -> Result<(), String> + Send + Sync>);

/// Why a fetch failed. Each message is a predicate for the responder.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The responder's address is not allowed.
    #[error("was not queried: {0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

/// Sends the request and returns the response body.
pub(super) async fn fetch(
    inquiry: &OcspRequest,
    rule: &AddressRule,
    times: FetchTimeouts,
) -> Result<Bytes, FetchError> {
    let fetch = async {
        let stream = connect(&inquiry.responder, rule, times.connect).await?;
        exchange(stream, inquiry).await.map_err(FetchError::Failed)
    };
    let late = || FetchError::Failed(format!("did not respond within {} s", times.total.as_secs_f32()));
    timeout(times.total, fetch).await.map_err(|_| late())?
}

async fn connect(
    responder: &Uri,
    rule: &AddressRule,
    connect_timeout: Duration,
) -> Result<TcpStream, FetchError> {
    let (host, port) = (responder.host().unwrap_or_default(), responder.port_u16().unwrap_or(80));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => {
            let found = lookup_host((host, port)).await;
            found.map_err(|error| FetchError::Failed(format!("has no address: {error}")))?.collect()
        }
    };
    let mut last = FetchError::Failed("has no address".to_owned());
    let mut tried = 0;
    for address in addresses {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        if let Err(why) = (rule.0)(address) {
            // Connect errors are more useful.
            if tried == 0 {
                last = FetchError::Refused(why);
            }
            continue;
        }
        // Connect to the checked address, not to one the name resolves to later.
        last = match timeout(connect_timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => FetchError::Failed(format!("cannot be reached at {address}: {error}")),
            Err(_) => FetchError::Failed(format!("cannot be reached at {address}: timeout")),
        };
        tried += 1;
        if tried == MAX_ADDRESSES {
            break;
        }
    }
    Err(last)
}

async fn exchange(stream: TcpStream, inquiry: &OcspRequest) -> Result<Bytes, String> {
    let failed = |error: &dyn fmt::Display| format!("sent an invalid HTTP response: {error}");
    let mut client = http1::Builder::new();
    client.max_buf_size(MAX_HEAD_BYTES);
    let (mut sender, connection) =
        client.handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    let url = &inquiry.responder;
    let request = Request::post(url.path_and_query().map_or("/", |it| it.as_str()))
        .header(HOST, url.authority().map_or("", |it| it.as_str()))
        .header(CONTENT_TYPE, "application/ocsp-request")
        .header(ACCEPT, "application/ocsp-response")
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::from(inquiry.encode())))
        .map_err(|error| failed(&error))?;
    let response = async {
        let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("responded with {}", response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| format!("sent an incomplete response: {error}"))
    };
    let (mut response, mut connection) = (pin!(response), pin!(connection));
    tokio::select! {
        answer = &mut response => answer,
        // The connection ends with the response, which is then complete.
        _ = &mut connection => response.await,
    }
}
