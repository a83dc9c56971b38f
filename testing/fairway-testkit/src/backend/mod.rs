//! A backend that does what a test says and remembers what it got.
//!
//! Owns its listener, its connections and their records. Never answers on its own and never repairs a request: what
//! is not canonical HTTP/1 ends the connection as failed.

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

pub use record::{ConnectionState, NUMBER_FIELD, RecordedConnection, RecordedRequest};
pub use script::{Answer, Behaviour, HttpBehaviour, Step};

use crate::stream::{Stream, vanish};
use crate::wait::{PATIENCE, free_port};
use conversation::{Conversation, Part};
use record::{Fate, Record};

/// A running backend; it ends with this value.
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Mutex<Listening>,
}

struct Shared {
    behaviour: Behaviour,
    tls: Option<TlsAcceptor>,
    record: Arc<Record>,
    gate: Arc<Semaphore>,
}

/// What a new connection meets.
enum Listening {
    /// It is accepted.
    Open(Arc<TcpListener>, JoinHandle<()>),
    /// The kernel takes it, nobody accepts it.
    Unattended(Arc<TcpListener>),
    /// It is refused.
    Gone,
}

impl Backend {
    /// A backend on a free port of 127.0.0.1 whose every connection follows `script`.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub async fn scripted(script: impl Into<Vec<Step>>) -> Self {
        Self::scripts(vec![script.into()]).await
    }

    /// As [`Backend::scripted`], but the n-th connection follows the n-th script and every later one the last.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub async fn scripts(scripts: Vec<Vec<Step>>) -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), Behaviour::Scripts(scripts), None).await.expect("a free port")
    }

    /// A backend on a free port of 127.0.0.1 that answers every request with what `handler` gives.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub async fn http<A: Into<Answer>>(
        handler: impl Fn(&RecordedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), Behaviour::http(handler), None).await.expect("a free port")
    }

    /// As [`Backend::http`] inside TLS.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub async fn https<A: Into<Answer>>(
        config: ServerConfig,
        handler: impl Fn(&RecordedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::start(Ipv4Addr::LOCALHOST.into(), Behaviour::http(handler), Some(config))
            .await
            .expect("a free port")
    }

    /// A backend on a free port of `ip`.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound.
    pub async fn start(ip: IpAddr, behaviour: Behaviour, tls: Option<ServerConfig>) -> io::Result<Self> {
        let listener = listen(ip).await?;
        let shared = Arc::new(Shared {
            behaviour,
            tls: tls.map(|config| TlsAcceptor::from(Arc::new(config))),
            record: Arc::new(Record::new()),
            gate: Arc::new(Semaphore::new(0)),
        });
        let address = listener.local_addr()?;
        let listening = Mutex::new(open(Arc::new(listener), &shared));
        Ok(Self { address, shared, listening })
    }

    /// Where it listens, also while it refuses.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets one connection go on that stands at a `Wait` or a held answer, now or later.
    pub fn release(&self) {
        self.shared.gate.add_permits(1);
    }

    /// Drops the listener: connections are refused from now on, open ones live.
    pub async fn refuse(&self) {
        if let Listening::Open(listener, task) = self.put(Listening::Gone) {
            task.abort();
            // The port refuses only when the task has let go of the listener; being aborted is what was asked.
            drop(task.await);
            drop(listener);
        }
    }

    /// Stops accepting but keeps the listener: the kernel completes connections that nobody serves.
    pub async fn stop_accepting(&self) {
        match self.put(Listening::Gone) {
            Listening::Open(listener, task) => {
                task.abort();
                drop(task.await);
                self.put(Listening::Unattended(listener));
            }
            other => drop(self.put(other)),
        }
    }

    /// Accepts again, on the same port.
    ///
    /// # Errors
    ///
    /// When somebody else took the port.
    pub async fn accept_again(&self) -> io::Result<()> {
        let listening = match self.put(Listening::Gone) {
            open @ Listening::Open(..) => open,
            Listening::Unattended(listener) => open(listener, &self.shared),
            Listening::Gone => open(Arc::new(TcpListener::bind(self.address).await?), &self.shared),
        };
        self.put(listening);
        Ok(())
    }

    /// Becomes a black hole, as a node that lost its power: connects and bytes are swallowed, nothing is acknowledged
    /// and nothing refused.
    ///
    /// # Panics
    ///
    /// When the system does not take the filter.
    pub async fn vanish(&self) {
        if let Listening::Open(listener, _) | Listening::Unattended(listener) =
            &*self.listening.lock().expect("no holder of this lock panics")
        {
            vanish(&SockRef::from(&**listener)).expect("a filter of one instruction");
        }
        self.shared.record.decide(Fate::Vanish);
        self.until("its connections vanished", |backend| backend.open_count() == 0).await;
    }

    /// Ends every open connection with a FIN.
    pub fn close_connections(&self) {
        self.shared.record.decide(Fate::Close);
    }

    /// Ends every open connection with a RST.
    pub(crate) fn reset_connections(&self) {
        self.shared.record.decide(Fate::Reset);
    }

    /// Dies as a process does: refuses new connections and resets the open ones, also in the middle of an answer.
    pub async fn kill(&self) {
        self.refuse().await;
        self.reset_connections();
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.record.requests()
    }

    /// How many requests there were.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.shared.record.request_count()
    }

    /// Every connection so far.
    #[must_use]
    pub fn connections(&self) -> Vec<RecordedConnection> {
        self.shared.record.connections()
    }

    /// How many connections there were.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.shared.record.count_in(|_| true)
    }

    /// How many connections are open.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.shared.record.count_in(|state| matches!(state, ConnectionState::Open | ConnectionState::Waiting))
    }

    /// How many connections stand at a `Wait` or a held answer.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.shared.record.count_in(|state| *state == ConnectionState::Waiting)
    }

    /// Every `X-Request-Number` with how often it came.
    #[must_use]
    pub fn deliveries(&self) -> BTreeMap<String, usize> {
        self.shared.record.deliveries()
    }

    /// The `X-Request-Number`s that came more than once.
    #[must_use]
    pub fn duplicates(&self) -> BTreeMap<String, usize> {
        self.deliveries().into_iter().filter(|(_, count)| *count > 1).collect()
    }

    /// Waits until `condition` holds, looking again whenever something was recorded.
    ///
    /// # Panics
    ///
    /// With `what` and the record when it does not hold within the patience of tests.
    pub async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let mut changes = self.shared.record.changes();
        let held = timeout(PATIENCE, async {
            while !condition(self) {
                changes.changed().await.expect("the record lives as long as the backend");
            }
        });
        if held.await.is_err() {
            panic!("not within {PATIENCE:?}: {what}; connections {:#?}", self.connections());
        }
    }

    /// Asserts that no connection failed its script or brought anything but canonical HTTP/1.
    ///
    /// # Panics
    ///
    /// When one did.
    #[track_caller]
    pub fn assert_followed(&self) {
        for (number, connection) in self.connections().iter().enumerate() {
            if let ConnectionState::Failed(why) = &connection.state {
                let bytes = String::from_utf8_lossy(&connection.bytes);
                panic!("connection {number} failed: {why}; it brought {bytes:?}");
            }
        }
    }

    fn put(&self, listening: Listening) -> Listening {
        std::mem::replace(&mut *self.listening.lock().expect("no holder of this lock panics"), listening)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Listening::Open(_, task) = self.put(Listening::Gone) {
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

fn open(listener: Arc<TcpListener>, shared: &Arc<Shared>) -> Listening {
    let task = tokio::spawn(accept_all(Arc::clone(&listener), Arc::clone(shared)));
    Listening::Open(listener, task)
}

async fn accept_all(listener: Arc<TcpListener>, shared: Arc<Shared>) {
    loop {
        // A connection that is gone before it is accepted, or no free descriptor: try again, after others had a turn.
        match listener.accept().await {
            Ok((socket, peer)) => drop(tokio::spawn(converse(socket, peer, Arc::clone(&shared)))),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn converse(socket: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    let record = Arc::clone(&shared.record);
    let (number, fate) = record.connected(peer);
    let part = match &shared.behaviour {
        Behaviour::Http(http) => Part::Http(Arc::clone(&http.0)),
        Behaviour::Scripts(scripts) => {
            Part::Script(scripts.get(number).or(scripts.last()).cloned().unwrap_or_default())
        }
    };
    let stream = match (socket.set_nodelay(true), &shared.tls) {
        (Err(error), _) => Err(error),
        (Ok(()), None) => Ok(Stream::Plain(socket)),
        (Ok(()), Some(tls)) => tls.accept(socket).await.map(|stream| Stream::Tls(Box::new(stream.into()))),
    };
    match stream {
        Ok(stream) => {
            let gate = Arc::clone(&shared.gate);
            Conversation { stream, number, record, gate, pending: Vec::new() }.run(part, fate).await;
        }
        Err(error) => record.became(number, ConnectionState::Failed(format!("TLS handshake: {error}"))),
    }
}
