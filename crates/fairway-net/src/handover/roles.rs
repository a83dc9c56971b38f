//! The two sides of a handover.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::channel::Channel;
use super::endpoint::{HandoverListener, HandoverSocket, busy};
use super::message::{MAX_DESCRIPTORS, Message};

/// How long the other side may take for its next message.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of sockets handed over.
const MAX_SOCKETS: usize = 16_384;

/// The process that this one replaces.
#[derive(Debug)]
pub struct Predecessor {
    channel: Channel,
}

impl Predecessor {
    /// Requests the sockets of the process that listens at `rendezvous`; `None` if none does.
    ///
    /// # Errors
    /// The process refuses, does not answer, or has another version or user.
    pub fn request_sockets(rendezvous: &HandoverSocket) -> io::Result<Option<(Self, Vec<OwnedFd>)>> {
        let Some(channel) = rendezvous.connect()? else { return Ok(None) };
        channel.send(&Message::Hello, &[])?;
        let mut sockets = Vec::new();
        loop {
            let received = channel.receive(Some(REPLY_TIMEOUT)).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => busy(),
                io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the running process hung up"),
                _ => error,
            });
            match received? {
                (Message::Sockets(_), more) if sockets.len() + more.len() <= MAX_SOCKETS => {
                    sockets.extend(more);
                }
                (Message::Complete, _) => return Ok(Some((Self { channel }, sockets))),
                (Message::Refused(reason), _) => {
                    return Err(io::Error::other(format!("the running process refuses: {reason}")));
                }
                (Message::Hello | Message::Ready | Message::Sockets(_), _) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "an unexpected message"));
                }
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.channel.peer()
    }

    /// Announces that this process serves from now on. The sockets then belong to it, even if the other process has
    /// ended in the meantime, which is the error.
    ///
    /// # Errors
    /// The other process has ended.
    pub fn replace(self) -> io::Result<()> {
        self.channel.send(&Message::Ready, &[])
    }
}

/// A process that wants to replace this one.
#[derive(Debug)]
pub struct Successor {
    channel: Channel,
}

impl HandoverListener {
    /// Waits for a process that asks for the sockets.
    ///
    /// # Errors
    /// The connected process does not ask for them.
    pub fn successor(&self) -> io::Result<Successor> {
        let channel = self.accept()?;
        match channel.receive(Some(REPLY_TIMEOUT)) {
            Ok((Message::Hello, _)) => Ok(Successor { channel }),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "an unexpected message")),
            Err(error) => {
                // Tells it at least which version this process speaks.
                _ = channel.send(&Message::Refused(error.to_string()), &[]);
                Err(error)
            }
        }
    }
}

impl Successor {
    /// Its process id.
    pub fn id(&self) -> i32 {
        self.channel.peer()
    }

    /// Refuses, with this reason.
    pub fn refuse(self, reason: &str) {
        // A process that is gone needs no reason.
        _ = self.channel.send(&Message::Refused(reason.to_owned()), &[]);
    }

    /// Sends it the sockets, which this process keeps as well.
    ///
    /// # Errors
    /// It is gone or does not read.
    pub fn give(&self, sockets: &[OwnedFd]) -> io::Result<()> {
        if sockets.len() > MAX_SOCKETS {
            let problem =
                format!("{} sockets are more than the {MAX_SOCKETS} that can be handed over", sockets.len());
            _ = self.channel.send(&Message::Refused(problem.clone()), &[]);
            return Err(io::Error::other(problem));
        }
        for some in sockets.chunks(MAX_DESCRIPTORS) {
            let borrowed: Vec<_> = some.iter().map(AsFd::as_fd).collect();
            self.channel.send(&Message::Sockets(some.len()), &borrowed)?;
        }
        self.channel.send(&Message::Complete, &[])
    }

    /// Waits until it serves.
    ///
    /// # Errors
    /// It ended before, or sent another message.
    pub fn wait_until_ready(self) -> io::Result<()> {
        match self.channel.receive(None)? {
            (Message::Ready, _) => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "an unexpected message")),
        }
    }
}
