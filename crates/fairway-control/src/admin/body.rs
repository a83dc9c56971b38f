//! The responses of the admin server: what their bodies are, and what all of their heads have. Knows no page.

use std::convert::Infallible;
use std::pin::Pin;

use futures_util::Stream;
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::scrape::Scrape;

/// A whole body, or one that is written as it is read: a scrape or server-sent events.
pub type Body = Either<Full<Bytes>, Either<Scrape, Events>>;
/// Server-sent events, each made when it is due.
pub(super) type Events = StreamBody<EventStream>;
/// What they are made by.
pub(super) type EventStream = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// A response with a whole body.
pub(super) fn page(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    respond(status, content_type, Either::Left(Full::new(Bytes::from(body))))
}

/// A response that nobody keeps.
pub(super) fn respond(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
