//! Accepting connections: an error never ends the loop, and a full process refuses politely.

use std::cell::RefCell;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

use crate::clock::Instant;
use crate::downstream;
use crate::fault::Fault;
use crate::listener::ListenerName;
use crate::network::Network;
use crate::peer::Peer;
use crate::shortage::Shortage;
use crate::transport::Prefixed;
use crate::worker::{Open, Worker};
use crate::{proxy_protocol, tls};

/// How long the loop rests when the system refuses more sockets.
const REST: Duration = Duration::from_millis(20);

/// What is sent where one connection too many arrives.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

/// What a worker needs to accept: one descriptor in reserve, so that a process that has none left can still take a
/// connection off the queue and refuse it.
pub(crate) struct Accepting {
    reserve: RefCell<Option<File>>,
}

impl Accepting {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { reserve: RefCell::new(Some(reserve()?)) })
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
            Ok((stream, address)) => {
                admit(&worker, Peer { listener: name, client: address.ip().to_canonical() }, stream);
            }
            Err(error) if Shortage::of(&error).is_some() => {
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
        admit(&worker, peer, stream);
    }
}

fn admit<N: Network>(worker: &Rc<Worker<N>>, peer: Peer, stream: TcpStream) {
    if !worker.has_room_for_a_client() {
        worker.counters.refused(Fault::Overloaded);
        if peer.listener == ListenerName::Http {
            refuse(&stream);
        }
        return;
    }
    let open = Open::new(worker);
    let expects_header = worker.options.proxy_protocol.on.expects_header(peer.listener);
    match peer.listener {
        ListenerName::Http if !expects_header => {
            tokio::task::spawn_local(downstream::serve(open, peer, stream, Vec::new()));
        }
        ListenerName::Http | ListenerName::Https => {
            tokio::task::spawn_local(greet(open, peer, stream));
        }
    }
}

/// PROXY protocol, then TLS, then HTTP. What serves is boxed: a task is as large as the largest step it may take, and
/// a connection is idle in its last one.
async fn greet<N: Network>(open: Open<N>, peer: Peer, stream: TcpStream) {
    match Box::pin(introduce(&open, peer, stream)).await {
        Ok((peer, stream, rest)) if peer.listener == ListenerName::Http => {
            Box::pin(downstream::serve(open, peer, stream, rest)).await;
        }
        Ok((peer, stream, rest)) => {
            if let Some(stream) = Box::pin(shake_hands(&open, peer, Prefixed::new(rest, stream))).await {
                Box::pin(downstream::serve(open, peer, stream, Vec::new())).await;
            }
        }
        Err(fault) => open.counters.refused(fault),
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
