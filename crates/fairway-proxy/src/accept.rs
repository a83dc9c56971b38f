//! Accepting connections: an error never ends the loop, and a full process refuses politely.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::time::Duration;

use fairway_model::ListenerProtocol;
use fairway_net::clock::Instant;
use fairway_net::shortage::Shortage;
use fairway_net::transport::Prefixed;
use fairway_net::wire::Wire;
use fairway_routing::Port;
use rustls::ServerConnection;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};

use crate::fault::Fault;
use crate::handshake::Shaken;
use crate::l4::hello::host_name;
use crate::listener::{ListenerId, PortId};
use crate::listening::{Choice, Chosen, OpenPort, PortSocket};
use crate::network::Network;
use crate::peer::{ChosenBy, Facts, Noted, Peer, Scheme, Sender};
use crate::stream::{self, StreamPeer};
use crate::tls::Agreed;
use crate::worker::{Open, Worker};
use crate::{downstream, handshake, hello, proxy_protocol, quic};

/// How long the loop rests when the system refuses more sockets.
const REST: Duration = Duration::from_millis(20);

/// Connections that are accepted before those that are open have their turn: many may come at once.
const ACCEPTED_IN_A_TURN: u32 = 16;

/// Connections that are accepted before a socket is closed: as many as wait there at most (`fairway_net::listen`).
const MAX_WAITING: usize = 4096;

/// What is sent where one connection too many arrives.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

/// What a worker needs to accept: one descriptor in reserve, so that a process that has none left can still take a
/// connection off the queue and refuse it.
struct Accepting {
    reserve: RefCell<Option<File>>,
}

impl Accepting {
    /// Takes one waiting connection and closes it, with the descriptor in reserve.
    async fn refuse_one(&self, socket: &TcpListener) {
        self.reserve.borrow_mut().take();
        if let Ok(Ok((stream, _))) = tokio::time::timeout(REST, socket.accept()).await {
            refuse(&stream);
        }
        *self.reserve.borrow_mut() = reserve().ok();
    }
}

/// The loops of a worker that accept, at least one for each port.
pub(crate) struct AcceptLoops<N: Network> {
    worker: Rc<Worker<N>>,
    accepting: Rc<Accepting>,
    /// Of the worker.
    index: usize,
    running: RefCell<BTreeMap<PortId, Vec<AcceptLoop>>>,
}

/// One of them. It closes its socket when this is dropped.
struct AcceptLoop {
    _open: oneshot::Sender<Infallible>,
    task: JoinHandle<()>,
    /// Of TCP: the socket, as long as it is open.
    socket: Weak<TcpListener>,
}

impl<N: Network + 'static> AcceptLoops<N> {
    /// None yet, of worker number `index`.
    pub(crate) fn new(worker: &Rc<Worker<N>>, index: usize) -> io::Result<Self> {
        let accepting = Rc::new(Accepting { reserve: RefCell::new(Some(reserve()?)) });
        Ok(Self { worker: Rc::clone(worker), accepting, index, running: RefCell::default() })
    }

    /// Accepts on the ports of the snapshot that the worker has adopted, and no longer on others.
    ///
    /// # Errors
    /// When the system lets a socket not be waited for; the others are accepted on.
    pub(crate) fn follow(&self) -> io::Result<()> {
        let adopted = self.worker.adopted();
        let mut running = self.running.borrow_mut();
        running.retain(|id, _| adopted.listening().port(*id).is_some());
        let mut result = Ok(());
        for port in adopted.listening().ports() {
            // Those that were taken before are accepted on already.
            while let Some(socket) = port.sockets.take(self.index) {
                match self.begin(port, socket) {
                    Ok(began) => running.entry(port.sockets.id).or_default().push(began),
                    Err(error) => result = Err(error),
                }
            }
        }
        self.worker.listen_on(running.values().map(Vec::len).sum());
        result
    }

    fn begin(&self, port: &OpenPort, socket: PortSocket) -> io::Result<AcceptLoop> {
        let (id, (open, closed)) = (port.sockets.id, oneshot::channel());
        let (worker, accepting) = (Rc::clone(&self.worker), Rc::clone(&self.accepting));
        let mut of_tcp = Weak::new();
        let task = match socket {
            PortSocket::Tcp(socket) => {
                let socket = Rc::new(TcpListener::from_std(socket)?);
                of_tcp = Rc::downgrade(&socket);
                spawn_local(accept(worker, accepting, id, socket, closed))
            }
            PortSocket::Udp(socket) => {
                let socket = UdpSocket::from_std(socket)?;
                match &port.carries {
                    Port::Quic(_) => spawn_local(quic::serve_quic(worker, id, socket, closed)),
                    _ => spawn_local(stream::serve_datagrams(worker, id, socket, closed)),
                }
            }
        };
        Ok(AcceptLoop { _open: open, task, socket: of_tcp })
    }

    /// The sockets that accept TCP connections, once more.
    ///
    /// # Errors
    /// The process may open no more files.
    pub(crate) fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        let running = self.running.borrow();
        let open = running.values().flatten().filter_map(|it| it.socket.upgrade());
        open.map(|socket| socket.as_fd().try_clone_to_owned()).collect()
    }

    /// Ends all of them at once.
    pub(crate) fn abort(&self) {
        for running in self.running.borrow().values().flatten() {
            running.task.abort();
        }
    }
}

/// A connection that was accepted and has said nothing yet.
struct Caller {
    port: PortId,
    /// Of the port, which may have changed since: what it is now is looked up when the listener is chosen. None where there is no
    /// HTTP.
    scheme: Option<Scheme>,
    client: IpAddr,
    sender: Sender,
    /// Of the client.
    client_port: u16,
    /// What the client connected to, as far as the PROXY protocol says. Boxed: whoever ends TLS has room for it as long as the
    /// connection lives.
    server: Option<Box<SocketAddr>>,
}

impl Caller {
    /// Whose connection is forwarded as it comes.
    fn of_stream(self, listener: ListenerId, name: Option<Box<str>>) -> StreamPeer {
        let client = SocketAddr::new(self.client, self.client_port);
        let server = self.server.map(|server| *server);
        StreamPeer { listener, client, server, name, forwarded_by: Cell::new(0), _place: None }
    }
}

/// Accepts on one socket until the worker drains or the port is `closed`.
async fn accept<N: Network>(
    worker: Rc<Worker<N>>,
    accepting: Rc<Accepting>,
    port: PortId,
    socket: Rc<TcpListener>,
    mut closed: oneshot::Receiver<Infallible>,
) {
    let mut accepted_now = 0;
    loop {
        if accepted_now == ACCEPTED_IN_A_TURN {
            accepted_now = 0;
            tokio::task::yield_now().await;
        }
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = worker.accepts_no_more() => break,
            _ = &mut closed => break,
        };
        match accepted {
            Ok((stream, address)) => {
                accepted_now += 1;
                admit(&worker, port, address, stream);
            }
            Err(error) if Shortage::of(&error).is_some() => {
                worker.refused(Fault::Overloaded);
                accepting.refuse_one(&socket).await;
                tokio::time::sleep(REST).await;
            }
            // The client left while it waited, or the network stack had a hiccup: the next one may be fine.
            Err(_) => tokio::task::yield_now().await,
        }
    }
    let Some(socket) = Rc::into_inner(socket) else { return };
    waiting(socket).for_each(|(stream, address)| admit(&worker, port, address, stream));
}

/// The connections that wait at a socket which is about to be closed, which would reset them. Asks the kernel, because the
/// runtime may not have been told of them yet.
fn waiting(socket: TcpListener) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
    let socket = socket.into_std();
    let next = move || loop {
        match socket.as_ref().ok()?.accept() {
            Ok((stream, address)) => {
                stream.set_nonblocking(true).ok()?;
                return Some((TcpStream::from_std(stream).ok()?, address));
            }
            // The client left while it waited: the next one may be fine.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => return None,
        }
    };
    std::iter::from_fn(next).take(MAX_WAITING)
}

fn admit<N: Network>(worker: &Rc<Worker<N>>, port: PortId, address: SocketAddr, stream: TcpStream) {
    let adopted = worker.adopted();
    // A port that is gone has nobody to serve: what still waited there is closed.
    let Some(open_port) = adopted.listening().port(port) else { return worker.refused(Fault::NoListener) };
    let scheme = scheme(&open_port.carries);
    if !worker.has_room_for_a_client() {
        worker.refused(Fault::Overloaded);
        if scheme == Some(Scheme::Http) {
            refuse(&stream);
        }
        return;
    }
    let open = Open::new(worker);
    let client = address.ip().to_canonical();
    let caller =
        Caller { port, scheme, client, sender: Sender::Client, client_port: address.port(), server: None };
    let expects_header = proxy_protocol::expects(&worker.options.proxy_protocol, open_port, client);
    match (&open_port.carries, expects_header) {
        (Port::Clear(Choice::Listener(listener)), Ok(false)) => {
            if let Some(serving) = serve_in_the_clear(open, *listener, caller, stream, Vec::new()) {
                spawn_local(serving);
            }
        }
        (Port::Stream(Choice::Listener(listener)), Ok(false)) => {
            let peer = caller.of_stream(*listener, None);
            if let Some(serving) = forward(open, peer, stream, Vec::new()) {
                spawn_local(serving);
            }
        }
        _ => drop(spawn_local(greet(open, caller, stream))),
    }
}

/// What serves HTTP in the clear; none where the listener has as many connections as it may.
fn serve_in_the_clear<N: Network>(
    open: Open<N>,
    listener: ListenerId,
    Caller { client, sender, client_port, .. }: Caller,
    stream: TcpStream,
    input: Vec<u8>,
) -> Option<impl Future<Output = ()>> {
    let place = match open.adopted().listening().place(listener) {
        Ok(place) => place,
        Err(fault) => {
            open.refused(fault);
            refuse(&stream);
            return None;
        }
    };
    let noted = note(&open, client_port, None);
    let facts = Facts::of(None, noted, None, place, None);
    let peer = Peer { listener, scheme: Scheme::Http, client, sender, facts };
    Some(downstream::serve_http1(open, peer, stream, input))
}

/// What forwards a connection as it comes; none where the listener has as many as it may.
fn forward<N: Network>(
    open: Open<N>,
    mut peer: StreamPeer,
    stream: TcpStream,
    input: Vec<u8>,
) -> Option<impl Future<Output = ()>> {
    let place = open.adopted().listening().place(peer.listener);
    peer._place = place.inspect_err(|fault| open.refused(*fault)).ok()?;
    Some(stream::serve(open, peer, stream, input))
}

fn scheme(carries: &Port<Choice>) -> Option<Scheme> {
    match carries {
        Port::Clear(_) => Some(Scheme::Http),
        Port::Tls(_) => Some(Scheme::Https),
        Port::Quic(_) | Port::Stream(_) | Port::Datagrams(_) => None,
    }
}

/// PROXY protocol, then TLS, then HTTP or whatever is forwarded. What serves is boxed: a task is as large as the largest step
/// it may take, and a connection is idle in its last one.
async fn greet<N: Network>(open: Open<N>, caller: Caller, stream: TcpStream) {
    let introduced = Box::pin(introduce(&open, caller, stream)).await;
    let (caller, stream, rest) = match introduced {
        Ok(introduced) => introduced,
        Err(fault) => return open.refused(fault),
    };
    let port = caller.port;
    let listener = open.adopted().listening().port(port).and_then(OpenPort::listener);
    match (caller.scheme, listener) {
        (Some(Scheme::Http), Some(listener)) => {
            if let Some(serving) = serve_in_the_clear(open, listener, caller, stream, rest) {
                Box::pin(serving).await;
            }
        }
        (None, Some(listener)) => {
            if let Some(serving) = forward(open, caller.of_stream(listener, None), stream, rest) {
                Box::pin(serving).await;
            }
        }
        (Some(Scheme::Http) | None, None) => open.refused(Fault::NoListener),
        (Some(Scheme::Https), _) => {
            let chosen = open.adopted().listening().port(port).map_or(Chosen::Alone, |port| port.chosen);
            match chosen {
                Chosen::Alone | Chosen::InHandshake => {
                    greet_over_tls(open, caller, Prefixed::new(rest, stream), chosen).await;
                }
                Chosen::BeforeHandshake => Box::pin(pass_or_greet(open, caller, stream, rest)).await,
            }
        }
    }
}

/// Reads the name that the client asks for, before it is decided who ends its TLS.
async fn pass_or_greet<N: Network>(open: Open<N>, caller: Caller, mut stream: TcpStream, rest: Vec<u8>) {
    let limit = open.adopted().listening().handshake_timeout(caller.port);
    let (hello, rest) = match Box::pin(hello::read(&mut stream, rest, limit)).await {
        Ok(read) => read,
        Err(fault) => return open.counters.handshake_failed(fault),
    };
    let adopted = open.adopted();
    match adopted.chosen(caller.port, hello.name.as_deref()) {
        Some(listener) if adopted.passes_through(listener, hello.name.as_deref()) => {
            drop(adopted);
            if let Some(serving) = forward(open, caller.of_stream(listener, hello.name), stream, rest) {
                serving.await;
            }
        }
        Some(_) => {
            drop(adopted);
            greet_over_tls(open, caller, Prefixed::new(rest, stream), Chosen::BeforeHandshake).await;
        }
        None => open.counters.handshake_failed(Fault::NoListener),
    }
}

/// TLS, then what the listener speaks.
///
/// Not an `async fn`: that would keep its arguments twice for as long as the connection lives.
fn greet_over_tls<N: Network>(
    open: Open<N>,
    caller: Caller,
    stream: Prefixed<TcpStream>,
    chosen: Chosen,
) -> impl Future<Output = ()> {
    let Caller { port, client, sender, client_port, .. } = caller;
    async move {
        let Some(shaken) = Box::pin(shake_hands(&open, port, stream)).await else { return };
        let Shaken { listener, protocol, stream, proof, place, trust } = shaken;
        let name = || stream.get_ref().1.server_name().map(|name| host_name(name).into());
        if protocol == ListenerProtocol::Tls {
            let peer = StreamPeer { _place: place, ..caller.of_stream(listener, name()) };
            return Box::pin(stream::serve(open, peer, stream, Vec::new())).await;
        }
        let keeps_name = chosen != Chosen::Alone || open.adopted().snapshot().reads_server_names();
        let chosen_by = keeps_name.then(|| ChosenBy { port, name: name().unwrap_or_default() });
        let noted = note(&open, client_port, Some(stream.get_ref().1));
        let facts = Facts::of(proof, noted, chosen_by, place, trust);
        let peer = Peer { listener, scheme: Scheme::Https, client, sender, facts };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            if let Some(serving) = downstream::serve_http2(open, peer, Wire::new(stream)) {
                serving.await;
            }
            return;
        }
        Box::pin(downstream::serve_http1(open, peer, stream, Vec::new())).await;
    }
}

/// What the access log will show of a connection, if it shows any such thing.
fn note<N: Network>(worker: &Worker<N>, port: u16, tls: Option<&ServerConnection>) -> Option<Noted> {
    let number = worker.log.next_connection()?;
    Some(Noted { number, port, tls: tls.map(Agreed::of) })
}

/// Reads the PROXY protocol header where one must come.
async fn introduce<N: Network>(
    worker: &Worker<N>,
    mut caller: Caller,
    mut stream: TcpStream,
) -> Result<(Caller, TcpStream, Vec<u8>), Fault> {
    let limit = {
        let adopted = worker.adopted();
        let port = adopted.listening().port(caller.port).ok_or(Fault::NoListener)?;
        if !proxy_protocol::expects(&worker.options.proxy_protocol, port, caller.client)? {
            return Ok((caller, stream, Vec::new()));
        }
        adopted.settings().downstream.head_timeout
    };
    let header = proxy_protocol::read(&mut stream, limit).await?;
    if let Some(client) = header.client {
        (caller.client, caller.client_port) = (client.ip().to_canonical(), client.port());
    }
    let says_for_whom = header.client.is_some() || header.is_local;
    caller.sender = if says_for_whom { Sender::Balancer } else { Sender::BalancerForUnknown };
    caller.server = header.server.map(Box::new);
    Ok((caller, stream, header.rest))
}

async fn shake_hands<N: Network>(
    worker: &Worker<N>,
    port: PortId,
    stream: Prefixed<TcpStream>,
) -> Option<Shaken<Prefixed<TcpStream>>> {
    let limit = worker.adopted().listening().handshake_timeout(port);
    let began = Instant::now();
    match handshake::accept(stream, limit, || worker.adopted(), &worker.guards.trusts, port).await {
        Ok(shaken) => {
            worker.counters.handshake(began.elapsed(), &shaken.stream);
            Some(shaken)
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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::testing::{Meeting, Stage, on_stage};

    /// How many of them the other side has closed.
    fn closed(connections: &[std::net::TcpStream]) -> usize {
        let is_closed = |stream: &&std::net::TcpStream| match stream.peek(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        connections.iter().filter(is_closed).count()
    }

    #[tokio::test]
    async fn connections_that_come_at_once_are_accepted_in_turns_with_what_others_do() {
        on_stage(async {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            let address = socket.local_addr().unwrap();
            let connect = |_| std::net::TcpStream::connect(address).unwrap();
            let waiting: Vec<_> = (0..100).map(connect).collect();
            waiting.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
            let stage = Stage::new(1, |_, _| (), |_| Meeting::Refused);
            let accepting = Rc::new(Accepting { reserve: RefCell::new(None) });
            let (_open, ends) = oneshot::channel();
            // Of a port that is gone: who is accepted there is closed at once.
            let socket = Rc::new(TcpListener::from_std(socket).unwrap());
            spawn_local(accept(Rc::clone(&stage.worker), accepting, PortId(77), socket, ends));
            while closed(&waiting) == 0 {
                tokio::task::yield_now().await;
            }
            let first = closed(&waiting);
            assert!(first <= 2 * ACCEPTED_IN_A_TURN as usize, "{first} were accepted in a row");
            while closed(&waiting) < waiting.len() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// The last ones come when the runtime has no time any more to be told of them.
    #[tokio::test]
    async fn connections_that_wait_at_a_socket_that_closes_are_not_reset() {
        on_stage(async {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            let address = socket.local_addr().unwrap();
            let stage = Stage::new(1, |_, _| (), |_| Meeting::Refused);
            let accepting = Rc::new(Accepting { reserve: RefCell::new(None) });
            let (open, ends) = oneshot::channel();
            let socket = Rc::new(TcpListener::from_std(socket).unwrap());
            let task = spawn_local(accept(Rc::clone(&stage.worker), accepting, PortId(77), socket, ends));
            tokio::task::yield_now().await;
            let waiting: Vec<_> = (0..10).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
            drop(open);
            task.await.unwrap();
            for stream in &waiting {
                assert_eq!(stream.peek(&mut [0]).unwrap(), 0, "an end and no reset");
            }
        })
        .await;
    }
}
