//! A connection between the two processes: messages with file descriptors (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use socket2::Socket;

use super::message::{MAX_BYTES, MAX_DESCRIPTORS, MalformedMessage, Message};
use crate::sys::{PeerProcess, peer_process};

/// How long the other side may take to read.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the other process, which runs as the same user.
#[derive(Debug)]
pub(super) struct Channel {
    /// Of type `SOCK_SEQPACKET`: each message arrives complete or not at all.
    socket: Socket,
    peer: i32,
}

impl Channel {
    /// Over a connected socket.
    ///
    /// # Errors
    /// The peer runs as another user.
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        let PeerProcess { id, user } = peer_process(&socket)?;
        let own_uid = rustix::process::geteuid().as_raw();
        if user != own_uid {
            let problem =
                format!("the process at the other end runs as user {user}, and this one as user {own_uid}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        socket.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Self { socket, peer: id })
    }

    /// The process id of the peer.
    pub(super) fn peer(&self) -> i32 {
        self.peer
    }

    /// Sends a message, with at most [`MAX_DESCRIPTORS`] descriptors.
    pub(super) fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = message.bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        // The space is rounded up, and could hold one more than the receiver expects.
        let fits = descriptors.len() <= MAX_DESCRIPTORS;
        let mut takes_all = || fits && control.push(SendAncillaryMessage::ScmRights(descriptors));
        if !descriptors.is_empty() && !takes_all() {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        let parts = [IoSlice::new(&bytes)];
        retry_on_intr(|| sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL))?;
        Ok(())
    }

    /// Receives a message that arrives `within` this time, or at any time.
    ///
    /// # Errors
    /// It does not arrive in time, the other side is gone, or it is malformed.
    pub(super) fn receive(&self, within: Option<Duration>) -> io::Result<(Message, Vec<OwnedFd>)> {
        self.socket.set_read_timeout(within)?;
        // One byte more, to detect a message that is too long.
        let mut bytes = [0; MAX_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = retry_on_intr(|| {
            recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        let mut descriptors = Vec::new();
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
                descriptors.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            // Either there are more than any message has, or this process may open no more files.
            return Err(io::Error::other(
                "not all descriptors of a message could be received: raise the limit of open files",
            ));
        }
        let message = match Message::parse(&bytes[..received.bytes]) {
            _ if received.flags.contains(ReturnFlags::TRUNC) => Err(MalformedMessage::TooLong),
            parsed => parsed,
        };
        let message = message.map_err(|it| io::Error::new(io::ErrorKind::InvalidData, it.to_string()))?;
        let announced = if let Message::Sockets(count) = message { count } else { 0 };
        if announced != descriptors.len() {
            let found = descriptors.len();
            let problem = format!("a message announces {announced} descriptors and has {found}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok((message, descriptors))
    }
}
