//! Accept loops. An accept error never ends a loop, and a process without free descriptors refuses clients with
//! a response.

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
use fairway_net::transport::PrefixedStream;
use fairway_net::wire::Wire;
use fairway_routing::Port;
use rustls::ServerConnection;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};

use crate::fault::Fault;
use crate::handshake::AcceptedTls;
use crate::l4::hello::host_name;
use crate::listener::{ListenerId, PortId};
use crate::listening::{ConnectionTarget, ListenerSelection, OpenPort, PortSocket};
use crate::network::Network;
use crate::peer::{ConnectionDetails, ConnectionLogDetails, Peer, Scheme, SelectedBy, Sender};
use crate::stream::{self, StreamPeer};
use crate::tls::NegotiatedTls;
use crate::worker::{OpenConnection, Worker};
use crate::{downstream, handshake, hello, proxy_protocol, quic};

/// Pause after the system refused another socket.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Accepts in a row before already open connections get their turn.
const MAX_ACCEPTS_PER_TURN: u32 = 16;

/// Accepts from the backlog of a socket that is about to be closed: the length of that backlog
/// (`fairway_net::listen`).
const MAX_BACKLOG_ACCEPTS: usize = 4096;

/// Sent to a client beyond the connection limit.
const OVERLOADED_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

/// One file descriptor in reserve, with which a process that has none left can still accept a connection and
/// refuse it.
struct SpareDescriptor {
    file: RefCell<Option<File>>,
}

impl SpareDescriptor {
    /// Frees the spare descriptor, accepts one waiting connection with it, and refuses that.
    async fn refuse_one(&self, socket: &TcpListener) {
        self.file.borrow_mut().take();
        if let Ok(Ok((stream, _))) = tokio::time::timeout(ACCEPT_RETRY_DELAY, socket.accept()).await {
            refuse(&stream);
        }
        *self.file.borrow_mut() = open_spare().ok();
    }
}

/// The accept loops of one worker, at least one per port.
pub(crate) struct AcceptLoops<N: Network> {
    worker: Rc<Worker<N>>,
    spare: Rc<SpareDescriptor>,
    worker_index: usize,
    running: RefCell<BTreeMap<PortId, Vec<AcceptLoop>>>,
}

/// One accept loop. Dropping it closes its socket.
struct AcceptLoop {
    _open: oneshot::Sender<Infallible>,
    task: JoinHandle<()>,
    /// The TCP socket, while it is open.
    socket: Weak<TcpListener>,
}

impl<N: Network + 'static> AcceptLoops<N> {
    /// No loops yet, for worker `worker_index`.
    pub(crate) fn new(worker: &Rc<Worker<N>>, worker_index: usize) -> io::Result<Self> {
        let spare = Rc::new(SpareDescriptor { file: RefCell::new(Some(open_spare()?)) });
        Ok(Self { worker: Rc::clone(worker), spare, worker_index, running: RefCell::default() })
    }

    /// Accepts on the ports of the adopted snapshot, and stops accepting on all others.
    ///
    /// # Errors
    /// A socket cannot be registered with the runtime. All other sockets are served.
    pub(crate) fn update_ports(&self) -> io::Result<()> {
        let adopted = self.worker.adopted();
        let mut running = self.running.borrow_mut();
        running.retain(|id, _| adopted.listening().port(*id).is_some());
        let mut result = Ok(());
        for port in adopted.listening().ports() {
            // Sockets taken earlier already have a loop.
            while let Some(socket) = port.sockets.take(self.worker_index) {
                match self.start_loop(port, socket) {
                    Ok(started_at) => running.entry(port.sockets.id).or_default().push(started_at),
                    Err(error) => result = Err(error),
                }
            }
        }
        self.worker.set_listening_addresses(running.values().map(Vec::len).sum());
        result
    }

    fn start_loop(&self, port: &OpenPort, socket: PortSocket) -> io::Result<AcceptLoop> {
        let (id, (open, closed)) = (port.sockets.id, oneshot::channel());
        let (worker, spare) = (Rc::clone(&self.worker), Rc::clone(&self.spare));
        let mut tcp_socket = Weak::new();
        let task = match socket {
            PortSocket::Tcp(socket) => {
                let socket = Rc::new(TcpListener::from_std(socket)?);
                tcp_socket = Rc::downgrade(&socket);
                spawn_local(accept(worker, spare, id, socket, closed))
            }
            PortSocket::Udp(socket) => {
                let socket = UdpSocket::from_std(socket)?;
                match &port.carries {
                    Port::Quic(_) => spawn_local(quic::serve_quic(worker, id, socket, closed)),
                    _ => spawn_local(stream::serve_datagrams(worker, id, socket, closed)),
                }
            }
        };
        Ok(AcceptLoop { _open: open, task, socket: tcp_socket })
    }

    /// Duplicates of the sockets that accept TCP connections.
    ///
    /// # Errors
    /// The process has no free file descriptor.
    pub(crate) fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        let running = self.running.borrow();
        let open = running.values().flatten().filter_map(|it| it.socket.upgrade());
        open.map(|socket| socket.as_fd().try_clone_to_owned()).collect()
    }

    /// Stops all loops at once.
    pub(crate) fn abort(&self) {
        for running in self.running.borrow().values().flatten() {
            running.task.abort();
        }
    }
}

/// An accepted connection, before its first byte was read.
struct AcceptedConnection {
    port: PortId,
    /// Scheme of the port, `None` without HTTP. The port may have changed since: it is looked up again when the
    /// listener is selected.
    scheme: Option<Scheme>,
    client: IpAddr,
    sender: Sender,
    /// The client's port.
    client_port: u16,
    /// The address the client connected to, if the PROXY protocol names it. Boxed because a TLS connection
    /// keeps room for it as long as it lives.
    server: Option<Box<SocketAddr>>,
}

impl AcceptedConnection {
    /// The peer of a connection that is forwarded as TCP.
    fn into_stream_peer(self, listener: ListenerId, name: Option<Box<str>>) -> StreamPeer {
        let client = SocketAddr::new(self.client, self.client_port);
        let server = self.server.map(|server| *server);
        StreamPeer { listener, client, server, name, last_forwarding_version: Cell::new(0), _slot: None }
    }
}

/// Accepts on one socket until the worker drains or the port is closed.
async fn accept<N: Network>(
    worker: Rc<Worker<N>>,
    spare: Rc<SpareDescriptor>,
    port: PortId,
    socket: Rc<TcpListener>,
    mut closed: oneshot::Receiver<Infallible>,
) {
    let mut accepted_now = 0;
    loop {
        if accepted_now == MAX_ACCEPTS_PER_TURN {
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
            Err(error) if Shortage::from_error(&error).is_some() => {
                worker.record_refusal(Fault::Overloaded);
                spare.refuse_one(&socket).await;
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
            // The client left the backlog, or the network stack reported a transient error: the next accept may
            // succeed.
            Err(_) => tokio::task::yield_now().await,
        }
    }
    let Some(socket) = Rc::into_inner(socket) else { return };
    accept_backlog(socket).for_each(|(stream, address)| admit(&worker, port, address, stream));
}

/// Connections in the backlog of a socket that is about to be closed, which would reset them. Asks the kernel,
/// because the runtime may not know of them yet.
fn accept_backlog(socket: TcpListener) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
    let socket = socket.into_std();
    let next = move || loop {
        match socket.as_ref().ok()?.accept() {
            Ok((stream, address)) => {
                stream.set_nonblocking(true).ok()?;
                return Some((TcpStream::from_std(stream).ok()?, address));
            }
            // The client left the backlog: the next accept may succeed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => return None,
        }
    };
    std::iter::from_fn(next).take(MAX_BACKLOG_ACCEPTS)
}

fn admit<N: Network>(worker: &Rc<Worker<N>>, port: PortId, address: SocketAddr, stream: TcpStream) {
    let adopted = worker.adopted();
    // The port is gone: its backlog is closed.
    let Some(open_port) = adopted.listening().port(port) else {
        return worker.record_refusal(Fault::NoListener);
    };
    let scheme = scheme(&open_port.carries);
    if !worker.has_room_for_a_client() {
        worker.record_refusal(Fault::Overloaded);
        if scheme == Some(Scheme::Http) {
            refuse(&stream);
        }
        return;
    }
    let open = OpenConnection::new(worker);
    let client = address.ip().to_canonical();
    let connection = AcceptedConnection {
        port,
        scheme,
        client,
        sender: Sender::Client,
        client_port: address.port(),
        server: None,
    };
    let expects_header = proxy_protocol::expects(&worker.options.proxy_protocol, open_port, client);
    match (&open_port.carries, expects_header) {
        (Port::Clear(ConnectionTarget::Listener(listener)), Ok(false)) => {
            if let Some(serving) = serve_cleartext(open, *listener, connection, stream, Vec::new()) {
                spawn_local(serving);
            }
        }
        (Port::Stream(ConnectionTarget::Listener(listener)), Ok(false)) => {
            let peer = connection.into_stream_peer(*listener, None);
            if let Some(serving) = forward_stream(open, peer, stream, Vec::new()) {
                spawn_local(serving);
            }
        }
        _ => drop(spawn_local(negotiate(open, connection, stream))),
    }
}

/// Serves cleartext HTTP. `None` if the listener is at its connection limit.
fn serve_cleartext<N: Network>(
    open: OpenConnection<N>,
    listener: ListenerId,
    AcceptedConnection { client, sender, client_port, .. }: AcceptedConnection,
    stream: TcpStream,
    input: Vec<u8>,
) -> Option<impl Future<Output = ()>> {
    let slot = match open.adopted().listening().acquire_connection_slot(listener) {
        Ok(slot) => slot,
        Err(fault) => {
            open.record_refusal(fault);
            refuse(&stream);
            return None;
        }
    };
    let logged = logged_connection(&open, client_port, None);
    let details = ConnectionDetails::from_parts(None, logged, None, slot, None);
    let peer = Peer { listener, scheme: Scheme::Http, client, sender, details };
    Some(downstream::serve_http1(open, peer, stream, input))
}

/// Forwards a TCP connection. `None` if the listener is at its connection limit.
fn forward_stream<N: Network>(
    open: OpenConnection<N>,
    mut peer: StreamPeer,
    stream: TcpStream,
    input: Vec<u8>,
) -> Option<impl Future<Output = ()>> {
    let slot = open.adopted().listening().acquire_connection_slot(peer.listener);
    peer._slot = slot.inspect_err(|fault| open.record_refusal(*fault)).ok()?;
    Some(stream::serve(open, peer, stream, input))
}

fn scheme(carries: &Port<ConnectionTarget>) -> Option<Scheme> {
    match carries {
        Port::Clear(_) => Some(Scheme::Http),
        Port::Tls(_) => Some(Scheme::Https),
        Port::Quic(_) | Port::Stream(_) | Port::Datagrams(_) => None,
    }
}

/// Reads the PROXY protocol header, terminates TLS, then serves HTTP or forwards the stream. The serving
/// futures are boxed: a task is as large as its largest step, and a connection is idle in its last one.
async fn negotiate<N: Network>(open: OpenConnection<N>, connection: AcceptedConnection, stream: TcpStream) {
    let header_read = Box::pin(read_proxy_header(&open, connection, stream)).await;
    let (connection, stream, rest) = match header_read {
        Ok(connection) => connection,
        Err(fault) => return open.record_refusal(fault),
    };
    let port = connection.port;
    let listener = open.adopted().listening().port(port).and_then(OpenPort::listener);
    match (connection.scheme, listener) {
        (Some(Scheme::Http), Some(listener)) => {
            if let Some(serving) = serve_cleartext(open, listener, connection, stream, rest) {
                Box::pin(serving).await;
            }
        }
        (None, Some(listener)) => {
            if let Some(serving) =
                forward_stream(open, connection.into_stream_peer(listener, None), stream, rest)
            {
                Box::pin(serving).await;
            }
        }
        (Some(Scheme::Http) | None, None) => open.record_refusal(Fault::NoListener),
        (Some(Scheme::Https), _) => {
            let selection = open
                .adopted()
                .listening()
                .port(port)
                .map_or(ListenerSelection::Single, |port| port.selection);
            match selection {
                ListenerSelection::Single | ListenerSelection::BySni => {
                    terminate_tls(open, connection, PrefixedStream::new(rest, stream), selection).await;
                }
                ListenerSelection::BySniBeforeHandshake => {
                    Box::pin(pass_through_or_terminate(open, connection, stream, rest)).await;
                }
            }
        }
    }
}

/// Reads the SNI before deciding whether Fairway or an endpoint terminates TLS.
async fn pass_through_or_terminate<N: Network>(
    open: OpenConnection<N>,
    connection: AcceptedConnection,
    mut stream: TcpStream,
    rest: Vec<u8>,
) {
    let limit = open.adopted().listening().handshake_timeout(connection.port);
    let (hello, rest) = match Box::pin(hello::read(&mut stream, rest, limit)).await {
        Ok(read) => read,
        Err(fault) => return open.counters.count_failed_handshake(fault),
    };
    let adopted = open.adopted();
    match adopted.listener_for(connection.port, hello.name.as_deref()) {
        Some(listener) if adopted.passes_through(listener, hello.name.as_deref()) => {
            drop(adopted);
            if let Some(serving) =
                forward_stream(open, connection.into_stream_peer(listener, hello.name), stream, rest)
            {
                serving.await;
            }
        }
        Some(_) => {
            drop(adopted);
            terminate_tls(
                open,
                connection,
                PrefixedStream::new(rest, stream),
                ListenerSelection::BySniBeforeHandshake,
            )
            .await;
        }
        None => open.counters.count_failed_handshake(Fault::NoListener),
    }
}

/// Terminates TLS, then serves the listener's protocol.
///
/// Not an `async fn`, which would hold its arguments twice for the life of the connection.
fn terminate_tls<N: Network>(
    open: OpenConnection<N>,
    connection: AcceptedConnection,
    stream: PrefixedStream<TcpStream>,
    selection: ListenerSelection,
) -> impl Future<Output = ()> {
    let AcceptedConnection { port, client, sender, client_port, .. } = connection;
    async move {
        let Some(accepted) = Box::pin(accept_tls(&open, port, stream)).await else { return };
        let AcceptedTls { listener, protocol, stream, proof, connection_slot: slot, trust } = accepted;
        let name = || stream.get_ref().1.server_name().map(|name| host_name(name).into());
        if protocol == ListenerProtocol::Tls {
            let peer = StreamPeer { _slot: slot, ..connection.into_stream_peer(listener, name()) };
            return Box::pin(stream::serve(open, peer, stream, Vec::new())).await;
        }
        let keeps_name =
            selection != ListenerSelection::Single || open.adopted().snapshot().reads_server_names();
        let selected_by = keeps_name.then(|| SelectedBy { port, name: name().unwrap_or_default() });
        let logged = logged_connection(&open, client_port, Some(stream.get_ref().1));
        let details = ConnectionDetails::from_parts(proof, logged, selected_by, slot, trust);
        let peer = Peer { listener, scheme: Scheme::Https, client, sender, details };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            if let Some(serving) = downstream::serve_http2(open, peer, Wire::new(stream)) {
                serving.await;
            }
            return;
        }
        Box::pin(downstream::serve_http1(open, peer, stream, Vec::new())).await;
    }
}

/// Connection details for the access log, if its format uses them.
fn logged_connection<N: Network>(
    worker: &Worker<N>,
    port: u16,
    tls: Option<&ServerConnection>,
) -> Option<ConnectionLogDetails> {
    let number = worker.log.next_connection()?;
    Some(ConnectionLogDetails { number, port, tls: tls.map(NegotiatedTls::over_tcp) })
}

/// Reads the PROXY protocol header if the port expects one.
async fn read_proxy_header<N: Network>(
    worker: &Worker<N>,
    mut connection: AcceptedConnection,
    mut stream: TcpStream,
) -> Result<(AcceptedConnection, TcpStream, Vec<u8>), Fault> {
    let limit = {
        let adopted = worker.adopted();
        let port = adopted.listening().port(connection.port).ok_or(Fault::NoListener)?;
        if !proxy_protocol::expects(&worker.options.proxy_protocol, port, connection.client)? {
            return Ok((connection, stream, Vec::new()));
        }
        adopted.settings().downstream.head_timeout
    };
    let header = proxy_protocol::read(&mut stream, limit).await?;
    if let Some(client) = header.client {
        (connection.client, connection.client_port) = (client.ip().to_canonical(), client.port());
    }
    let names_client = header.client.is_some() || header.is_local;
    connection.sender = if names_client { Sender::Balancer } else { Sender::BalancerForUnknown };
    connection.server = header.server.map(Box::new);
    Ok((connection, stream, header.remaining))
}

async fn accept_tls<N: Network>(
    worker: &Worker<N>,
    port: PortId,
    stream: PrefixedStream<TcpStream>,
) -> Option<AcceptedTls<PrefixedStream<TcpStream>>> {
    let limit = worker.adopted().listening().handshake_timeout(port);
    let started_at = Instant::now();
    match handshake::accept(stream, limit, || worker.adopted(), &worker.guards.client_trusts, port).await {
        Ok(accepted) => {
            worker.counters.count_tcp_handshake(started_at.elapsed(), &accepted.stream);
            Some(accepted)
        }
        Err(fault) => {
            worker.counters.count_failed_handshake(fault);
            None
        }
    }
}

/// Sends the 503 without waiting: a client whose socket is full does not get it.
fn refuse(stream: &TcpStream) {
    let _ = stream.try_write(OVERLOADED_RESPONSE);
}

fn open_spare() -> io::Result<File> {
    File::open("/dev/null")
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::testing::{ScriptedConnect, TestWorker, run_local};

    /// How many of these connections the server has closed.
    fn closed(connections: &[std::net::TcpStream]) -> usize {
        let is_closed = |stream: &&std::net::TcpStream| match stream.peek(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        connections.iter().filter(is_closed).count()
    }

    #[tokio::test]
    async fn a_burst_of_connections_is_accepted_in_turns_with_other_tasks() {
        run_local(async {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            let address = socket.local_addr().unwrap();
            let connect = |_| std::net::TcpStream::connect(address).unwrap();
            let waiting: Vec<_> = (0..100).map(connect).collect();
            waiting.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
            let stage = TestWorker::new(1, |_, _| (), |_| ScriptedConnect::Refused);
            let spare = Rc::new(SpareDescriptor { file: RefCell::new(None) });
            let (_open, ends) = oneshot::channel();
            // The port does not exist, so accepted connections are closed at once.
            let socket = Rc::new(TcpListener::from_std(socket).unwrap());
            spawn_local(accept(Rc::clone(&stage.worker), spare, PortId(77), socket, ends));
            while closed(&waiting) == 0 {
                tokio::task::yield_now().await;
            }
            let first = closed(&waiting);
            assert!(first <= 2 * MAX_ACCEPTS_PER_TURN as usize, "{first} were accepted in a row");
            while closed(&waiting) < waiting.len() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// The runtime has no chance to learn of the last connections.
    #[tokio::test]
    async fn connections_in_the_backlog_of_a_closing_socket_are_not_reset() {
        run_local(async {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            let address = socket.local_addr().unwrap();
            let stage = TestWorker::new(1, |_, _| (), |_| ScriptedConnect::Refused);
            let spare = Rc::new(SpareDescriptor { file: RefCell::new(None) });
            let (open, ends) = oneshot::channel();
            let socket = Rc::new(TcpListener::from_std(socket).unwrap());
            let task = spawn_local(accept(Rc::clone(&stage.worker), spare, PortId(77), socket, ends));
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
