//! Echoes the metadata of the case `custom_metadata`, in the head and in the trailers of the response, around the service:
//! tonic's own responses have no place for trailers.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use tonic::body::Body;
use tower::{Layer, Service};

pub const INITIAL: &str = "x-grpc-test-echo-initial";
pub const TRAILING: &str = "x-grpc-test-echo-trailing-bin";

#[derive(Clone)]
pub struct EchoLayer;

impl<S> Layer<S> for EchoLayer {
    type Service = Echo<S>;

    fn layer(&self, inner: S) -> Echo<S> {
        Echo { inner }
    }
}

#[derive(Clone)]
pub struct Echo<S> {
    inner: S,
}

type Answering<E> = Pin<Box<dyn Future<Output = Result<http::Response<Body>, E>> + Send>>;

impl<S> Service<http::Request<Body>> for Echo<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Answering<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (initial, trailing) =
            (request.headers().get(INITIAL).cloned(), request.headers().get(TRAILING).cloned());
        let answering = self.inner.call(request);
        Box::pin(async move {
            let mut response = answering.await?;
            if let Some(value) = initial {
                response.headers_mut().insert(INITIAL, value);
            }
            let Some(value) = trailing else { return Ok(response) };
            // A response without messages has its trailers in the head.
            if response.headers().contains_key("grpc-status") {
                response.headers_mut().insert(TRAILING, value);
                return Ok(response);
            }
            Ok(response.map(|inner| Body::new(WithTrailer { inner, value: Some(value) })))
        })
    }
}

struct WithTrailer {
    inner: Body,
    value: Option<HeaderValue>,
}

impl WithTrailer {
    fn add(&mut self, trailers: &mut HeaderMap) {
        if let Some(value) = self.value.take() {
            trailers.insert(HeaderName::from_static(TRAILING), value);
        }
    }
}

impl http_body::Body for WithTrailer {
    type Data = <Body as http_body::Body>::Data;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, tonic::Status>>> {
        let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(context)?) else {
            return Poll::Ready(None);
        };
        Poll::Ready(Some(Ok(match frame.into_trailers() {
            Ok(mut trailers) => {
                self.add(&mut trailers);
                Frame::trailers(trailers)
            }
            Err(frame) => frame,
        })))
    }
}
