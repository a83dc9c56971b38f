//! Sockets that accept connections. Each worker binds its own to the same address (`SO_REUSEPORT`), so the kernel spreads
//! connections and workers share nothing.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted, per worker.
const BACKLOG: i32 = 4096;

/// Binds `address` once per worker, or not at all. Port 0 becomes one free port for all of them.
///
/// # Errors
/// Where the address is taken, is none of this machine, or may not be used.
pub fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    // With SO_REUSEPORT a second process of the same user would bind without complaint and take half of the
    // connections: a plain bind first finds that out.
    drop(socket(address, Reuse::Address)?);
    let first = socket(address, Reuse::AddressAndPort)?;
    let bound = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..workers {
        sockets.push(socket(bound, Reuse::AddressAndPort)?);
    }
    Ok(sockets)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Address,
    AddressAndPort,
}

fn socket(address: SocketAddr, reuse: Reuse) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if reuse == Reuse::AddressAndPort {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() && address.ip().is_unspecified() {
        // `[::]` serves both families, as users of dual-stack clusters expect.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit it: one system call less per connection.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
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
}
