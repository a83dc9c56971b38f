//! A scripted backend that records what it receives.
//!
//! Owns its listener, its connections and their records. It sends only what the test asks for and repairs nothing: any
//! input other than canonical HTTP/1 fails the connection.

mod conversation;
mod record;
mod script;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub use record::{ConnectionState, RecordedConnection, RecordedRequest};
pub use script::{BackendResponse, Behaviour, ScriptStep};

use crate::stream::{Input, Stream, vanish};
use crate::wait::{WAIT_TIMEOUT, free_port};
use conversation::Conversation;
use record::{Ending, Record};

/// A running backend; it ends with this value.
pub struct Backend {
    address: SocketAddr,
    shared: Arc<BackendShared>,
    /// Nothing while connections are refused.
    listening: Mutex<Option<Listening>>,
}

struct BackendShared {
    behaviour: Behaviour,
    tls: Option<TlsAcceptor>,
    record: Arc<Record>,
    gate: Arc<Semaphore>,
}

/// A listener and the task that accepts from it.
type Listening = (Arc<TcpListener>, JoinHandle<()>);

impl Backend {
    /// A backend on a free port of 127.0.0.1 whose every connection follows `script`.
    pub async fn scripted(script: impl Into<Vec<ScriptStep>>) -> Self {
        Self::scripts(vec![script.into()]).await
    }

    /// As [`Backend::scripted`], but the n-th connection follows the n-th script and every later one the last.
    pub async fn scripts(scripts: Vec<Vec<ScriptStep>>) -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), Behaviour::Scripts(scripts), None).await.expect("a free port")
    }

    /// A backend on a free port of 127.0.0.1 that answers every request with the result of `handler`.
    pub async fn http<A: Into<BackendResponse>>(
        handler: impl Fn(&RecordedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), Behaviour::http(handler), None).await.expect("a free port")
    }

    /// As [`Backend::http`] inside TLS.
    pub async fn https<A: Into<BackendResponse>>(
        config: ServerConfig,
        handler: impl Fn(&RecordedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), Behaviour::http(handler), Some(config))
            .await
            .expect("a free port")
    }

    /// A backend on a free port of `ip`.
    pub async fn start(ip: IpAddr, behaviour: Behaviour, tls: Option<ServerConfig>) -> io::Result<Self> {
        let listener = listen(ip).await?;
        let shared = Arc::new(BackendShared {
            behaviour,
            tls: tls.map(|config| TlsAcceptor::from(Arc::new(config))),
            record: Arc::new(Record::new()),
            gate: Arc::new(Semaphore::new(0)),
        });
        let address = listener.local_addr()?;
        let listening = Mutex::new(Some(open(listener, &shared)));
        Ok(Self { address, shared, listening })
    }

    /// The listening address, even while connections are refused.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Releases one connection that waits at a `Wait` step or a held response, now or later.
    pub fn release(&self) {
        self.shared.gate.add_permits(1);
    }

    /// Drops the listener: connections are refused from now on, open ones live.
    pub async fn refuse(&self) {
        if let Some((listener, task)) = self.replace_listening(None) {
            task.abort();
            // The port refuses connections only after the task has dropped the listener; the expected error is the abort.
            drop(task.await);
            drop(listener);
        }
    }

    /// Accepts again, on the same port. Fails when somebody else took it.
    pub async fn accept_again(&self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        self.replace_listening(Some(open(listener, &self.shared)));
        Ok(())
    }

    /// Becomes a black hole, as a node that lost its power: connects and bytes are swallowed, nothing is acknowledged
    /// and nothing refused.
    pub async fn vanish(&self) {
        if let Some((listener, _)) = &*self.listening.lock().expect("no holder of this lock panics") {
            vanish(&SockRef::from(&**listener)).expect("a filter of one instruction");
        }
        self.shared.record.end_connections(Ending::Vanish);
        self.wait_until("its connections vanished", |backend| backend.open_count() == 0).await;
    }

    /// Ends every open connection with a FIN.
    pub fn close_connections(&self) {
        self.shared.record.end_connections(Ending::Close);
    }

    /// Behaves like a killed process: refuses new connections and resets open ones, even mid-response.
    pub async fn kill(&self) {
        self.refuse().await;
        self.shared.record.end_connections(Ending::Reset);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.record.contents().requests.clone()
    }

    /// The number of requests received.
    pub fn request_count(&self) -> usize {
        self.shared.record.contents().requests.len()
    }

    /// Every connection so far.
    pub fn connections(&self) -> Vec<RecordedConnection> {
        self.shared.record.contents().connections.iter().map(|(connection, _)| connection.clone()).collect()
    }

    /// The number of connections accepted.
    pub fn connection_count(&self) -> usize {
        self.shared.record.contents().connections.len()
    }

    /// The number of open connections.
    pub fn open_count(&self) -> usize {
        self.count_in(&[ConnectionState::Open, ConnectionState::Waiting])
    }

    /// The number of connections that wait at a `Wait` step or a held response.
    pub fn waiting_count(&self) -> usize {
        self.count_in(&[ConnectionState::Waiting])
    }

    fn count_in(&self, states: &[ConnectionState]) -> usize {
        let contents = self.shared.record.contents();
        contents.connections.iter().filter(|(connection, _)| states.contains(&connection.state)).count()
    }

    /// How often each `X-Request-Number` was received.
    pub fn deliveries(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for number in self.shared.record.contents().requests.iter().filter_map(RecordedRequest::number) {
            *counts.entry(number.to_owned()).or_default() += 1;
        }
        counts
    }

    /// The `X-Request-Number`s received more than once.
    pub fn duplicates(&self) -> BTreeMap<String, usize> {
        self.deliveries().into_iter().filter(|(_, count)| *count > 1).collect()
    }

    /// Waits until `condition` holds, looking again whenever something was recorded.
    pub async fn wait_until(&self, expectation: &str, condition: impl Fn(&Self) -> bool) {
        let mut changes = self.shared.record.changes();
        let received = timeout(WAIT_TIMEOUT, async {
            while !condition(self) {
                changes.changed().await.expect("the record lives as long as the backend");
            }
        });
        if received.await.is_err() {
            panic!("not within {WAIT_TIMEOUT:?}: {expectation}; connections {:#?}", self.connections());
        }
    }

    /// Asserts that no connection failed its script or brought anything but canonical HTTP/1.
    #[track_caller]
    pub fn assert_followed(&self) {
        for (number, connection) in self.connections().iter().enumerate() {
            if let ConnectionState::Failed(why) = &connection.state {
                let bytes = String::from_utf8_lossy(&connection.bytes);
                panic!("connection {number} failed: {why}; it brought {bytes:?}");
            }
        }
    }

    fn replace_listening(&self, listening: Option<Listening>) -> Option<Listening> {
        std::mem::replace(&mut *self.listening.lock().expect("no holder of this lock panics"), listening)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Some((_, task)) = self.replace_listening(None) {
            task.abort();
        }
        self.close_connections();
    }
}

/// Listens on a port that stays free for this backend while it refuses.
async fn listen(ip: IpAddr) -> io::Result<TcpListener> {
    loop {
        match TcpListener::bind((ip, free_port())).await {
            // Free at 127.0.0.1, and not at this address.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            listener => return listener,
        }
    }
}

fn open(listener: TcpListener, shared: &Arc<BackendShared>) -> Listening {
    let listener = Arc::new(listener);
    let task = tokio::spawn(accept_all(Arc::clone(&listener), Arc::clone(shared)));
    (listener, task)
}

async fn accept_all(listener: Arc<TcpListener>, shared: Arc<BackendShared>) {
    loop {
        // A connection that is gone before it is accepted, or no free descriptor: try again, after others had a turn.
        match listener.accept().await {
            Ok((socket, peer)) => drop(tokio::spawn(converse(socket, peer, Arc::clone(&shared)))),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn converse(socket: TcpStream, peer: SocketAddr, shared: Arc<BackendShared>) {
    let record = Arc::clone(&shared.record);
    let (number, fate) = record.record_connection(peer);
    let stream = match (socket.set_nodelay(true), &shared.tls) {
        (Err(error), _) => Err(error),
        (Ok(()), None) => Ok(Stream::Plain(socket)),
        (Ok(()), Some(tls)) => tls.accept(socket).await.map(|stream| Stream::Tls(Box::new(stream.into()))),
    };
    match stream {
        Ok(stream) => {
            let (gate, heard) = (Arc::clone(&shared.gate), Arc::clone(&record));
            let input = Input::new(stream, None, move |bytes| heard.record_bytes(number, bytes));
            Conversation { input, number, record, gate }.run(&shared.behaviour, fate).await;
        }
        Err(error) => record.set_state(number, ConnectionState::Failed(format!("TLS handshake: {error}"))),
    }
}
