//! The HTTPS server of the webhook, on a thread of its own, with a bound on everything that a client can make it hold.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use std::{io, thread};

use fairway_control::inlet::Inlet;
use fairway_control::places::{Pace, Places};
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

use super::certificate::{Certificate, CertificateError, Files};
use super::judge::Judge;
use super::review::{self, About, Question};
use super::reviews::Reviews;

/// What the API server itself takes from a client (`--max-resource-write-bytes`, 3 MiB).
const MAX_BODY: usize = 3 * 1024 * 1024;
/// Connections at a time. Each may hold a body.
const MAX_CONNECTIONS: usize = 16;
/// A client may keep the webhook waiting for this long, whoever else waits for a place.
const GRACE: Duration = Duration::from_millis(250);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Also the longest pause between two requests of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
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
    /// Binds the address, and reads the files.
    ///
    /// # Errors
    /// The address is in use or not allowed, or the files do not hold what they should.
    pub fn bind(address: SocketAddr, files: Files) -> Result<Self, WebhookError> {
        let certificate = Certificate::read(files)?;
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

    /// Answers until the process ends, judging by the configuration behind `inlet`, and counts in what this returns.
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
        let judge = Judge::new(inlet, reviews.clone());
        let run = move || runtime.block_on(accept(listener, self.certificate, judge));
        thread::Builder::new().name("fairway-webhook".into()).spawn(run)?;
        Ok(reviews)
    }
}

async fn accept(listener: tokio::net::TcpListener, mut certificate: Certificate, judge: Judge) {
    let mut places = Places::new(MAX_CONNECTIONS, GRACE);
    let mut look = interval(LOOK);
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
                places.take(peer.ip(), |pace| serve(stream, acceptor, judge, pace)).await;
            }
            Err(error) => {
                tracing::warn!(%error, "the webhook cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, judge: Judge, pace: Pace) {
    let stream = match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return tracing::debug!(%error, "a client of the webhook; does its caBundle go with the certificate?");
        }
        Err(_) => return,
    };
    let answer = service_fn(move |request: Request<Incoming>| {
        let (judge, pace) = (judge.clone(), pace.clone());
        async move { Ok::<_, Infallible>(answer(request, &judge, &pace).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), answer);
    // A client that goes away or is too slow is its own business.
    _ = connection.await;
}

async fn answer(request: Request<Incoming>, judge: &Judge, pace: &Pace) -> Answer {
    pace.client();
    let began = Instant::now();
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
    pace.answer();
    let answer = match Question::read(&body) {
        Ok(question) => {
            let answer = judged(question, judge).await;
            judge.reviews.answered(began.elapsed());
            answer
        }
        Err(problem) => text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    };
    pace.client();
    answer
}

async fn judged(Question { uid, about }: Question, judge: &Judge) -> Answer {
    let ingress = match about {
        About::Ingress(ingress) => *ingress,
        About::AnythingElse => return json(&review::allowed(&uid, &[])),
    };
    match judge.judge(ingress).await {
        Some(verdict) => json(&review::answer(&uid, &verdict)),
        None => {
            let warning = "not judged by Fairway: its configuration is not read yet or it is busy; the log and the \
                           Events of the object will tell";
            json(&review::allowed(&uid, &[warning.to_owned()]))
        }
    }
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
