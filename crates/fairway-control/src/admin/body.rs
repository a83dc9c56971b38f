//! Responses of the admin server: their body types and common headers.

use std::convert::Infallible;
use std::pin::Pin;

use futures_util::Stream;
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::scrape::Scrape;

/// A complete body, or one that is streamed: a scrape or server-sent events.
pub type Body = Either<Full<Bytes>, Either<Scrape, Events>>;
/// Server-sent events, each created when it is due.
pub(super) type Events = StreamBody<EventStream>;
/// The stream behind them.
pub(super) type EventStream = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;

pub(super) const TEXT_CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// A response with a complete body.
pub(super) fn page(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    respond(status, content_type, Either::Left(Full::new(Bytes::from(body))))
}

/// A response that must not be cached.
pub(super) fn respond(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
