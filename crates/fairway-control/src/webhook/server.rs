//! The HTTPS server of the webhook, on a thread of its own, with a bound on everything that a client can make it hold.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::certificate::{Certificate, CertificateError};
use super::review::{self, About, Question};
use crate::clock;
use crate::pipeline::Inlet;

/// Connections at a time; more wait in the listen queue. Each may hold a body.
const MAX_CONNECTIONS: usize = 16;
/// What the API server itself takes from a client (`--max-resource-write-bytes`, 3 MiB).
const MAX_BODY: usize = 3 * 1024 * 1024;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Also the longest pause between two requests of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer nothing is judged: the API server waits, and a user behind it.
const JUDGE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the files of the certificate are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after a failed accept (no descriptors left), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Answer = Response<Full<Bytes>>;

/// An address that is bound, with a certificate, and not yet served.
#[derive(Debug)]
pub struct Webhook {
    listener: TcpListener,
    certificate: Certificate,
}

/// Why the webhook cannot be served.
#[derive(Debug, Error)]
pub enum WebhookError {
    /// The address.
    #[error("{address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        error: io::Error,
    },
    /// The certificate.
    #[error("the webhook's certificate: {0}")]
    Certificate(#[from] CertificateError),
}

impl Webhook {
    /// Binds the address, and reads the certificate chain and the private key, both PEM.
    ///
    /// # Errors
    /// The address is in use or not allowed, or the files hold no certificate with its key.
    pub fn bind(address: SocketAddr, chain_file: &Path, key_file: &Path) -> Result<Self, WebhookError> {
        let certificate = Certificate::read(chain_file, key_file)?;
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = bound.map_err(|error| WebhookError::Bind { address, error })?;
        Ok(Self { listener, certificate })
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the process ends, judging by the configuration behind `inlet`.
    ///
    /// # Errors
    /// No thread or runtime can be started.
    pub fn serve(self, inlet: Inlet) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let run = move || runtime.block_on(accept(listener, self.certificate, inlet));
        thread::Builder::new().name("fairway-webhook".into()).spawn(run)?;
        Ok(())
    }
}

async fn accept(listener: tokio::net::TcpListener, mut certificate: Certificate, inlet: Inlet) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
            _ = look.tick() => {
                certificate.refresh();
                continue;
            }
        };
        match accepted {
            Ok((stream, _)) => {
                let acceptor = TlsAcceptor::from(certificate.config());
                let inlet = inlet.clone();
                tokio::spawn(async move {
                    serve(stream, acceptor, inlet).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the webhook cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, inlet: Inlet) {
    let stream = match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return tracing::debug!(%error, "a client of the webhook; does its caBundle go with the certificate?");
        }
        Err(_) => return,
    };
    let answer = service_fn(move |request: Request<Incoming>| {
        let inlet = inlet.clone();
        async move { Ok::<_, Infallible>(answer(request, &inlet).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), answer);
    // A client that goes away or is too slow is its own business.
    _ = connection.await;
}

async fn answer(request: Request<Incoming>, inlet: &Inlet) -> Answer {
    if request.method() != Method::POST {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "an AdmissionReview is posted\n".into());
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return answer;
    }
    let body = match timeout(BODY_TIMEOUT, Limited::new(request.into_body(), MAX_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return text(StatusCode::PAYLOAD_TOO_LARGE, format!("more than {MAX_BODY} bytes\n"));
        }
        Ok(Err(error)) => return text(StatusCode::BAD_REQUEST, format!("{error}\n")),
        Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the body takes too long\n".into()),
    };
    match Question::read(&body) {
        Ok(question) => judged(question, inlet).await,
        Err(problem) => text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    }
}

async fn judged(Question { uid, about }: Question, inlet: &Inlet) -> Answer {
    let ingress = match about {
        About::Ingress(ingress) => *ingress,
        About::AnythingElse => return json(&review::allowed(&uid, &[])),
    };
    let Ok(Some(trial)) = timeout(JUDGE_TIMEOUT, inlet.trial()).await else {
        let warning = "not judged by Fairway: its configuration is not read yet or it is busy; the log and the Events \
                       of the object will tell";
        return json(&review::allowed(&uid, &[warning.to_owned()]));
    };
    json(&review::answer(&uid, &trial.judge(ingress, clock::unix_seconds())))
}

fn json(value: &serde_json::Value) -> Answer {
    let mut answer = Response::new(Full::from(value.to_string()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn text(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
