//! The admin server: a few read-only pages about the process, on its own thread.
//!
//! [`pages`] dispatches, [`dashboard`] has the HTML pages, [`metrics`] writes the control side's metrics, and `controller` those
//! of ingress-nginx's controller; `scrape` streams both, [`readiness`] reports readiness, `hosts` keeps web sites out, and
//! `leases` handles requests of other replicas. Never serves a secret: private keys cannot be serialized
//! ([`fairway_model::PrivateKey`]), and other secrets are redacted ([`fairway_model::redaction`]).

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
pub use leases::HandleReplicaMessage;
pub use pages::Pages;
pub use readiness::{Healthz, Readiness};
pub use scrape::{Scrape, ScrapeLimits, TextChunks};
pub use served::{ServedConfig, ServedIngress, ServedObject};

use crate::connection_slots::{ConnectionHandle, ConnectionSlots};

/// Concurrent connections. One more closes one of them at once: clients that hold connections cannot delay probes.
const MAX_CONNECTIONS: usize = 64;
/// Timeout of a request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// After this time a connection accepts no further request: nothing here is slow, and no client may keep a slot.
const KEEP_ALIVE_TIME: Duration = Duration::from_secs(50);
/// Timeout of the response in progress after that. Event streams end earlier, so none is cut off.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept (out of file descriptors), to avoid a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound address; it does not serve yet.
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
        Self::from_listener(TcpListener::bind(address)?)
    }

    /// Uses a socket that is already listening.
    ///
    /// # Errors
    /// The socket cannot be polled.
    pub fn from_listener(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// The bound address.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves `pages` to `audience` until the process ends or another process takes over.
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
        Ok(AdminServer { socket, stopped: left })
    }
}

/// A running server; it keeps running when this is dropped.
#[derive(Debug)]
pub struct AdminServer {
    socket: OwnedFd,
    stopped: watch::Sender<bool>,
}

impl AdminServer {
    /// A duplicate of the listening socket.
    ///
    /// # Errors
    /// The process may open no more files.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Stops accepting, and closes open connections after the response in progress: another process has the socket.
    pub fn stop_accepting(self) {
        self.stopped.send_replace(true);
    }
}

/// Waits until another process takes over.
async fn wait_for_stop(mut is_left: watch::Receiver<bool>) {
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
    let mut slots = ConnectionSlots::new(MAX_CONNECTIONS, Duration::ZERO);
    loop {
        let accepted = tokio::select! {
            biased;
            () = wait_for_stop(is_left.clone()) => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (pages, is_left) = (pages.clone(), is_left.clone());
                slots.serve(peer.ip(), |pace| serve(stream, pages, audience, pace, is_left)).await;
                // A request that arrives with its connection is answered before a later connection can take its slot.
                yield_now().await;
            }
            Err(error) => {
                tracing::warn!(%error, "the admin server cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // Open connections end by themselves.
    pending::<()>().await;
}

async fn serve(
    stream: TcpStream,
    pages: Arc<Pages>,
    audience: Audience,
    pace: ConnectionHandle,
    is_left: watch::Receiver<bool>,
) {
    let end = Instant::now() + KEEP_ALIVE_TIME;
    let response = service_fn(move |request: Request<Incoming>| {
        let (pages, pace) = (pages.clone(), pace.clone());
        async move {
            pace.wait_for_client();
            let request = match leases::handle_replica_request(request, audience, &pages.answer_replica).await
            {
                Ok(answer) => return Ok(answer),
                Err(request) => request,
            };
            Ok::<Response<Body>, Infallible>(pages.respond(&request, audience, &pace, end).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), response);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = sleep_until(end) => {}
        () = wait_for_stop(is_left) => {}
    }
    connection.as_mut().graceful_shutdown();
    // The client is gone or too slow; there is nobody to report it to.
    _ = timeout_at(end + LAST_RESPONSE_TIMEOUT, connection).await;
}
