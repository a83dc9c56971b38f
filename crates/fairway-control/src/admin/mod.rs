//! The admin server: a few read-only pages about the process, on a thread of its own.
//!
//! [`pages`] answers, [`dashboard`] has the pages for people, [`metrics`] writes what the control side counts, and `controller` what
//! ingress-nginx counts of its controller, `scrape` sends both in pieces, [`readiness`] says why not yet, `hosts` keeps web sites
//! out. Never serves a secret: no private key can be written ([`fairway_model::PrivateKey`]), and what else must not be shown is
//! hidden ([`fairway_model::redaction`]).

mod audience;
mod body;
mod controller;
pub mod dashboard;
mod hosts;
mod identity;
pub mod metrics;
pub mod pages;
pub mod readiness;
mod scrape;
mod served;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
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
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

pub use audience::Audience;
pub use body::Body;
pub use identity::Identity;
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
        let listener = TcpListener::bind(address)?;
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

    /// Answers `audience` with `pages` until the process ends.
    ///
    /// # Errors
    /// No thread or runtime can be started.
    pub fn serve(self, pages: Arc<Pages>, audience: Audience) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let run = move || runtime.block_on(accept(listener, pages, audience));
        let name = match audience {
            Audience::Operators => "fairway-admin",
            Audience::Probes => "fairway-probe",
        };
        thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(())
    }
}

async fn accept(listener: tokio::net::TcpListener, pages: Arc<Pages>, audience: Audience) {
    let mut places = Places::new(MAX_CONNECTIONS, Duration::ZERO);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let pages = pages.clone();
                places.take(peer.ip(), |pace| serve(stream, pages, audience, pace)).await;
                // A request that came with its connection is answered before later connections can take its place.
                yield_now().await;
            }
            Err(error) => {
                tracing::warn!(%error, "the admin server cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, pages: Arc<Pages>, audience: Audience, pace: Pace) {
    let end = Instant::now() + KEEP_ALIVE_TIME;
    let answer = service_fn(move |request: Request<Incoming>| {
        let (pages, pace) = (pages.clone(), pace.clone());
        async move {
            pace.client();
            Ok::<Response<Body>, Infallible>(pages.answer(&request, audience, &pace, end).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    if timeout_at(end, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        // A client that goes away or is too slow is its own business.
        _ = timeout_at(end + LAST_RESPONSE_TIMEOUT, connection).await;
    }
}
