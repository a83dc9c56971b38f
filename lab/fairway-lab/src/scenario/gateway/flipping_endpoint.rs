//! An endpoint that is healthy or not on command, in this process, so that its requests are counted. While unhealthy it
//! refuses connections and closes existing ones.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// The backends' response, as far as it is checked.
const BACKEND_RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/plain\r\nX-Lab-Backend: flipping\r\n\r\nok\n";
/// A head is not larger.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The endpoint.
pub(super) struct Flipping {
    address: SocketAddr,
    served: Arc<ReceivedRequests>,
    /// The server with its connections, while it is well.
    running: Option<JoinSet<()>>,
}

/// The requests received.
struct ReceivedRequests {
    begun: Instant,
    requests: AtomicU64,
    /// When the first request arrived since it last became healthy, in microseconds since `begun`; 0 for not yet.
    first_us: AtomicU64,
}

impl Flipping {
    /// A healthy endpoint, on a free port of an address of this machine.
    pub(super) fn start(address: IpAddr) -> anyhow::Result<Self> {
        let started = Instant::now();
        let served =
            ReceivedRequests { begun: started, requests: AtomicU64::new(0), first_us: AtomicU64::new(0) };
        let (address, served) = (SocketAddr::new(address, 0), Arc::new(served));
        let mut flipping = Self { address, served, running: None };
        flipping.be_well()?;
        Ok(flipping)
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The number of requests answered.
    pub(super) fn requests(&self) -> u64 {
        self.served.requests.load(Ordering::Relaxed)
    }

    /// When the first request arrived since it last became healthy.
    pub(super) fn first(&self) -> Option<Instant> {
        let us = self.served.first_us.load(Ordering::Relaxed);
        (us > 0).then(|| self.served.begun + std::time::Duration::from_micros(us))
    }

    pub(super) fn be_well(&mut self) -> anyhow::Result<()> {
        let socket = if self.address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(self.address).with_context(|| format!("bind {}", self.address))?;
        let listener = socket.listen(1024)?;
        self.address = listener.local_addr()?;
        self.served.first_us.store(0, Ordering::Relaxed);
        let mut running = JoinSet::new();
        running.spawn(accept(listener, self.served.clone()));
        self.running = Some(running);
        Ok(())
    }

    pub(super) async fn fail(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.shutdown().await;
        }
    }
}

/// Connections end with it.
async fn accept(listener: TcpListener, served: Arc<ReceivedRequests>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, served.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, served: Arc<ReceivedRequests>) {
    let mut bytes = Vec::new();
    loop {
        while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            bytes.drain(..end + 4);
            served.requests.fetch_add(1, Ordering::Relaxed);
            let now = u64::try_from(served.begun.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
            _ = served.first_us.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            if stream.write_all(BACKEND_RESPONSE).await.is_err() {
                return;
            }
        }
        if bytes.len() > MAX_HEAD_BYTES || !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::probe::Probe;
    use super::*;

    #[tokio::test]
    async fn the_endpoint_serves_while_healthy_refuses_while_not_and_keeps_its_port() {
        let mut flipping = Flipping::start(IpAddr::from([127, 0, 0, 1])).unwrap();
        let address = flipping.address;
        let mut probe = Probe::new(address);
        for _ in 0..3 {
            let response = probe.request_root("a.test").await.unwrap();
            assert_eq!((response.status, response.backend.as_deref()), (200, Some("flipping")));
        }
        assert_eq!(flipping.requests(), 3);
        flipping.fail().await;
        assert!(
            probe.request_root("a.test").await.is_err(),
            "its connection is gone, and another one is refused"
        );
        let well = Instant::now();
        flipping.be_well().unwrap();
        assert_eq!((flipping.address, flipping.first()), (address, None));
        assert_eq!(probe.request_root("a.test").await.unwrap().status, 200);
        assert!(flipping.first().is_some_and(|first| first >= well));
    }
}
