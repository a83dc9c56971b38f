//! How a few long HTTP/2 connections are spread over the workers, and the load of each worker. With HTTP/2 a few
//! connections carry everything, so two on one worker may leave another idle.
//!
//! Which worker has a connection is seen from outside: a burst of requests on it, and the thread whose CPU time grows
//! most. Asks nothing of how the proxy spreads them.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use h2::client::{ResponseFuture, SendRequest};
use rustls_pki_types::ServerName;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::fleet::Fleet;
use super::floods::cpu_of_thread;
use super::frames::MAX_WINDOW;
use super::site::{HOST, Scheme, Site};
use crate::certificates::unverified_client_config;
use crate::process::Fairway;

/// Workers of the proxy, as [`Site::serve`] starts it.
pub const WORKERS: usize = 2;
/// Requests of a burst, all open at the same time.
const BURST: usize = 100;
/// Bursts used to find a connection's worker.
const BURSTS: usize = 3;
/// How long all connections are busy together.
const BUSY_PERIOD: Duration = Duration::from_millis(300);
/// Timeout for opening connections and finding their workers.
const PLACEMENT_TIMEOUT: Duration = Duration::from_secs(60);
const ENDPOINTS: usize = 2;
const REQUEST_PATH: &str = "/bytes/10";

/// The number of connections, and how often they are opened.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// The scheme of clients.
    pub scheme: Scheme,
    /// Connections at a time.
    pub connections: usize,
    /// Each time they were reopened.
    pub times: Vec<WorkerSpread>,
}

/// One distribution of connections.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerSpread {
    /// Connections of each worker.
    pub connections: Vec<usize>,
    /// CPU time of each worker while all of them were busy, in seconds.
    pub cpu_seconds: Vec<f64>,
}

impl WorkerSpread {
    /// Of the worker that has most.
    pub fn busiest_worker(&self) -> usize {
        self.connections.iter().copied().max().unwrap_or(0)
    }

    /// The share of all CPU time that the busiest worker used.
    pub fn busiest(&self) -> f64 {
        let all: f64 = self.cpu_seconds.iter().sum();
        self.cpu_seconds.iter().copied().fold(0.0, f64::max) / all.max(1e-9)
    }
}

impl Spread {
    /// The equal share of each worker.
    pub fn share(&self) -> usize {
        self.connections.div_ceil(WORKERS)
    }

    /// How often a worker had more than one above its share.
    pub fn uneven(&self) -> usize {
        self.times.iter().filter(|placed| placed.busiest_worker() > self.share() + 1).count()
    }

    /// How often no worker had more than its share.
    pub fn even(&self) -> usize {
        self.times.iter().filter(|placed| placed.busiest_worker() <= self.share()).count()
    }

    /// Violations of the promise.
    pub fn broken_promises(&self) -> Option<String> {
        (self.uneven() > 0).then(|| {
            format!(
                "{:?}: {} of {} times a worker had more than {} of {} connections",
                self.scheme,
                self.uneven(),
                self.times.len(),
                self.share() + 1,
                self.connections
            )
        })
    }
}

/// Opens `connections` connections `times` times, after the previous ones have closed.
pub async fn spread(binary: &Path, scheme: Scheme, connections: usize, times: usize) -> io::Result<Spread> {
    let site = Site::new();
    let _fleet = Fleet::start(&site, binary, ENDPOINTS).await;
    // By default a connection ends, as it should, after 1,000 requests.
    site.write_settings(&[("keep-alive-requests", "1000000")]);
    let mut fairway = site.serve(binary, &Site::SETTINGS).await;
    let workers = workers(fairway.program().id())?;
    let address = match scheme {
        Scheme::Plain => fairway.http,
        Scheme::Tls => fairway.https,
    };
    let mut placed = Vec::with_capacity(times);
    for _ in 0..times {
        until_alone(&fairway).await;
        let once = timeout(PLACEMENT_TIMEOUT, place_connections(address, scheme, connections, &workers));
        placed.push(once.await?.map_err(io::Error::other)?);
    }
    Ok(Spread { scheme, connections, times: placed })
}

/// Earlier connections are closed once the proxy reports it.
async fn until_alone(fairway: &Fairway) {
    fairway.until_metric("fairway_connections_open", &[], |open| open < 1.0).await;
}

/// The folders in `/proc` of the threads that serve connections.
fn workers(process: u32) -> io::Result<Vec<PathBuf>> {
    let mut workers = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let folder = thread?.path();
        if fs::read_to_string(folder.join("comm"))?.starts_with("worker-") {
            workers.push(folder);
        }
    }
    workers.sort();
    if workers.len() == WORKERS {
        Ok(workers)
    } else {
        Err(io::Error::other(format!("{} threads are called worker-N, not {WORKERS}", workers.len())))
    }
}

async fn place_connections(
    address: SocketAddr,
    scheme: Scheme,
    connections: usize,
    workers: &[PathBuf],
) -> Result<WorkerSpread, Failure> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut connection = Connection::open(address, scheme).await?;
        // Each of them stays, and works, before the next one comes.
        connection.burst().await?;
        open.push(connection);
    }
    let cpu = || workers.iter().map(|worker| cpu_of_thread(worker)).collect::<Vec<_>>();
    let grown = |before: Vec<Duration>| {
        cpu().into_iter().zip(before).map(|(now, then)| now.saturating_sub(then)).collect::<Vec<_>>()
    };
    let mut having = vec![0; workers.len()];
    for connection in &mut open {
        let before = cpu();
        for _ in 0..BURSTS {
            connection.burst().await?;
        }
        let grown = grown(before);
        let busiest = (0..grown.len()).max_by_key(|worker| grown[*worker]).unwrap_or(0);
        having[busiest] += 1;
    }
    let (before, began) = (cpu(), Instant::now());
    while began.elapsed() < BUSY_PERIOD {
        let mut requests = Vec::with_capacity(connections);
        for connection in &mut open {
            requests.push(connection.send().await?);
        }
        for answers in requests {
            receive(answers).await?;
        }
    }
    let cpu_seconds = grown(before).iter().map(Duration::as_secs_f64).collect();
    Ok(WorkerSpread { connections: having, cpu_seconds })
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A connection of HTTP/2, which ends with this value.
struct Connection {
    requests: SendRequest<&'static [u8]>,
    _driver: JoinSet<()>,
}

impl Connection {
    async fn open(address: SocketAddr, scheme: Scheme) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        match scheme {
            Scheme::Plain => Self::over(stream).await,
            Scheme::Tls => {
                let mut config = unverified_client_config();
                config.alpn_protocols = vec![b"h2".to_vec()];
                let connector = TlsConnector::from(Arc::new(config));
                Self::over(connector.connect(ServerName::try_from(HOST)?, stream).await?).await
            }
        }
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Self, Failure> {
        // Enough for every response.
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(MAX_WINDOW).initial_connection_window_size(1 << 30);
        let (requests, connection) = builder.handshake(stream).await?;
        let mut driver = JoinSet::new();
        // A waiting request also sees the end of the connection.
        driver.spawn(async move { _ = connection.await });
        Ok(Self { requests, _driver: driver })
    }

    /// Sends requests and reads all their responses.
    async fn burst(&mut self) -> Result<(), Failure> {
        receive(self.send().await?).await
    }

    async fn send(&mut self) -> Result<Vec<ResponseFuture>, Failure> {
        let mut responses = Vec::with_capacity(BURST);
        for _ in 0..BURST {
            let request = http::Request::get(format!("http://{HOST}{REQUEST_PATH}")).body(())?;
            let (answer, _) = self.requests.clone().ready().await?.send_request(request, true)?;
            responses.push(answer);
        }
        Ok(responses)
    }
}

async fn receive(responses: Vec<ResponseFuture>) -> Result<(), Failure> {
    for answer in responses {
        let mut body = answer.await?.into_body();
        while let Some(piece) = body.data().await {
            body.flow_control().release_capacity(piece?.len())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(connections: usize, limit: &[usize]) -> Spread {
        let placed = |limit: &usize| WorkerSpread {
            connections: vec![*limit, connections - limit],
            cpu_seconds: vec![0.3, 0.1],
        };
        Spread { scheme: Scheme::Plain, connections, times: limit.iter().map(placed).collect() }
    }

    #[test]
    fn a_worker_may_have_its_share_and_one() {
        let found = spread(4, &[2, 3, 2]);
        assert_eq!((found.share(), found.even(), found.uneven(), found.broken_promises()), (2, 2, 0, None));
        let broken = spread(4, &[2, 4]).broken_promises().unwrap();
        assert_eq!(broken, "Plain: 1 of 2 times a worker had more than 3 of 4 connections");
    }
}
