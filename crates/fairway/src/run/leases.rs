//! Carries the messages with which replicas borrow shares of limits from each other. What they say is the data plane's.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fairway_proxy::Borrower;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long all replicas together have for their answers: who does not answer lends nothing.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// An answer has some hundred bytes.
const MAX_ANSWER_BYTES: u64 = 4 << 10;

/// Asks other replicas whenever there is something to ask for.
pub(super) async fn run_rounds(mut borrower: Borrower) {
    loop {
        let round = borrower.next_round().await;
        let (mut answers, mut exchanges) = (vec![None; round.messages().len()], JoinSet::new());
        for (number, message) in round.messages().iter().enumerate() {
            let (to, ask) = (message.to, message.ask.clone());
            exchanges.spawn(async move { (number, timeout(ANSWER_TIMEOUT, exchange(to, &ask)).await) });
        }
        while let Some(ended) = exchanges.join_next().await {
            if let Ok((number, Ok(Ok(answer)))) = ended {
                answers[number] = answer;
            }
        }
        borrower.finish_round(&round, &answers);
    }
}

/// What the replica at `address` answers; `None` where it does not lend. HTTP/1.0: the answer ends with the connection.
async fn exchange(address: SocketAddr, ask: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut stream = TcpStream::connect(address).await?;
    let length = ask.len();
    let head = format!("POST /leases HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), ask].concat()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let is_ok = answer.split(|byte| *byte == b' ').nth(1) == Some(b"200");
    Ok(end.filter(|_| is_ok).map(|end| answer.split_off(end + 4)))
}
