//! Who may say, in a header of the PROXY protocol, who the client is, and how long it may take.

use std::net::IpAddr;
use std::time::Duration;

use fairway_runtime::proxy_header::ProxyHeader;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::options::ProxyProtocol;
use fairway_metrics::Fault;

/// Reads the header that must come first.
pub(crate) async fn read(
    options: &ProxyProtocol,
    peer: IpAddr,
    stream: &mut TcpStream,
    limit: Duration,
) -> Result<ProxyHeader, Fault> {
    if !options.trusted.is_empty() && !options.trusted.iter().any(|range| range.contains(&peer)) {
        return Err(Fault::AccessDenied);
    }
    let header = timeout(limit, ProxyHeader::read(stream)).await.map_err(|_| Fault::ClientTimeout)?;
    header.map_err(|_| Fault::ClientGone)
}
