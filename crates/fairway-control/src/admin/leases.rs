//! What replicas ask each other about the limits of their fleet. The port answers everybody: who asks is for the data plane to verify, and
//! whoever is no replica gets what any other `POST` gets.

use std::time::Duration;

use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::timeout;

use super::audience::Audience;
use super::body::{Body, respond};

/// More than a replica sends.
const MAX_BODY_BYTES: usize = 8 << 10;
/// A replica sends all of it at once.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers the message of another replica; `None` for everybody else.
pub type AnswerReplica = Box<dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync>;

/// The answer to a replica that asks, or else the request, for the pages.
pub(super) async fn answer(
    request: Request<Incoming>,
    audience: Audience,
    answer_replica: &AnswerReplica,
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
