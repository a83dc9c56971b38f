//! How a few long connections of HTTP/2 are spread over the workers, and what each worker then does. With HTTP/2 a few
//! connections carry everything, so that two on one worker leave the other one idle.
//!
//! Which worker has a connection is seen from outside: a burst of requests on it, and the thread whose CPU time grows
//! most. Asks nothing of how the proxy spreads them.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;
use serde::Serialize;

use super::fleet::Fleet;
use super::floods::cpu_of_thread;
use super::frames::{
    ACK, DATA, END_STREAM, Frames, GOAWAY, HEAD, HEADERS, INITIAL_WINDOW_SIZE, LARGEST, PING, RST_STREAM,
    SETTINGS, WINDOW_UPDATE,
};
use super::site::{HOST, Scheme, Site};
use crate::certificates::trusting_anything;
use crate::process::Fairway;

/// Workers of the proxy, as [`Site::serve`] starts it.
pub const WORKERS: usize = 2;
/// Requests of a burst, all open at the same time.
const BURST: u32 = 100;
/// Bursts by which a connection's worker is found.
const BURSTS: usize = 3;
/// How long all connections together are busy.
const BUSY: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(10);
const ENDPOINTS: usize = 2;
const ASKED: &str = "/bytes/10";

/// So many connections, spread so often.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// How clients spoke.
    pub scheme: Scheme,
    /// Connections at a time.
    pub connections: usize,
    /// Each time that they were opened anew.
    pub times: Vec<Placed>,
}

/// Where connections were once.
#[derive(Clone, Debug, Serialize)]
pub struct Placed {
    /// Connections of each worker.
    pub connections: Vec<usize>,
    /// CPU time of each worker while all of them were busy, in seconds.
    pub cpu_seconds: Vec<f64>,
}

impl Placed {
    /// Of the worker that has most.
    #[must_use]
    pub fn most(&self) -> usize {
        self.connections.iter().copied().max().unwrap_or(0)
    }

    /// The share of all CPU time that the busiest worker used.
    #[must_use]
    pub fn busiest(&self) -> f64 {
        let all: f64 = self.cpu_seconds.iter().sum();
        self.cpu_seconds.iter().copied().fold(0.0, f64::max) / all.max(1e-9)
    }
}

impl Spread {
    /// What every worker has when all have the same.
    #[must_use]
    pub fn share(&self) -> usize {
        self.connections.div_ceil(WORKERS)
    }

    /// How often a worker had more than its share and one.
    #[must_use]
    pub fn uneven(&self) -> usize {
        self.times.iter().filter(|placed| placed.most() > self.share() + 1).count()
    }

    /// How often no worker had more than its share.
    #[must_use]
    pub fn even(&self) -> usize {
        self.times.iter().filter(|placed| placed.most() <= self.share()).count()
    }

    /// What was promised and is not so.
    #[must_use]
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

/// Opens `connections` connections `times` times, each time after those before were gone.
///
/// # Errors
///
/// A connection that the proxy does not take or does not answer on.
///
/// # Panics
///
/// When a process cannot be started or does not become ready.
pub async fn spread(binary: &Path, scheme: Scheme, connections: usize, times: usize) -> io::Result<Spread> {
    let site = Site::new();
    let mut fleet = Fleet::new(binary, &site.numbers());
    fleet.grow(ENDPOINTS).await;
    site.list(&fleet.addresses());
    // By default a connection ends, as it should, after 1,000 requests.
    site.settle(&[("keep-alive-requests", "1000000")]);
    let mut fairway = site.serve(binary, &Site::SETTINGS).await;
    let workers = workers(fairway.program().id())?;
    let address = match scheme {
        Scheme::Plain => fairway.http,
        Scheme::Tls => fairway.https,
    };
    let mut placed = Vec::with_capacity(times);
    for _ in 0..times {
        until_alone(&fairway).await;
        let workers = workers.clone();
        let once = tokio::task::spawn_blocking(move || place(address, scheme, connections, &workers));
        placed.push(once.await.map_err(io::Error::other)??);
    }
    Ok(Spread { scheme, connections, times: placed })
}

/// Connections of the time before are gone once the proxy says so.
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

fn place(address: SocketAddr, scheme: Scheme, connections: usize, workers: &[PathBuf]) -> io::Result<Placed> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut connection = Connection::open(address, scheme)?;
        // Each of them stays, and works, before the next one comes.
        connection.burst()?;
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
            connection.burst()?;
        }
        let grown = grown(before);
        let busiest = (0..grown.len()).max_by_key(|worker| grown[*worker]).unwrap_or(0);
        having[busiest] += 1;
    }
    let (before, began) = (cpu(), Instant::now());
    while began.elapsed() < BUSY {
        for connection in &mut open {
            connection.send()?;
        }
        for connection in &mut open {
            connection.receive()?;
        }
    }
    let cpu_seconds = grown(before).iter().map(Duration::as_secs_f64).collect();
    Ok(Placed { connections: having, cpu_seconds })
}

trait Duplex: Read + Write {}

impl<T: Read + Write> Duplex for T {}

/// A connection of HTTP/2 that stays open.
struct Connection {
    stream: Box<dyn Duplex>,
    /// The first stream of the next burst.
    next: u32,
    received: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr, scheme: Scheme) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream: Box<dyn Duplex> = match scheme {
            Scheme::Plain => Box::new(stream),
            Scheme::Tls => {
                let mut config = trusting_anything();
                config.alpn_protocols = vec![b"h2".to_vec()];
                let name = ServerName::try_from(HOST).map_err(io::Error::other)?;
                let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(session, stream))
            }
        };
        let opening = Frames::opening(&[(INITIAL_WINDOW_SIZE, LARGEST)]);
        // As many answers as there may ever be.
        let window = opening.frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        stream.write_all(&window.into_bytes())?;
        Ok(Self { stream, next: 1, received: Vec::new() })
    }

    /// Requests, and all of their answers.
    fn burst(&mut self) -> io::Result<()> {
        self.send()?;
        self.receive()
    }

    fn send(&mut self) -> io::Result<()> {
        let first = self.next;
        self.next += 2 * BURST;
        let requests =
            (0..BURST).fold(Frames::default(), |frames, number| frames.get(first + 2 * number, ASKED));
        self.stream.write_all(&requests.into_bytes())?;
        self.stream.flush()
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut left = BURST;
        let mut buffer = [0; 16 * 1024];
        loop {
            left = left.saturating_sub(self.frames()?);
            if left == 0 {
                return Ok(());
            }
            match self.stream.read(&mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => self.received.extend_from_slice(&buffer[..read]),
            }
        }
    }

    /// Takes the frames that are complete; how many answers ended in them.
    fn frames(&mut self) -> io::Result<u32> {
        let (mut used, mut ended) = (0, 0);
        while let Some(head) = self.received.get(used..used + HEAD) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let Some(payload) = self.received.get(used + HEAD..used + HEAD + length) else { break };
            let reply = match kind {
                SETTINGS if flags & ACK == 0 => Some(Frames::default().frame(SETTINGS, ACK, 0, &[])),
                PING if flags & ACK == 0 => Some(Frames::default().frame(PING, ACK, 0, payload)),
                GOAWAY | RST_STREAM => return Err(io::Error::other(format!("a frame of kind {kind}"))),
                HEADERS | DATA if flags & END_STREAM != 0 => {
                    ended += 1;
                    None
                }
                _ => None,
            };
            used += HEAD + length;
            if let Some(reply) = reply {
                self.stream.write_all(&reply.into_bytes())?;
            }
        }
        self.received.drain(..used);
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(connections: usize, most: &[usize]) -> Spread {
        let placed = |most: &usize| Placed {
            connections: vec![*most, connections - most],
            cpu_seconds: vec![0.3, 0.1],
        };
        Spread { scheme: Scheme::Plain, connections, times: most.iter().map(placed).collect() }
    }

    #[test]
    fn a_worker_may_have_its_share_and_one() {
        let found = spread(4, &[2, 3, 2]);
        assert_eq!((found.share(), found.even(), found.uneven(), found.broken_promises()), (2, 2, 0, None));
        let broken = spread(4, &[2, 4]).broken_promises().unwrap();
        assert_eq!(broken, "Plain: 1 of 2 times a worker had more than 3 of 4 connections");
    }

    #[test]
    fn the_busiest_worker_has_its_share_of_the_time_of_all() {
        assert!((spread(2, &[1]).times[0].busiest() - 0.75).abs() < 1e-9);
    }
}
