//! The admin server: a few read-only pages about the process, on a thread of its own.
//!
//! [`pages`] answers, [`dashboard`] has the pages for people, [`metrics`] writes what the control side counts, and `controller` what
//! ingress-nginx counts of its controller, `scrape` sends both in pieces, [`readiness`] says why not yet, `hosts` keeps web sites
//! out, and `leases` lets other replicas ask for what only replicas get. Never serves a secret: no private key can be written ([`fairway_model::PrivateKey`]), and what else must not be shown is
//! hidden ([`fairway_model::redaction`]).

mod audience;
mod body;
mod controller;
pub mod dashboard;
mod hosts;
mod identity;
mod leases;
pub mod metrics;
pub mod pages;
pub mod readiness;
mod scrape;
mod served;

use std::convert::Infallible;
use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout_at};

pub use audience::Audience;
pub use body::Body;
pub use identity::Identity;
pub use leases::AnswerReplica;
pub use pages::Pages;
pub use readiness::{Healthz, Readiness};
pub use scrape::{Pieces, Scrape, Scrapes};
pub use served::{Served, ServedIngress, ServedObject};

use crate::places::{Pace, Places};

/// Connections at a time. One more closes one of them at once: clients that hold connections keep no probe waiting.
const MAX_CONNECTIONS: usize = 64;
/// How long a request head may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that is so old takes no other request: nothing here is slow, and nobody may keep the places.
const KEEP_ALIVE_TIME: Duration = Duration::from_secs(50);
/// How long what is under way then may still take. Streams of events end before, so that none is cut.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept (no descriptors left), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An address that is bound and not yet served.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
}

impl Admin {
    /// Binds the address.
    ///
    /// # Errors
    /// It is in use or not allowed.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpListener::bind(address)?)
    }

    /// Over a socket that listens already.
    ///
    /// # Errors
    /// The system does not let it be waited for.
    pub fn over(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers `audience` with `pages` until the process ends, or the server is left to another process.
    ///
    /// # Errors
    /// No thread or runtime can be started.
    pub fn serve(self, pages: Arc<Pages>, audience: Audience) -> io::Result<AdminServer> {
        let socket = self.listener.try_clone()?.into();
        let (left, is_left) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let run = move || runtime.block_on(accept(listener, pages, audience, is_left));
        let name = match audience {
            Audience::Operators => "fairway-admin",
            Audience::Probes => "fairway-probe",
        };
        thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(AdminServer { socket, left })
    }
}

/// A server that answers; it goes on without this.
#[derive(Debug)]
pub struct AdminServer {
    socket: OwnedFd,
    left: watch::Sender<bool>,
}

impl AdminServer {
    /// The socket on which it accepts connections, once more.
    ///
    /// # Errors
    /// The process may open no more files.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Accepts no more connections, and closes those that are open after the response under way: another process has the socket.
    pub fn leave(self) {
        self.left.send_replace(true);
    }
}

/// Waits until the server is left to another process.
async fn left(mut is_left: watch::Receiver<bool>) {
    if is_left.wait_for(|left| *left).await.is_err() {
        pending::<()>().await;
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    pages: Arc<Pages>,
    audience: Audience,
    is_left: watch::Receiver<bool>,
) {
    let mut places = Places::new(MAX_CONNECTIONS, Duration::ZERO);
    loop {
        let accepted = tokio::select! {
            biased;
            () = left(is_left.clone()) => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (pages, is_left) = (pages.clone(), is_left.clone());
                places.take(peer.ip(), |pace| serve(stream, pages, audience, pace, is_left)).await;
                // A request that came with its connection is answered before later connections can take its place.
                yield_now().await;
            }
            Err(error) => {
                tracing::warn!(%error, "the admin server cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // Connections that are open end by themselves.
    pending::<()>().await;
}

async fn serve(
    stream: TcpStream,
    pages: Arc<Pages>,
    audience: Audience,
    pace: Pace,
    is_left: watch::Receiver<bool>,
) {
    let end = Instant::now() + KEEP_ALIVE_TIME;
    let answer = service_fn(move |request: Request<Incoming>| {
        let (pages, pace) = (pages.clone(), pace.clone());
        async move {
            pace.client();
            let request = match leases::answer(request, audience, &pages.answer_replica).await {
                Ok(answer) => return Ok(answer),
                Err(request) => request,
            };
            Ok::<Response<Body>, Infallible>(pages.answer(&request, audience, &pace, end).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = sleep_until(end) => {}
        () = left(is_left) => {}
    }
    connection.as_mut().graceful_shutdown();
    // A client that goes away or is too slow is its own business.
    _ = timeout_at(end + LAST_RESPONSE_TIMEOUT, connection).await;
}
