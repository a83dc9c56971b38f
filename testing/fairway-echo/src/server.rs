//! Accepts connections, makes handshakes, and ends as the options say. Knows no request.

use std::fs::OpenOptions;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
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

use crate::assertions::TlsAssertions;
use crate::options::{EchoOptions, OnSigterm};
use crate::response::{Backend, Connection, respond};

/// The listen backlog, as in Go servers. With tokio's 128, a burst loses segments, each costing a second or more.
const BACKLOG: u32 = 4096;
/// How long to pause after a failed accept, so that a lack of descriptors does not spin.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(20);
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
        let append = |file: &PathBuf| OpenOptions::new().create(true).append(true).open(file);
        let numbers = options.number_file.as_ref().map(append).transpose()?;
        let backend = Arc::new(Backend { identity: options.identity, numbers });
        let plain = listeners(&options.listen)?;
        Ok(Self { plain, secure, tls, backend, on_sigterm: options.on_sigterm })
    }

    /// Cleartext addresses in the order of the options, with the ports that were chosen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.plain.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// TLS addresses.
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
        if let OnSigterm::Drain(longest) = self.on_sigterm {
            drain.send_replace(true);
            let all = async { while accepting.join_next().await.is_some() {} };
            if tokio::time::timeout(longest, all).await.is_err() {
                tracing::warn!("not every connection was finished within {longest:?}");
            }
        }
        // Connections end with the task that accepted them.
        accepting.shutdown().await;
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

/// Accepts connections until draining, then waits for them.
async fn accept_all(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    backend: Arc<Backend>,
    draining: watch::Receiver<bool>,
) {
    let (mut connections, mut told) = (JoinSet::new(), draining.clone());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            _ = told.wait_for(|draining| *draining) => break,
        };
        match accepted {
            Ok((socket, peer)) => {
                let serving = serve(socket, peer, tls.clone(), Arc::clone(&backend), draining.clone());
                connections.spawn(async move {
                    if let Err(error) = serving.await {
                        tracing::debug!("the connection of {peer} ended: {error}");
                    }
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept: {error}");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    backend: Arc<Backend>,
    draining: watch::Receiver<bool>,
) -> Result<(), Failure> {
    socket.set_nodelay(true)?;
    let port = socket.local_addr()?.port();
    let about = |tls| Arc::new(Connection { backend, peer, port, tls });
    match tls {
        None => exchange_all(socket, about(None), draining).await,
        Some(tls) => {
            let stream = tls.accept(socket).await?;
            let agreed = TlsAssertions::from_session(stream.get_ref().1);
            exchange_all(stream, about(Some(agreed)), draining).await
        }
    }
}

/// Serves a connection; when draining, only its current request.
async fn exchange_all(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    connection: Arc<Connection>,
    mut draining: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().half_close(true).max_headers(MOST_FIELDS);
    let service = service_fn(move |request| respond(Arc::clone(&connection), request));
    let mut exchanges = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        outcome = exchanges.as_mut() => return outcome,
        // The sender is gone only when the backend is, and that ends this task too.
        _ = draining.wait_for(|draining| *draining) => exchanges.as_mut().graceful_shutdown(),
    }
    exchanges.await
}
