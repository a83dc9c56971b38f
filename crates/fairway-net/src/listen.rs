//! Sockets that accept connections or receive datagrams. Each worker binds its own to the same address (`SO_REUSEPORT`), so
//! the kernel spreads connections, and datagrams by their sender, and workers share nothing.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

pub use crate::sys::refuse_timestamps;

/// Connections that may wait to be accepted, per worker.
const BACKLOG: i32 = 4096;

/// Bytes of datagrams that may wait to be received, per worker.
const DATAGRAMS_WAITING: usize = 2 * 1024 * 1024;

/// Binds `address` once per worker, or not at all. Port 0 becomes one free port for all of them.
///
/// # Errors
/// Where the address is taken, is none of this machine, or may not be used.
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

/// One more socket at an address at which sockets of this user with `SO_REUSEPORT` listen.
///
/// # Errors
/// As [`bind`].
pub fn join(address: SocketAddr) -> io::Result<TcpListener> {
    Ok(listening(address, Reuse::AddressAndPort)?.into())
}

fn bind_each<S: From<Socket>>(
    address: SocketAddr,
    workers: usize,
    make: impl Fn(SocketAddr, Reuse) -> io::Result<Socket>,
) -> io::Result<Vec<S>> {
    // With SO_REUSEPORT a second process of the same user would bind without complaint and take half of the
    // connections: a plain bind first finds that out. It also chooses the port where that is 0: of UDP, Linux counts a
    // port as free for a socket with SO_REUSEPORT although another one with it, of any other listener, is bound there.
    let address = make(address, Reuse::Address)?.local_addr()?.as_socket().unwrap_or(address);
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        sockets.push(make(address, Reuse::AddressAndPort)?.into());
    }
    Ok(sockets)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Address,
    AddressAndPort,
}

fn listening(address: SocketAddr, reuse: Reuse) -> io::Result<Socket> {
    let socket = unbound(address, Type::STREAM, Protocol::TCP, reuse)?;
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit it: one system call less per connection.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Without `SO_REUSEADDR`: of UDP that would let another process take the same port.
fn receiving(address: SocketAddr, reuse: Reuse) -> io::Result<Socket> {
    let socket = unbound(address, Type::DGRAM, Protocol::UDP, reuse)?;
    // A burst waits here; the kernel gives no more than `net.core.rmem_max`.
    socket.set_recv_buffer_size(DATAGRAMS_WAITING)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn unbound(address: SocketAddr, kind: Type, protocol: Protocol, reuse: Reuse) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if reuse == Reuse::AddressAndPort {
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
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(bind(taken.local_addr().unwrap(), 1).is_err());
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
