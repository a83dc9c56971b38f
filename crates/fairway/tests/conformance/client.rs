//! A client that writes arbitrary bytes to a proxy and reads until a case's condition, the end of the connection, or silence.
//! Silence is measured by the work that the proxy does for others ([`Turns`]), so that a busy machine gets more time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

/// Number of other requests that a proxy responds to while a connection is silent, until the silence counts as waiting for more.
/// Each takes two turns of its event loop or more, and data on its way to or from a backend takes one turn per step.
/// [`Returned::was_given_up_early`] checks at the end whether something arrives later.
pub(crate) const SILENT_TURNS: u64 = 40;

/// Longer than Fairway delays an HTTP/2 request of a client that cancels many requests, as the differential's clients do
/// (docs/design/0034-requests-that-are-held.md: 10 ms for the first four of a connection). A fast machine takes [`SILENT_TURNS`] in
/// less.
const MAX_REQUEST_DELAY: Duration = Duration::from_millis(20);

/// Timeout after which a step counts as broken.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// The event loop turns of a single-threaded server, observed through requests that it refuses at once, on a separate connection.
/// No request reaches a backend. All waiting cases share the probes.
pub(crate) struct Turns {
    address: SocketAddr,
    turns_taken: AtomicU64,
    probing: Mutex<()>,
}

impl Turns {
    pub(crate) fn for_address(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self { address, turns_taken: AtomicU64::new(0), probing: Mutex::default() })
    }

    /// Waits until the server has taken this many turns, all starting from now.
    pub(crate) async fn pass(&self, turns: u64) {
        // One turn may already be in progress.
        let last = self.turns_taken.load(Ordering::Relaxed) + turns + 1;
        while self.turns_taken.load(Ordering::Relaxed) < last {
            let _own = self.probing.lock().await;
            if self.turns_taken.load(Ordering::Relaxed) < last {
                self.probe().await;
                self.turns_taken.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn probe(&self) {
        let answered = async {
            let mut socket = TcpStream::connect(self.address).await?;
            socket.write_all(b"(\r\n\r\n").await?;
            socket.read(&mut [0; 64]).await
        };
        let response = timeout(STEP_TIMEOUT, answered).await;
        assert!(
            matches!(response, Ok(Ok(1..))),
            "{} does not refuse a bad request: {response:?}",
            self.address
        );
    }
}

/// The silence that ends an exchange.
#[derive(Clone)]
pub(crate) enum Silence {
    /// A fixed time.
    Time(Duration),
    /// This many turns before and after the time for which the server may delay a request.
    Turns(Arc<Turns>, u64),
    /// [`SILENT_TURNS`] after this many responses, or [`STEP_TIMEOUT`] if there are fewer.
    TurnsAfter(usize, Arc<Turns>),
}

impl Silence {
    async fn pass(&self, received: usize) {
        match self {
            Self::Time(time) => sleep(*time).await,
            Self::TurnsAfter(responses, _) if received < *responses => sleep(STEP_TIMEOUT).await,
            Self::Turns(turns, count) => {
                // By then the server has read everything, so the delay of all delayed requests has started.
                turns.pass(*count).await;
                sleep(MAX_REQUEST_DELAY).await;
                turns.pass(*count).await;
            }
            Self::TurnsAfter(_, turns) => turns.pass(SILENT_TURNS).await,
        }
    }
}

fn count_responses(bytes: &[u8]) -> usize {
    bytes.windows(5).filter(|part| part == b"seen ").count()
}

/// The data received on a connection.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    pub(crate) bytes: Vec<u8>,
    /// The proxy ended the connection.
    pub(crate) closed: bool,
    /// The connection that became silent.
    silent: Option<TcpStream>,
}

/// Writes `bytes`, and reads until `enough`, the end, or `silence`, which restarts with every byte in either direction.
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
        let responses = count_responses(&returned.bytes);
        // The proxy may respond and close before it has read everything.
        tokio::select! {
            biased;
            read = from.read_buf(&mut returned.bytes) => returned.closed = !matches!(read, Ok(1..)),
            written = to.write(bytes), if !bytes.is_empty() => bytes = &bytes[written.unwrap_or(bytes.len())..],
            () = silence.pass(responses) => {
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

    /// The requests that backends received, from their responses.
    pub(crate) fn requests_seen(&self) -> Vec<String> {
        let text = self.text();
        text.split("seen ").skip(1).map(|rest| rest.lines().next().unwrap_or_default().to_owned()).collect()
    }

    /// Whether silence ended the exchange: the server waits for more.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.is_some()
    }

    /// Whether the connection is over. Some servers close only some time after a response that announces it.
    pub(crate) fn is_ended(&self) -> bool {
        let text = self.text().to_ascii_lowercase();
        let last =
            text.rfind("http/1.").map_or("", |at| text[at..].split("\r\n\r\n").next().unwrap_or_default());
        self.closed || last.contains("\r\nconnection: close")
    }

    /// Whether a response of a backend arrived after the silence that ended the exchange.
    pub(crate) fn was_given_up_early(&self) -> bool {
        let mut late = vec![0; 64 * 1024];
        let read = self.silent.as_ref().and_then(|socket| socket.try_read(&mut late).ok());
        read.is_some_and(|count| count_responses(&late[..count]) > 0)
    }

    /// The status of the first final HTTP/1 response.
    pub(crate) fn status(&self) -> Option<u16> {
        let text = self.text();
        let mut statuses =
            text.match_indices("HTTP/1.").filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok());
        statuses.find(|status| *status >= 200 || *status == 101)
    }
}
