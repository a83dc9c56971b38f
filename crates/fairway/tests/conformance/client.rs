//! A client that writes any bytes to a proxy and keeps what comes back. It waits for an end that a case names,
//! never longer than it is told, and nothing depends on which of the two ended it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a proxy that waits for more of a request is watched.
pub(crate) const QUIET: Duration = Duration::from_millis(250);

/// What came back on a connection.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    pub(crate) bytes: Vec<u8>,
    /// The proxy ended the connection.
    pub(crate) closed: bool,
}

/// Writes `bytes`, and reads until `enough`, the end, or nothing came for `quiet`.
pub(crate) async fn exchange(
    address: SocketAddr,
    bytes: &[u8],
    quiet: Duration,
    enough: impl Fn(&[u8]) -> bool,
) -> Returned {
    let mut returned = Returned::default();
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let (mut from, mut to) = socket.split();
    // The proxy may answer, and close, before it has taken everything.
    let write = async { drop(timeout(quiet * 20, to.write_all(bytes)).await) };
    let read = async {
        let mut piece = [0; 16 * 1024];
        while !enough(&returned.bytes) {
            match timeout(quiet, from.read(&mut piece)).await {
                Ok(Ok(count @ 1..)) => returned.bytes.extend_from_slice(&piece[..count]),
                Ok(_) => {
                    returned.closed = true;
                    break;
                }
                Err(_) => break,
            }
        }
    };
    tokio::join!(write, read);
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

    /// The status of the first answer of HTTP/1 that is final.
    pub(crate) fn status(&self) -> Option<u16> {
        let text = self.text();
        let mut statuses =
            text.match_indices("HTTP/1.").filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok());
        statuses.find(|status| *status >= 200 || *status == 101)
    }
}
