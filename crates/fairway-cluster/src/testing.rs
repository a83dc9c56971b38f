//! A client for the testkit's API server that needs no socket, so that tests can use virtual time.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fairway_testkit::api_server::{ApiResponse, ApiServer, Page};
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

/// A client whose requests get no response once `cut` is set.
pub(crate) fn client(server: &ApiServer, cut: Arc<AtomicBool>) -> Client {
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, cut) = (server.clone(), cut.clone());
        async move {
            if cut.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            respond(&server, request).await
        }
    });
    Client::new(service, "default")
}

async fn respond(
    server: &ApiServer,
    request: Request<Body>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let uri = head.uri.path_and_query().unwrap().as_str();
    Ok(match server.request(head.method.as_str(), uri, &body).await? {
        ApiResponse::Page(Page { status, text }) => {
            let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
            *response.status_mut() = StatusCode::from_u16(status)?;
            response
        }
        ApiResponse::Watch(watch) => {
            let lines = stream::unfold(watch, |mut watch| async move {
                let line = watch.next().await?;
                Some((Ok(Frame::data(Bytes::from(line))), watch))
            });
            Response::new(StreamBody::new(lines).boxed_unsync())
        }
    })
}
