//! Binds listening and datagram sockets. Each worker has its own socket at the same address (`SO_REUSEPORT`), so that
//! the kernel distributes connections, and datagrams by sender, and workers share nothing.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

pub use crate::sys::refuse_timestamps;

/// Connections that may wait to be accepted, per worker.
const LISTEN_BACKLOG: i32 = 4096;

/// Bytes of datagrams that may wait to be received, per worker.
const DATAGRAMS_WAITING: usize = 2 * 1024 * 1024;

/// Binds `address` once per worker, or not at all. Port 0 becomes one free port for all of them.
///
/// # Errors
/// The address is taken, not local, or not permitted.
pub fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    bind_each(address, workers, listening)
}

/// The same for datagrams.
///
/// # Errors
/// As [`bind`].
pub fn bind_datagrams(address: SocketAddr, workers: usize) -> io::Result<Vec<UdpSocket>> {
    bind_each(address, workers, receiving)
}

/// One more socket at an address where sockets of this user with `SO_REUSEPORT` listen.
///
/// # Errors
/// As [`bind`].
pub fn join(address: SocketAddr) -> io::Result<TcpListener> {
    Ok(listening(address, SocketReuse::AddressAndPort)?.into())
}

fn bind_each<S: From<Socket>>(
    address: SocketAddr,
    workers: usize,
    make: impl Fn(SocketAddr, SocketReuse) -> io::Result<Socket>,
) -> io::Result<Vec<S>> {
    // With SO_REUSEPORT, a second process of the same user would bind without an error and take half of the
    // connections: a plain bind detects that first. It also chooses the port if it is 0: for UDP, Linux considers a
    // port free for a socket with SO_REUSEPORT even if another such socket of a different listener is bound to it.
    let address = make(address, SocketReuse::Address)?.local_addr()?.as_socket().unwrap_or(address);
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        sockets.push(make(address, SocketReuse::AddressAndPort)?.into());
    }
    Ok(sockets)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SocketReuse {
    Address,
    AddressAndPort,
}

fn listening(address: SocketAddr, reuse: SocketReuse) -> io::Result<Socket> {
    let socket = unbound(address, Type::STREAM, Protocol::TCP, reuse)?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit it: one system call less per connection.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket)
}

/// Without `SO_REUSEADDR`: for UDP, that would let another process take the same port.
fn receiving(address: SocketAddr, reuse: SocketReuse) -> io::Result<Socket> {
    let socket = unbound(address, Type::DGRAM, Protocol::UDP, reuse)?;
    // Bursts wait here; the kernel allows no more than `net.core.rmem_max`.
    socket.set_recv_buffer_size(DATAGRAMS_WAITING)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn unbound(address: SocketAddr, kind: Type, protocol: Protocol, reuse: SocketReuse) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if reuse == SocketReuse::AddressAndPort {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() && address.ip().is_unspecified() {
        // `[::]` serves both families, as users of dual-stack clusters expect.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_worker_gets_its_own_socket_on_one_port() {
        let sockets = bind("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let ports: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        assert_eq!(ports.len(), 3);
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0));
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let bound = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(bind(bound.local_addr().unwrap(), 1).is_err());
        let reused = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        assert!(bind(reused[0].local_addr().unwrap(), 1).is_err(), "a second Fairway is noticed");
    }

    #[test]
    fn a_port_of_datagrams_is_taken_once() {
        let sockets = bind_datagrams("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let address = sockets[0].local_addr().unwrap();
        assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));
        assert!(bind_datagrams(address, 1).is_err(), "a second Fairway is noticed");
    }

    #[test]
    fn no_two_listeners_get_the_same_free_port() {
        let any = "127.0.0.1:0".parse().unwrap();
        let sockets: Vec<_> = (0..1_000).flat_map(|_| bind_datagrams(any, 1).unwrap()).collect();
        let ports: HashSet<_> = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        assert_eq!(ports.len(), sockets.len());
    }
}
