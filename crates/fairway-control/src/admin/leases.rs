//! Requests of other replicas about fleet-wide limits. The port is open to everyone: the data plane verifies the sender, and
//! others get the same response as for any other `POST`.

use std::time::Duration;

use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::timeout;

use super::audience::Audience;
use super::body::{Body, respond};

/// More than a replica sends.
const MAX_BODY_BYTES: usize = 8 << 10;
/// A replica sends the whole body at once.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Handles a message of another replica; `None` for other senders.
pub type HandleReplicaMessage = Box<dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync>;

/// The response to another replica, or the request for the pages.
pub(super) async fn handle_replica_request(
    request: Request<Incoming>,
    audience: Audience,
    answer_replica: &HandleReplicaMessage,
) -> Result<Response<Body>, Request<()>> {
    let asks =
        audience == Audience::Probes && request.method() == Method::POST && request.uri().path() == "/leases";
    let (head, body) = request.into_parts();
    if asks
        && let Ok(Ok(body)) = timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await
        && let Some(answer) = answer_replica(&body.to_bytes())
    {
        let body = Either::Left(Full::new(Bytes::from(answer)));
        return Ok(respond(StatusCode::OK, "application/octet-stream", body));
    }
    Err(Request::from_parts(head, ()))
}
