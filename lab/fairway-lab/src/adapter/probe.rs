//! The readiness probe's port. The reason for not being ready is in the log only.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The port.
pub(crate) const PORT: u16 = 10_254;

/// Whether the pod is ready, for kubelet.
#[derive(Clone, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Listens; not ready at first.
    pub(crate) async fn serve() -> anyhow::Result<Self> {
        let readiness = Self::default();
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("listen on {address} for probes"))?;
        let responses = readiness.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let ready = responses.0.load(Ordering::Acquire);
                tokio::spawn(async move {
                    if let Err(error) = respond(stream, ready).await {
                        tracing::debug!(%error, "a probe went away");
                    }
                });
            }
        });
        Ok(readiness)
    }

    /// Marks the proxy as ready.
    pub(crate) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }
}

async fn respond(mut stream: TcpStream, ready: bool) -> std::io::Result<()> {
    let mut request = [0; 1024];
    // Every request gets the same response.
    _ = stream.read(&mut request).await?;
    let status = if ready { "200 OK" } else { "503 Service Unavailable" };
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await
}
