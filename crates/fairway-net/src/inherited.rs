//! Listening sockets that the process was given, by the service manager or by its predecessor.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use socket2::{Socket, Type};

/// Sockets by address, until they are taken. Dropping this closes the rest.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    sockets: Vec<(SocketAddr, TcpListener)>,
    /// The inodes of all sockets ever added: one that is passed twice is one socket.
    known_inodes: BTreeSet<u64>,
}

impl InheritedSockets {
    /// Adds sockets, which must be listening for TCP connections.
    ///
    /// # Errors
    /// One of them is something else.
    pub fn add(&mut self, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        for descriptor in descriptors {
            let socket = Socket::from(descriptor);
            let address = listening_address(&socket)?;
            if self.known_inodes.insert(socket.cookie()?) {
                socket.set_nonblocking(true)?;
                // Accepted sockets inherit it, like those bound here.
                socket.set_tcp_nodelay(true)?;
                self.sockets.push((address, socket.into()));
            }
        }
        Ok(())
    }

    /// Takes all sockets of an address.
    pub fn take(&mut self, address: SocketAddr) -> Vec<TcpListener> {
        self.sockets.extract_if(.., |(bound, _)| *bound == address).map(|(_, socket)| socket).collect()
    }

    /// The addresses of sockets that were not taken.
    pub fn addresses(&self) -> BTreeSet<SocketAddr> {
        self.sockets.iter().map(|(address, _)| *address).collect()
    }

    /// The number of sockets that were not taken.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether all were taken.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }
}

fn listening_address(socket: &Socket) -> io::Result<SocketAddr> {
    let no_listener = |_| io::Error::new(io::ErrorKind::InvalidInput, "not a listening TCP socket");
    let listens = socket.r#type().map_err(no_listener)? == Type::STREAM && socket.is_listener()?;
    let address = socket.local_addr()?.as_socket().filter(|_| listens);
    address.ok_or_else(|| no_listener(io::ErrorKind::InvalidInput.into()))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::listen;

    #[test]
    fn sockets_are_found_by_the_address_that_the_kernel_says() {
        let any = "127.0.0.1:0".parse().unwrap();
        let (one, other) = (listen::bind(any, 2).unwrap(), listen::bind(any, 1).unwrap());
        let (at, elsewhere) = (one[0].local_addr().unwrap(), other[0].local_addr().unwrap());
        let mut inherited = InheritedSockets::default();
        inherited.add(one.into_iter().chain(other).map(OwnedFd::from).collect()).unwrap();
        assert_eq!(inherited.addresses(), BTreeSet::from([at, elsewhere]));
        assert_eq!((inherited.take(at).len(), inherited.take(at).len()), (2, 0));
        assert_eq!(inherited.len(), 1);
    }

    #[test]
    fn a_duplicate_socket_is_kept_once() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let again = socket.try_clone().unwrap();
        let mut inherited = InheritedSockets::default();
        inherited.add(vec![socket.into(), again.into()]).unwrap();
        assert_eq!(inherited.len(), 1);
    }

    #[test]
    fn sockets_that_do_not_listen_for_tcp_are_refused() {
        let directory = std::env::temp_dir().join(format!("fairway-inherited-{}", std::process::id()));
        let local = UnixListener::bind(&directory).unwrap();
        std::fs::remove_file(&directory).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for other in [local.into(), connected.into(), datagrams.into(), OwnedFd::from(file)] {
            let error = InheritedSockets::default().add(vec![other]).unwrap_err();
            assert_eq!(error.to_string(), "not a listening TCP socket");
        }
    }
}
