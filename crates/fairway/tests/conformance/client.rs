//! A client that writes any bytes to a proxy and keeps what comes back, until an end that a case names, the end of the connection,
//! or silence. Silence is counted in what the proxy does for others ([`Turns`]), so that a busy machine, on which everything takes
//! longer, is given longer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

/// Requests that a proxy answers while it says nothing on a connection, until that counts as waiting for more. Each takes two turns
/// of its loop or more, and what is under way to or from a backend takes one at each step. Whether something came later is looked at
/// in the end ([`Returned::was_given_up_early`]).
pub(crate) const TURNS: u64 = 40;

/// Longer than Fairway holds a request of HTTP/2 back while clients take many requests back, as the differential's do
/// (docs/design/0034-requests-that-are-held.md: 10 ms for the first four of a connection). A fast machine takes [`TURNS`] in less.
const HELD: Duration = Duration::from_millis(20);

/// How long anything may take before it counts as broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// The turns that a server of one thread takes, seen from outside: what it refuses at once, on a connection of its own. Nothing of
/// it reaches a backend. All who wait share the probes.
pub(crate) struct Turns {
    address: SocketAddr,
    taken: AtomicU64,
    probing: Mutex<()>,
}

impl Turns {
    pub(crate) fn of(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self { address, taken: AtomicU64::new(0), probing: Mutex::default() })
    }

    /// Waits until the server has taken so many turns that begin from now on.
    pub(crate) async fn pass(&self, turns: u64) {
        // One may be under way already.
        let last = self.taken.load(Ordering::Relaxed) + turns + 1;
        while self.taken.load(Ordering::Relaxed) < last {
            let _own = self.probing.lock().await;
            if self.taken.load(Ordering::Relaxed) < last {
                self.probe().await;
                self.taken.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn probe(&self) {
        let answered = async {
            let mut socket = TcpStream::connect(self.address).await?;
            socket.write_all(b"(\r\n\r\n").await?;
            socket.read(&mut [0; 64]).await
        };
        let answer = timeout(PATIENCE, answered).await;
        assert!(matches!(answer, Ok(Ok(1..))), "{} does not refuse a bad request: {answer:?}", self.address);
    }
}

/// Silence that ends an exchange.
#[derive(Clone)]
pub(crate) enum Silence {
    /// As long as this.
    Time(Duration),
    /// While the server took so many turns before and after the time that it may hold a request back.
    Turns(Arc<Turns>, u64),
    /// The same with [`TURNS`], but not before there were so many answers, unless [`PATIENCE`] is over.
    TurnsAfter(usize, Arc<Turns>),
}

impl Silence {
    async fn pass(&self, came: usize) {
        match self {
            Self::Time(time) => sleep(*time).await,
            Self::TurnsAfter(answers, _) if came < *answers => sleep(PATIENCE).await,
            Self::Turns(turns, count) => {
                // It has read everything by then, so that the time of all that it holds back has begun.
                turns.pass(*count).await;
                sleep(HELD).await;
                turns.pass(*count).await;
            }
            Self::TurnsAfter(_, turns) => turns.pass(TURNS).await,
        }
    }
}

fn answers_in(bytes: &[u8]) -> usize {
    bytes.windows(5).filter(|part| part == b"seen ").count()
}

/// What came back on a connection.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    pub(crate) bytes: Vec<u8>,
    /// The proxy ended the connection.
    pub(crate) closed: bool,
    /// The connection on which nothing came any more.
    silent: Option<TcpStream>,
}

/// Writes `bytes`, and reads until `enough`, the end, or `silence`, which begins anew with every byte in either direction.
pub(crate) async fn exchange(
    address: SocketAddr,
    mut bytes: &[u8],
    silence: &Silence,
    enough: impl Fn(&[u8]) -> bool,
) -> Returned {
    let mut returned = Returned::default();
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let (mut from, mut to) = socket.split();
    while !enough(&returned.bytes) && !returned.closed {
        let answers = answers_in(&returned.bytes);
        // The proxy may answer, and close, before it has taken everything.
        tokio::select! {
            biased;
            read = from.read_buf(&mut returned.bytes) => returned.closed = !matches!(read, Ok(1..)),
            written = to.write(bytes), if !bytes.is_empty() => bytes = &bytes[written.unwrap_or(bytes.len())..],
            () = silence.pass(answers) => {
                returned.silent = Some(socket);
                break;
            }
        }
    }
    returned
}

impl Returned {
    pub(crate) fn text(&self) -> String {
        self.bytes.iter().copied().map(char::from).collect()
    }

    /// What backends saw, by their answers.
    pub(crate) fn seen(&self) -> Vec<String> {
        let text = self.text();
        text.split("seen ").skip(1).map(|rest| rest.lines().next().unwrap_or_default().to_owned()).collect()
    }

    /// Whether silence ended it: the server waits for more.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.is_some()
    }

    /// Whether the connection is over: some close only a while after an answer that says so.
    pub(crate) fn is_ended(&self) -> bool {
        let text = self.text().to_ascii_lowercase();
        let last =
            text.rfind("http/1.").map_or("", |at| text[at..].split("\r\n\r\n").next().unwrap_or_default());
        self.closed || last.contains("\r\nconnection: close")
    }

    /// Whether an answer of a backend came after the silence that ended the exchange.
    pub(crate) fn was_given_up_early(&self) -> bool {
        let mut late = vec![0; 64 * 1024];
        let read = self.silent.as_ref().and_then(|socket| socket.try_read(&mut late).ok());
        read.is_some_and(|count| answers_in(&late[..count]) > 0)
    }

    /// The status of the first answer of HTTP/1 that is final.
    pub(crate) fn status(&self) -> Option<u16> {
        let text = self.text();
        let mut statuses =
            text.match_indices("HTTP/1.").filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok());
        statuses.find(|status| *status >= 200 || *status == 101)
    }
}
