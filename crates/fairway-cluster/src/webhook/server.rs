//! The webhook's HTTPS server. It runs on its own thread and bounds everything a client can make it hold.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use std::{io, thread};

use fairway_control::connection_slots::{ConnectionHandle, ConnectionSlots};
use fairway_control::input::Inlet;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::certificate::{Certificate, CertificateError, CertificateFiles};
use super::review::{self, AdmissionRequest, ReviewedObject};
use super::review_queue::IngressReviewer;
use super::reviews::Reviews;

/// The API server's own request limit (`--max-resource-write-bytes`, 3 MiB).
const MAX_BODY: usize = 3 * 1024 * 1024;
/// Concurrent connections. Each may hold a body.
const MAX_CONNECTIONS: usize = 16;
/// How long a slow client keeps its connection while another client waits for a slot.
const SLOW_CLIENT_GRACE: Duration = Duration::from_millis(250);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Also the longest pause between two requests on a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the certificate files are checked for changes.
const CERTIFICATE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a failed accept (out of file descriptors), to avoid a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type WebhookResponse = Response<Full<Bytes>>;

/// A bound address with a certificate; it does not serve yet.
#[derive(Debug)]
pub struct Webhook {
    listener: TcpListener,
    certificate: Certificate,
}

/// Why the webhook cannot be served.
#[derive(Debug, Error)]
pub enum WebhookError {
    /// Binding the address failed.
    #[error("{address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        error: io::Error,
    },
    /// The certificate is not usable.
    #[error("the webhook's certificate: {0}")]
    Certificate(#[from] CertificateError),
}

impl Webhook {
    /// Binds the address and reads the certificate files.
    ///
    /// # Errors
    /// The address is in use or not allowed, or a file is invalid.
    pub fn bind(address: SocketAddr, files: CertificateFiles) -> Result<Self, WebhookError> {
        let certificate = Certificate::read(files)?;
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = bound.map_err(|error| WebhookError::Bind { address, error })?;
        Ok(Self { listener, certificate })
    }

    /// The bound address.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the process ends, reviewing by the configuration behind `inlet`. Returns the counters.
    ///
    /// # Errors
    /// No thread or runtime can be started.
    pub fn serve(self, inlet: Inlet) -> io::Result<Reviews> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let reviews = Reviews::default();
        let judge = IngressReviewer::new(inlet, reviews.clone());
        let run = move || runtime.block_on(accept(listener, self.certificate, judge));
        thread::Builder::new().name("fairway-webhook".into()).spawn(run)?;
        Ok(reviews)
    }
}

async fn accept(listener: tokio::net::TcpListener, mut certificate: Certificate, judge: IngressReviewer) {
    let mut slots = ConnectionSlots::new(MAX_CONNECTIONS, SLOW_CLIENT_GRACE);
    let mut look = interval(CERTIFICATE_POLL_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = look.tick() => {
                certificate.refresh();
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => {
                let acceptor = TlsAcceptor::from(certificate.config());
                let judge = judge.clone();
                slots.serve(peer.ip(), |pace| serve(stream, acceptor, judge, pace)).await;
            }
            Err(error) => {
                tracing::warn!(%error, "the webhook cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, judge: IngressReviewer, pace: ConnectionHandle) {
    let stream = match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return tracing::debug!(%error, "a TLS handshake with the webhook failed; does its caBundle match the certificate?");
        }
        Err(_) => return,
    };
    let response = service_fn(move |request: Request<Incoming>| {
        let (judge, pace) = (judge.clone(), pace.clone());
        async move { Ok::<_, Infallible>(respond(request, &judge, &pace).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), response);
    // The client is gone or too slow; there is nobody to report it to.
    _ = connection.await;
}

async fn respond(
    request: Request<Incoming>,
    judge: &IngressReviewer,
    pace: &ConnectionHandle,
) -> WebhookResponse {
    pace.wait_for_client();
    let began = Instant::now();
    if request.method() != Method::POST {
        let mut response =
            text_response(StatusCode::METHOD_NOT_ALLOWED, "use POST for an AdmissionReview\n".into());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let body = match timeout(BODY_TIMEOUT, Limited::new(request.into_body(), MAX_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return text_response(StatusCode::PAYLOAD_TOO_LARGE, format!("more than {MAX_BODY} bytes\n"));
        }
        Ok(Err(error)) => return text_response(StatusCode::BAD_REQUEST, format!("{error}\n")),
        Err(_) => return text_response(StatusCode::REQUEST_TIMEOUT, "timed out reading the body\n".into()),
    };
    pace.wait_for_response();
    let response = match AdmissionRequest::read(&body) {
        Ok(question) => {
            let response = review_response(question, judge).await;
            judge.reviews.record_response(began.elapsed());
            response
        }
        Err(problem) => text_response(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    };
    pace.wait_for_client();
    response
}

async fn review_response(
    AdmissionRequest { uid, object: about }: AdmissionRequest,
    judge: &IngressReviewer,
) -> WebhookResponse {
    let ingress = match about {
        ReviewedObject::Ingress(ingress) => *ingress,
        ReviewedObject::Other => return json_response(&review::allowed_response(&uid, &[])),
    };
    match judge.review(ingress).await {
        Some(verdict) => json_response(&review::verdict_response(&uid, &verdict)),
        None => {
            let warning = "not judged by Fairway: its configuration is not read yet or it is busy; the log and the \
                           Events of the object will tell";
            json_response(&review::allowed_response(&uid, &[warning.to_owned()]))
        }
    }
}

fn json_response(value: &serde_json::Value) -> WebhookResponse {
    let mut response = Response::new(Full::from(value.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text_response(status: StatusCode, text: String) -> WebhookResponse {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
