//! Accepting connections: an error never ends the loop, and a full process refuses politely.

use std::cell::RefCell;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

use crate::clock::Instant;
use crate::downstream;
use crate::fault::Fault;
use crate::listener::ListenerName;
use crate::transport::{Network, Prefixed};
use crate::worker::Worker;
use crate::{proxy_protocol, tls};

/// How long the loop rests when the system refuses more sockets.
const REST: Duration = Duration::from_millis(20);

/// What is sent where one connection too many arrives.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

/// What a worker needs to accept: its share of the connections, and one descriptor in reserve, so that a process that
/// has none left can still take a connection off the queue and refuse it.
pub(crate) struct Accepting {
    connections: u64,
    reserve: RefCell<Option<File>>,
}

/// What is known of a connection before its first byte of HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) listener: ListenerName,
    /// Who the client is, as far as the transport says: who sent the bytes, or whom the PROXY protocol named. An IPv4
    /// client on a dual-stack socket is an IPv4 client.
    pub(crate) client: IpAddr,
}

impl Accepting {
    pub(crate) fn new<N: Network>(worker: &Worker<N>) -> io::Result<Self> {
        let options = &worker.options;
        let whole = options.limits.connections.unwrap_or_else(half_of_the_file_limit);
        let connections = (whole / options.workers.max(1)).max(1) as u64;
        Ok(Self { connections, reserve: RefCell::new(Some(reserve()?)) })
    }

    /// Takes one waiting connection and closes it, with the descriptor in reserve.
    async fn refuse_one(&self, socket: &TcpListener) {
        self.reserve.borrow_mut().take();
        if let Ok(Ok((stream, _))) = tokio::time::timeout(REST, socket.accept()).await {
            refuse(&stream);
        }
        *self.reserve.borrow_mut() = reserve().ok();
    }
}

/// Accepts on one socket for as long as the worker lives.
pub(crate) async fn accept<N: Network>(
    worker: Rc<Worker<N>>,
    accepting: Rc<Accepting>,
    name: ListenerName,
    socket: TcpListener,
) {
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = worker.draining() => break,
        };
        match accepted {
            Ok((stream, address)) => admit(
                &worker,
                &accepting,
                Peer { listener: name, client: address.ip().to_canonical() },
                stream,
            ),
            Err(error) if is_out_of_descriptors(&error) => {
                worker.counters.refused(Fault::Overloaded);
                accepting.refuse_one(&socket).await;
                tokio::time::sleep(REST).await;
            }
            // The client left while it waited, or the network stack had a hiccup: the next one may be fine.
            Err(_) => tokio::task::yield_now().await,
        }
    }
    // The kernel has accepted them already: closing the socket would reset them.
    while let Poll::Ready(Ok((stream, address))) = poll_fn(|cx| Poll::Ready(socket.poll_accept(cx))).await {
        let peer = Peer { listener: name, client: address.ip().to_canonical() };
        admit(&worker, &accepting, peer, stream);
    }
}

fn admit<N: Network>(worker: &Rc<Worker<N>>, accepting: &Accepting, peer: Peer, stream: TcpStream) {
    let settings = worker.adopted();
    let limit =
        settings.settings().downstream.connections_per_worker.map_or(accepting.connections, u64::from);
    if worker.is_shedding() || worker.counters.open_connections() >= limit.min(accepting.connections) {
        worker.counters.refused(Fault::Overloaded);
        if peer.listener == ListenerName::Http {
            refuse(&stream);
        }
        return;
    }
    worker.counters.connection_opened();
    let worker = Rc::clone(worker);
    let expects_header = worker.options.proxy_protocol.on.expects_header(peer.listener);
    match peer.listener {
        ListenerName::Http if !expects_header => {
            tokio::task::spawn_local(downstream::serve(worker, peer, stream, Vec::new()));
        }
        ListenerName::Http | ListenerName::Https => {
            tokio::task::spawn_local(greet(worker, peer, stream));
        }
    }
}

/// PROXY protocol, then TLS, then HTTP. What serves is boxed: a task is as large as the largest step it may take, and
/// a connection is idle in its last one.
async fn greet<N: Network>(worker: Rc<Worker<N>>, peer: Peer, stream: TcpStream) {
    match Box::pin(introduce(&worker, peer, stream)).await {
        Ok((peer, stream, rest)) if peer.listener == ListenerName::Http => {
            Box::pin(downstream::serve(worker, peer, stream, rest)).await;
        }
        Ok((peer, stream, rest)) => {
            match Box::pin(shake_hands(&worker, peer, Prefixed::new(rest, stream))).await {
                Some(stream) => Box::pin(downstream::serve(worker, peer, stream, Vec::new())).await,
                None => worker.counters.connection_closed(),
            }
        }
        Err(fault) => {
            worker.counters.refused(fault);
            worker.counters.connection_closed();
        }
    }
}

/// Reads the PROXY protocol header where one must come.
async fn introduce<N: Network>(
    worker: &Worker<N>,
    mut peer: Peer,
    mut stream: TcpStream,
) -> Result<(Peer, TcpStream, Vec<u8>), Fault> {
    if !worker.options.proxy_protocol.on.expects_header(peer.listener) {
        return Ok((peer, stream, Vec::new()));
    }
    let limit = worker.adopted().settings().downstream.head_timeout;
    let header = proxy_protocol::read(&worker.options.proxy_protocol, &peer, &mut stream, limit).await?;
    peer.client = header.client.map_or(peer.client, |client| client.ip().to_canonical());
    Ok((peer, stream, header.rest))
}

async fn shake_hands<N: Network>(
    worker: &Worker<N>,
    peer: Peer,
    stream: Prefixed<TcpStream>,
) -> Option<TlsStream<Prefixed<TcpStream>>> {
    let limit = worker.adopted().settings().downstream.handshake_timeout;
    let began = Instant::now();
    match tls::accept::accept(stream, limit, || worker.adopted(), peer.listener).await {
        Ok(stream) => {
            worker.counters.handshake(began.elapsed(), &stream);
            Some(stream)
        }
        Err(fault) => {
            worker.counters.handshake_failed(fault);
            None
        }
    }
}

/// Answers without waiting: what the socket does not take at once, this client does not get.
fn refuse(stream: &TcpStream) {
    let _ = stream.try_write(FULL);
}

fn reserve() -> io::Result<File> {
    File::open("/dev/null")
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    const ENOMEM: i32 = 12;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE | ENOBUFS | ENOMEM))
}

/// Read from the process itself, so that no unsafe call is needed for `getrlimit`.
fn half_of_the_file_limit() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft =
        line.and_then(|line| line.split_whitespace().nth(3)).and_then(|soft| soft.parse::<usize>().ok());
    soft.unwrap_or(1024) / 2
}
