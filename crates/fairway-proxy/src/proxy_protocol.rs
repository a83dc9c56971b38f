//! The PROXY protocol: who may send a header, and how long it may take.

use std::net::IpAddr;
use std::time::Duration;

use fairway_model::ProxyProtocolMode;
use fairway_net::proxy_header::ProxyHeader;
use fairway_routing::Port;
use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fault::Fault;
use crate::listening::OpenPort;
use crate::options::ProxyProtocol;
use crate::peer::Scheme;

/// Whether connections to a port start with a header.
///
/// # Errors
/// A header is expected, but this peer may not send one.
pub(crate) fn expects(options: &ProxyProtocol, port: &OpenPort, peer: IpAddr) -> Result<bool, Fault> {
    let by_flags = |scheme| options.on.expects_header(scheme).then_some(&options.trusted);
    let trusted: Option<&Vec<IpNet>> = match (&port.introduction, &port.carries) {
        (Some(ProxyProtocolMode::Required { trusted }), _) => Some(trusted),
        (Some(ProxyProtocolMode::None), _) => None,
        (None, Port::Clear(_)) => by_flags(Scheme::Http),
        (None, Port::Tls(_)) => by_flags(Scheme::Https),
        (None, Port::Stream(_) | Port::Datagrams(_) | Port::Quic(_)) => None,
    };
    let Some(trusted) = trusted else { return Ok(false) };
    let is_trusted = trusted.is_empty() || trusted.iter().any(|range| range.contains(&peer));
    if is_trusted { Ok(true) } else { Err(Fault::AccessDenied) }
}

/// Reads the header at the start of the connection.
pub(crate) async fn read(stream: &mut TcpStream, limit: Duration) -> Result<ProxyHeader, Fault> {
    let header = timeout(limit, ProxyHeader::read(stream)).await.map_err(|_| Fault::ClientTimeout)?;
    header.map_err(|_| Fault::ClientGone)
}
