//! The UDP socket of an endpoint: batched receive (GRO) and send (GSO), with ECN and destination addresses.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use fairway_net::listen::refuse_timestamps;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::keys::DatagramPath;

/// Buffers per receive call; with GRO each takes up to 64 datagrams of one client.
const MAX_BATCH_BUFFERS: usize = 8;

/// Bytes per buffer: no datagram or GRO batch is longer.
const BUFFER_BYTES: usize = 64 * 1024;

/// Datagrams per send call with GSO. Linux accepts 64 KiB, which 32 datagrams never exceed.
const MAX_SEGMENTS: usize = 32;

/// Kernel send buffer; capped by `net.core.wmem_max`.
const SEND_BUFFER_BYTES: usize = 1024 * 1024;

pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    /// Whether GSO was tried and failed.
    lost_segmentation: Cell<bool>,
}

/// The result of sending datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendResult {
    /// The kernel took them.
    Taken,
    /// The socket has no room now.
    Blocked,
    /// Some were dropped for good. QUIC retransmits their content.
    Dropped,
}

impl Socket {
    /// # Errors
    /// The system lacks a required socket option, such as reporting destination addresses.
    pub(super) fn new(io: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        // With timestamps of GRO batches, quinn-udp has no room for ECN bits.
        refuse_timestamps(&io)?;
        state.set_send_buffer_size(UdpSockRef::from(&io), SEND_BUFFER_BYTES)?;
        Ok(Self { io, state, lost_segmentation: Cell::new(false) })
    }

    /// Whether oversized datagrams are dropped and never fragmented, so that path MTU discovery works.
    pub(super) fn can_probe_mtu(&self) -> bool {
        !self.state.may_fragment()
    }

    /// Maximum datagrams per transmit.
    pub(super) fn max_segments(&self) -> usize {
        self.state.max_gso_segments().min(MAX_SEGMENTS)
    }

    /// Receives one batch; passes each datagram to `deliver`, and returns how many there were.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut ReceiveBuffers,
        mut deliver: impl FnMut(DatagramPath, BytesMut),
    ) -> Poll<usize> {
        let mut metas = [RecvMeta::default(); MAX_BATCH_BUFFERS];
        loop {
            // An error here only means that the runtime is shutting down.
            if ready!(self.io.poll_recv_ready(cx)).is_err() {
                return Poll::Pending;
            }
            let mut slices = buffers.slices();
            let receive = || self.state.recv(UdpSockRef::from(&self.io), &mut slices, &mut metas);
            let count = match self.io.try_io(Interest::READABLE, receive) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // An ICMP error about a sent datagram: QUIC detects that itself.
                Err(_) => return Poll::Ready(0),
            };
            let mut datagrams = 0;
            for (meta, buffer) in metas[..count].iter().zip(buffers.received()) {
                let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
                let path = DatagramPath { remote: meta.addr, local: meta.dst_ip, ecn };
                // Copied separately: QUIC keeps parts of datagrams, and a small part would pin the whole batch.
                for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                    datagrams += 1;
                    deliver(path, BytesMut::from(datagram));
                }
            }
            return Poll::Ready(datagrams);
        }
    }

    /// Sends `contents` as `transmit` describes.
    pub(super) fn send(&self, transmit: &Transmit, contents: &[u8]) -> SendResult {
        let contents = &contents[..transmit.size];
        let sent = self.send_once(transmit, contents, transmit.segment_size);
        match transmit.segment_size {
            Some(size) if sent == SendResult::Dropped && self.state.max_gso_segments() == 1 => {
                if !self.lost_segmentation.replace(true) {
                    tracing::info!(
                        "the system has no UDP segmentation offload (GSO): QUIC sends datagrams one by one"
                    );
                }
                // Send each one regardless of the others.
                let each = contents.chunks(size).map(|datagram| self.send_once(transmit, datagram, None));
                let all_taken = each.fold(true, |taken, one| taken & (one == SendResult::Taken));
                if all_taken { SendResult::Taken } else { SendResult::Dropped }
            }
            _ => sent,
        }
    }

    fn send_once(&self, transmit: &Transmit, contents: &[u8], segment_size: Option<usize>) -> SendResult {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents,
            segment_size,
            src_ip: transmit.src_ip,
        };
        let send = || self.state.try_send(UdpSockRef::from(&self.io), &transmit);
        match self.io.try_io(Interest::WRITABLE, send) {
            Ok(()) => SendResult::Taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => SendResult::Blocked,
            // An MTU probe longer than the local MTU.
            Err(error) if quinn_udp::is_msg_size_err(&error) => SendResult::Taken,
            Err(_) => SendResult::Dropped,
        }
    }

    /// Ready when the socket takes datagrams again. Only the last task that asked is woken.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_send_ready(cx).map(|_| ())
    }
}

/// Receive buffers.
pub(super) struct ReceiveBuffers(Vec<u8>);

impl ReceiveBuffers {
    /// Empty buffers. The system allocates their memory when first written to.
    pub(super) fn new() -> Self {
        Self(vec![0; MAX_BATCH_BUFFERS * BUFFER_BYTES])
    }

    fn slices(&mut self) -> [IoSliceMut<'_>; MAX_BATCH_BUFFERS] {
        let mut chunks = self.0.chunks_exact_mut(BUFFER_BYTES);
        std::array::from_fn(|_| IoSliceMut::new(chunks.next().expect("there are as many as in a batch")))
    }

    fn received(&self) -> impl Iterator<Item = &[u8]> {
        self.0.chunks_exact(BUFFER_BYTES)
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
        // The runtime learns that a new socket is writable only after polling it.
        poll_fn(|cx| socket.poll_writable(cx)).await;
        (socket, address)
    }

    fn transmit(destination: SocketAddr, size: usize, segment_size: Option<usize>) -> Transmit {
        let (ecn, src_ip) = (Some(EcnCodepoint::Ect0), None);
        Transmit { destination, ecn, size, segment_size, src_ip }
    }

    /// Receives this many datagrams in order.
    async fn receive(socket: &Socket, count: usize) -> Vec<(DatagramPath, BytesMut)> {
        let (mut buffers, mut received) = (ReceiveBuffers::new(), Vec::new());
        while received.len() < count {
            poll_fn(|cx| socket.poll_receive(cx, &mut buffers, |path, one| received.push((path, one)))).await;
        }
        received
    }

    #[tokio::test]
    async fn a_batch_of_datagrams_arrives_one_by_one() {
        let ((sender, from), (receiver, to)) = (socket().await, socket().await);
        let contents: Vec<u8> = (0..3000_u32).map(|at| (at / 1200) as u8).collect();
        assert_eq!(sender.send(&transmit(to, 3000, Some(1200)), &contents), SendResult::Taken);
        assert_eq!(sender.send(&transmit(to, 5, None), b"alone, and cut"), SendResult::Taken);
        let received = receive(&receiver, 4).await;
        let shape: Vec<_> = received.iter().map(|(_, datagram)| (datagram.len(), datagram[0])).collect();
        assert_eq!(shape, [(1200, 0), (1200, 1), (600, 2), (5, b'a')]);
        for (path, _) in received {
            let local = Some(to.ip());
            assert_eq!(path, DatagramPath { remote: from, local, ecn: Some(EcnCodepoint::Ect0) });
        }
    }

    #[tokio::test]
    async fn an_unreachable_destination_does_not_block_the_socket() {
        let (sender, _) = socket().await;
        let (gone, to) = socket().await;
        drop(gone);
        for _ in 0..3 {
            assert_ne!(sender.send(&transmit(to, 1, None), b"x"), SendResult::Blocked);
        }
        let (receiver, to) = socket().await;
        while sender.send(&transmit(to, 1, None), b"y") != SendResult::Taken {}
        assert_eq!(receive(&receiver, 1).await[0].1, b"y"[..]);
    }
}
