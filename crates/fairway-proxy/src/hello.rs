//! Reads the first message of a TLS client on ports where the name in it decides who ends TLS at all. Nothing is answered:
//! whoever ends it gets all bytes.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::fault::Fault;
use crate::l4::hello::{ClientHello, HelloReader};

/// Room for one read. Most messages fit.
const READ: usize = 2 * 1024;

/// Reads behind `bytes`, which were read already, until the message is whole. Gives all that was read.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    mut bytes: Vec<u8>,
    limit: Duration,
) -> Result<(ClientHello, Vec<u8>), Fault> {
    let reading = async {
        let mut reader = HelloReader::new();
        let mut seen = 0;
        loop {
            let taken = reader.take(&bytes[seen..]).map_err(|_| Fault::ClientGone)?;
            if let Some(hello) = taken {
                return Ok((hello, bytes));
            }
            seen = bytes.len();
            bytes.reserve(READ);
            if stream.read_buf(&mut bytes).await.map_err(|_| Fault::ClientGone)? == 0 {
                return Err(Fault::ClientGone);
            }
        }
    };
    timeout(limit, reading).await.unwrap_or(Err(Fault::ClientTimeout))
}
