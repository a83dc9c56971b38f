//! The header of the PROXY protocol, versions 1 and 2 (the HAProxy specification of that name): who the client is, said by
//! the load balancer in front, or by Fairway to an endpoint. Who is believed is decided elsewhere.

mod parse;
mod write;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

pub use parse::{NoHeader, ProxyHeader, parse};
pub use write::{Addresses, Carries, MOST_OF_V2, write_v1, write_v2};

/// A version 2 header has more only by its optional fields.
const MOST: usize = 4096;

impl ProxyHeader {
    /// Reads it from the beginning of a connection. How long that may take is for the caller to say.
    ///
    /// # Errors
    /// When the peer leaves, or sends something else.
    pub async fn read(stream: &mut TcpStream) -> Result<Self, NoHeader> {
        let mut bytes = Vec::with_capacity(256);
        loop {
            if bytes.len() >= MOST || stream.read_buf(&mut bytes).await.map_err(|_| NoHeader)? == 0 {
                return Err(NoHeader);
            }
            if let Some(header) = parse(&bytes)? {
                return Ok(header);
            }
        }
    }
}
