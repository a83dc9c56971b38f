//! One exchange with an OCSP responder (RFC 6960 §A.1), whose URL comes from a certificate that a tenant may have written: only plain
//! HTTP, no redirect is followed, its addresses are judged, and everything is bounded.

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

use super::inquiry::Inquiry;

/// The most bytes of a response, without its head.
pub(super) const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// The most bytes of the head of a response.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How many addresses of a responder are tried.
const MAX_ADDRESSES: usize = 3;

/// How long a fetch may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Each connect.
    pub(super) connect: Duration,
    /// All of it, looking up the name included.
    pub(super) whole: Duration,
}

/// Which addresses responders may have; the error says why one may not.
#[derive(Clone)]
pub(super) struct AddressRule(pub(super) Arc<dyn Fn(SocketAddr) -> Result<(), String> + Send + Sync>);

/// Why there is no response. Each is a sentence without its subject.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The responder is not asked.
    #[error("is not asked: {0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

/// Asks, and gives the body of the response.
pub(super) async fn fetch(inquiry: &Inquiry, rule: &AddressRule, times: Times) -> Result<Bytes, FetchError> {
    let fetch = async {
        let stream = connect(&inquiry.responder, rule, times.connect).await?;
        exchange(stream, inquiry).await.map_err(FetchError::Failed)
    };
    let late = || FetchError::Failed(format!("did not answer within {} s", times.whole.as_secs_f32()));
    timeout(times.whole, fetch).await.map_err(|_| late())?
}

async fn connect(responder: &Uri, rule: &AddressRule, patience: Duration) -> Result<TcpStream, FetchError> {
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
            // What a connect says is of more use.
            if tried == 0 {
                last = FetchError::Refused(why);
            }
            continue;
        }
        // The address that was judged, and no other one that its name may have by now.
        last = match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => FetchError::Failed(format!("cannot be reached at {address}: {error}")),
            Err(_) => FetchError::Failed(format!("cannot be reached at {address}: no answer")),
        };
        tried += 1;
        if tried == MAX_ADDRESSES {
            break;
        }
    }
    Err(last)
}

async fn exchange(stream: TcpStream, inquiry: &Inquiry) -> Result<Bytes, String> {
    let failed = |error: &dyn fmt::Display| format!("did not answer as HTTP: {error}");
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
        .body(Full::new(Bytes::from(inquiry.request())))
        .map_err(|error| failed(&error))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
        if response.status() != StatusCode::OK {
            return Err(format!("answered {}", response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| format!("sent no whole response: {error}"))
    };
    let (mut answer, mut connection) = (pin!(answer), pin!(connection));
    tokio::select! {
        answer = &mut answer => answer,
        // Its end is the end of the answer, which is there then.
        _ = &mut connection => answer.await,
    }
}
