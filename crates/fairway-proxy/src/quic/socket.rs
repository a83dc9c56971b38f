//! The UDP socket of an endpoint: batches of datagrams in (GRO) and out (GSO), with ECN and the address that each was sent to.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use fairway_net::listen::refuse_timestamps;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::keys::Path;

/// Buffers that one call fills; with GRO each takes up to 64 datagrams of one client.
const BATCH: usize = 8;

/// Bytes of a buffer: no datagram is longer, and no batch of GRO either.
const BUFFER: usize = 64 * 1024;

/// Datagrams in one call that sends, where the system splits them (GSO). Linux takes 64 KiB, which 32 are never longer than.
const MAX_SEGMENTS: usize = 32;

/// Bytes that the kernel may hold until the network takes them; it gives no more than `net.core.wmem_max`.
const SEND_BUFFER: usize = 1024 * 1024;

/// A socket.
pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    /// Whether the system was asked to split datagrams and could not.
    lost_segmentation: Cell<bool>,
}

/// What became of datagrams that were to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The system took them.
    Taken,
    /// It has no room for them now.
    Blocked,
    /// It took not all of them, and never will. QUIC sends again what was in them.
    Dropped,
}

impl Socket {
    /// # Errors
    /// When the system refuses an option that is needed, such as to say which address a datagram was sent to.
    pub(super) fn new(io: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        // With the time of a batch of GRO, quinn-udp has no room for its ECN bits.
        refuse_timestamps(&io)?;
        state.set_send_buffer_size(UdpSockRef::from(&io), SEND_BUFFER)?;
        Ok(Self { io, state, lost_segmentation: Cell::new(false) })
    }

    /// Whether what is too long for a path is dropped and never split on the way, so that the path's MTU can be found out.
    pub(super) fn can_probe_mtu(&self) -> bool {
        !self.state.may_fragment()
    }

    /// The most datagrams that one transmit may have.
    pub(super) fn max_segments(&self) -> usize {
        self.state.max_gso_segments().min(MAX_SEGMENTS)
    }

    /// Receives once, as much as is there and fits; gives each datagram to `take`, and says how many there were.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut Buffers,
        mut take: impl FnMut(Path, BytesMut),
    ) -> Poll<usize> {
        let mut metas = [RecvMeta::default(); BATCH];
        loop {
            // The system's answer is lost with a socket that is gone, and none is here.
            if ready!(self.io.poll_recv_ready(cx)).is_err() {
                return Poll::Pending;
            }
            let mut slices = buffers.slices();
            let receive = || self.state.recv(UdpSockRef::from(&self.io), &mut slices, &mut metas);
            let count = match self.io.try_io(Interest::READABLE, receive) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // What the network says of a datagram that was sent (ICMP): QUIC finds that out for itself.
                Err(_) => return Poll::Ready(0),
            };
            let mut datagrams = 0;
            for (meta, buffer) in metas[..count].iter().zip(buffers.received()) {
                let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
                let path = Path { remote: meta.addr, local: meta.dst_ip, ecn };
                // Each is copied for itself: QUIC keeps pieces of datagrams, and a small one would keep the memory of all of them.
                for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                    datagrams += 1;
                    take(path, BytesMut::from(datagram));
                }
            }
            return Poll::Ready(datagrams);
        }
    }

    /// Sends what `transmit` says of `contents`.
    pub(super) fn send(&self, transmit: &Transmit, contents: &[u8]) -> Sent {
        let contents = &contents[..transmit.size];
        let sent = self.send_once(transmit, contents, transmit.segment_size);
        match transmit.segment_size {
            Some(size) if sent == Sent::Dropped && self.state.max_gso_segments() == 1 => {
                if !self.lost_segmentation.replace(true) {
                    tracing::info!("the system cannot split datagrams (UDP GSO): QUIC sends them one by one");
                }
                // Each is sent, whatever becomes of the others.
                let each = contents.chunks(size).map(|datagram| self.send_once(transmit, datagram, None));
                let all_taken = each.fold(true, |taken, one| taken & (one == Sent::Taken));
                if all_taken { Sent::Taken } else { Sent::Dropped }
            }
            _ => sent,
        }
    }

    fn send_once(&self, transmit: &Transmit, contents: &[u8], segment_size: Option<usize>) -> Sent {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents,
            segment_size,
            src_ip: transmit.src_ip,
        };
        let send = || self.state.try_send(UdpSockRef::from(&self.io), &transmit);
        match self.io.try_io(Interest::WRITABLE, send) {
            Ok(()) => Sent::Taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Blocked,
            // A probe of the path's MTU that is longer than this machine's own.
            Err(error) if quinn_udp::is_msg_size_err(&error) => Sent::Taken,
            Err(_) => Sent::Dropped,
        }
    }

    /// Ready when the system takes datagrams again. Only the last task that asked is woken.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_send_ready(cx).map(|_| ())
    }
}

/// What datagrams are received into.
pub(super) struct Buffers(Vec<u8>);

impl Buffers {
    /// Empty ones. The system gives their memory when they are first written to.
    pub(super) fn new() -> Self {
        Self(vec![0; BATCH * BUFFER])
    }

    fn slices(&mut self) -> [IoSliceMut<'_>; BATCH] {
        let mut chunks = self.0.chunks_exact_mut(BUFFER);
        std::array::from_fn(|_| IoSliceMut::new(chunks.next().expect("there are as many as in a batch")))
    }

    fn received(&self) -> impl Iterator<Item = &[u8]> {
        self.0.chunks_exact(BUFFER)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::SocketAddr;

    use super::*;

    async fn socket() -> (Socket, SocketAddr) {
        let io = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = io.local_addr().unwrap();
        let socket = Socket::new(io).unwrap();
        // The runtime learns only once it has looked that a new socket takes datagrams.
        poll_fn(|cx| socket.poll_writable(cx)).await;
        (socket, address)
    }

    fn transmit(destination: SocketAddr, size: usize, segment_size: Option<usize>) -> Transmit {
        let (ecn, src_ip) = (Some(EcnCodepoint::Ect0), None);
        Transmit { destination, ecn, size, segment_size, src_ip }
    }

    /// As many datagrams as that, in the order in which they come.
    async fn receive(socket: &Socket, count: usize) -> Vec<(Path, BytesMut)> {
        let (mut buffers, mut received) = (Buffers::new(), Vec::new());
        while received.len() < count {
            poll_fn(|cx| socket.poll_receive(cx, &mut buffers, |path, one| received.push((path, one)))).await;
        }
        received
    }

    #[tokio::test]
    async fn datagrams_that_are_sent_at_once_come_one_by_one() {
        let ((sender, from), (receiver, to)) = (socket().await, socket().await);
        let contents: Vec<u8> = (0..3000_u32).map(|at| (at / 1200) as u8).collect();
        assert_eq!(sender.send(&transmit(to, 3000, Some(1200)), &contents), Sent::Taken);
        assert_eq!(sender.send(&transmit(to, 5, None), b"alone, and cut"), Sent::Taken);
        let received = receive(&receiver, 4).await;
        let shape: Vec<_> = received.iter().map(|(_, datagram)| (datagram.len(), datagram[0])).collect();
        assert_eq!(shape, [(1200, 0), (1200, 1), (600, 2), (5, b'a')]);
        for (path, _) in received {
            let local = Some(to.ip());
            assert_eq!(path, Path { remote: from, local, ecn: Some(EcnCodepoint::Ect0) });
        }
    }

    #[tokio::test]
    async fn what_nobody_receives_stops_nobody() {
        let (sender, _) = socket().await;
        let (gone, to) = socket().await;
        drop(gone);
        for _ in 0..3 {
            assert_ne!(sender.send(&transmit(to, 1, None), b"x"), Sent::Blocked);
        }
        let (receiver, to) = socket().await;
        while sender.send(&transmit(to, 1, None), b"y") != Sent::Taken {}
        assert_eq!(receive(&receiver, 1).await[0].1, b"y"[..]);
    }
}
