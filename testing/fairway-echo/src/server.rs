//! Accepts connections, makes handshakes, and ends as the options say. Knows no request.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::answer::{Backend, Connection, answer};
use crate::assertions::TlsAssertions;
use crate::numbers::Numbers;
use crate::options::{EchoOptions, OnSigterm};
use crate::retry::Retries;
use crate::tasks::Tasks;
use crate::transport::{ResetOrder, Transport};

/// Connections that may wait to be accepted, as in a server written in Go: with tokio's 128, a burst loses segments, and a
/// second or more with each.
const BACKLOG: u32 = 4096;
/// How long accepting rests when it fails, so that a lack of descriptors does not spin.
const REST: Duration = Duration::from_millis(20);
/// A proxy may add a few fields to a head that already has its hundred.
const MOST_FIELDS: usize = 256;

/// A backend that is bound and does not yet serve.
pub struct EchoServer {
    plain: Vec<TcpListener>,
    secure: Vec<TcpListener>,
    tls: Option<TlsAcceptor>,
    backend: Arc<Backend>,
    on_sigterm: OnSigterm,
}

/// Binds and serves until `shutdown` comes.
///
/// # Errors
///
/// As [`EchoServer::bind`].
pub async fn serve(options: EchoOptions, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    EchoServer::bind(options).await?.run(shutdown).await;
    Ok(())
}

impl EchoServer {
    /// Binds every address and reads every file.
    ///
    /// # Errors
    ///
    /// When an address cannot be bound or a file cannot be used; the message names it.
    pub async fn bind(options: EchoOptions) -> io::Result<Self> {
        let (tls, secure) = match &options.tls {
            None => (None, Vec::new()),
            Some(tls) => (Some(TlsAcceptor::from(Arc::new(tls.server_config()?))), listeners(&tls.listen)?),
        };
        let backend = Arc::new(Backend {
            identity: options.identity,
            numbers: Numbers::new(options.number_file.as_deref())?,
            retries: Retries::default(),
            tasks: Tasks::default(),
        });
        let plain = listeners(&options.listen)?;
        Ok(Self { plain, secure, tls, backend, on_sigterm: options.on_sigterm })
    }

    /// Where it takes cleartext, in the order of the options, with the ports that were chosen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.plain.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Where it takes TLS.
    #[must_use]
    pub fn tls_addresses(&self) -> Vec<SocketAddr> {
        self.secure.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves until `shutdown` comes, then ends as the options say.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (drain, draining) = watch::channel(false);
        let mut accepting = JoinSet::new();
        let plain = self.plain.into_iter().map(|listener| (listener, None));
        let secure = self.secure.into_iter().map(|listener| (listener, self.tls.clone()));
        for (listener, tls) in plain.chain(secure) {
            accepting.spawn(accept_all(listener, tls, Arc::clone(&self.backend), draining.clone()));
        }
        shutdown.await;
        accepting.shutdown().await;
        let mut running = self.backend.tasks.take();
        if let OnSigterm::Drain(longest) = self.on_sigterm {
            drain.send_replace(true);
            let all = async { while running.join_next().await.is_some() {} };
            if tokio::time::timeout(longest, all).await.is_err() {
                tracing::warn!("{} connections were not finished within {longest:?}", running.len());
            }
        }
        running.shutdown().await;
    }
}

fn listeners(addresses: &[SocketAddr]) -> io::Result<Vec<TcpListener>> {
    let mut bound = Vec::with_capacity(addresses.len());
    for address in addresses {
        let listener = listen(*address);
        bound.push(listener.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?);
    }
    Ok(bound)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept_all(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    backend: Arc<Backend>,
    draining: watch::Receiver<bool>,
) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let accepted = Accepted { socket, peer, tls: tls.clone(), draining: draining.clone() };
                let of = Arc::clone(&backend);
                backend.tasks.spawn(async move {
                    if let Err(error) = accepted.serve(of).await {
                        tracing::debug!("the connection of {peer} ended: {error}");
                    }
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept: {error}");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A connection that nobody has spoken on.
struct Accepted {
    socket: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    draining: watch::Receiver<bool>,
}

impl Accepted {
    async fn serve(self, backend: Arc<Backend>) -> Result<(), Failure> {
        let Self { socket, peer, tls, draining } = self;
        socket.set_nodelay(true)?;
        let port = socket.local_addr()?.port();
        let (transport, reset) = Transport::new(socket);
        let about = |tls, reset: ResetOrder| Arc::new(Connection { backend, peer, port, tls, reset });
        match tls {
            None => exchange_all(transport, about(None, reset), draining).await,
            Some(tls) => {
                let stream = tls.accept(transport).await?;
                let agreed = TlsAssertions::of(stream.get_ref().1);
                exchange_all(stream, about(Some(agreed), reset), draining).await
            }
        }
    }
}

/// Answers every request of a connection; when draining, the one it has.
async fn exchange_all(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connection: Arc<Connection>,
    mut draining: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().half_close(true).max_headers(MOST_FIELDS);
    builder.http2().enable_connect_protocol();
    let service = service_fn(move |request| answer(Arc::clone(&connection), request));
    let mut exchanges = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        outcome = exchanges.as_mut() => return outcome,
        // The sender is gone only when the backend is, and that ends this task too.
        _ = draining.wait_for(|draining| *draining) => exchanges.as_mut().graceful_shutdown(),
    }
    exchanges.await
}
