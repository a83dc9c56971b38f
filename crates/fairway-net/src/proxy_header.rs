//! The PROXY protocol header, versions 1 and 2 (HAProxy specification): the client's address, received from a load
//! balancer or sent to an endpoint. Whether to trust it is decided elsewhere.

mod parse;
mod write;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

pub use parse::{InvalidHeader, ProxyHeader, parse};
pub use write::{Addresses, MOST_OF_V2, Payload, write_v1, write_v2};

/// Maximum bytes of a header; only optional fields make a version 2 header longer.
const MAX_HEADER_BYTES: usize = 4096;

impl ProxyHeader {
    /// Reads the header at the start of a connection. The caller sets the timeout.
    ///
    /// # Errors
    /// The peer closes or sends something else.
    pub async fn read(stream: &mut TcpStream) -> Result<Self, InvalidHeader> {
        let mut bytes = Vec::with_capacity(256);
        loop {
            if bytes.len() >= MAX_HEADER_BYTES
                || stream.read_buf(&mut bytes).await.map_err(|_| InvalidHeader)? == 0
            {
                return Err(InvalidHeader);
            }
            if let Some(header) = parse(&bytes)? {
                return Ok(header);
            }
        }
    }
}
