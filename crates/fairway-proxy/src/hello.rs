//! Reads the ClientHello on ports whose SNI decides who terminates TLS. Sends nothing: whoever terminates TLS
//! gets all bytes.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::fault::Fault;
use crate::l4::hello::{ClientHello, HelloReader};

/// Room for one read. Most ClientHellos fit.
const READ_BYTES: usize = 2 * 1024;

/// Reads until the ClientHello is complete, starting with the `bytes` that were already read. Returns all bytes
/// read.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    mut bytes: Vec<u8>,
    limit: Duration,
) -> Result<(ClientHello, Vec<u8>), Fault> {
    let reading = async {
        let mut reader = HelloReader::new();
        let mut peeked = 0;
        loop {
            let hello = reader.read(&bytes[peeked..]).map_err(|_| Fault::ClientGone)?;
            if let Some(hello) = hello {
                return Ok((hello, bytes));
            }
            peeked = bytes.len();
            bytes.reserve(READ_BYTES);
            if stream.read_buf(&mut bytes).await.map_err(|_| Fault::ClientGone)? == 0 {
                return Err(Fault::ClientGone);
            }
        }
    };
    timeout(limit, reading).await.unwrap_or(Err(Fault::ClientTimeout))
}
