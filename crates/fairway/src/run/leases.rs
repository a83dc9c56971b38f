//! Transports the messages by which replicas borrow limit shares from each other. The data plane defines their content.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fairway_proxy::Borrower;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Timeout of a request to another replica. A replica that does not respond in time lends nothing.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum size of a response, which normally has a few hundred bytes.
const MAX_RESPONSE_BYTES: u64 = 4 << 10;

/// Requests shares from other replicas whenever the borrower needs some.
pub(super) async fn run_rounds(mut borrower: Borrower) {
    loop {
        let round = borrower.next_round().await;
        let (mut responses, mut exchanges) = (vec![None; round.messages().len()], JoinSet::new());
        for (number, message) in round.messages().iter().enumerate() {
            let (to, ask) = (message.recipient, message.request.clone());
            exchanges.spawn(async move { (number, timeout(RESPONSE_TIMEOUT, ask_lease(to, &ask)).await) });
        }
        while let Some(ended) = exchanges.join_next().await {
            if let Ok((number, Ok(Ok(response)))) = ended {
                responses[number] = response;
            }
        }
        borrower.finish_round(&round, &responses);
    }
}

/// Requests a share from the replica at `address`; `None` if it does not lend. Uses HTTP/1.0, so that the response ends with the
/// connection.
async fn ask_lease(address: SocketAddr, ask: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut stream = TcpStream::connect(address).await?;
    let length = ask.len();
    let head = format!("POST /leases HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), ask].concat()).await?;
    let mut response = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut response).await?;
    let end = response.windows(4).position(|window| window == b"\r\n\r\n");
    let is_ok = response.split(|byte| *byte == b' ').nth(1) == Some(b"200");
    Ok(end.filter(|_| is_ok).map(|end| response.split_off(end + 4)))
}
