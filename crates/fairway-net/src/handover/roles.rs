//! The two sides of a hand-over.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::channel::Channel;
use super::endpoint::{Listening, Rendezvous, busy};
use super::message::{MAX_DESCRIPTORS, Message};

/// How long the other side may think about its next message.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Sockets that are handed over at most.
const MAX_SOCKETS: usize = 16_384;

/// The process whose place this one takes.
#[derive(Debug)]
pub struct Predecessor {
    channel: Channel,
}

impl Predecessor {
    /// Asks the process that listens at `rendezvous` for its sockets; `None` where none does.
    ///
    /// # Errors
    /// There is one that gives none, does not answer, or is of another version or user.
    pub fn ask(rendezvous: &Rendezvous) -> io::Result<Option<(Self, Vec<OwnedFd>)>> {
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

    /// Says that this process serves from now on. From here the sockets are its own, also where the other one has ended meanwhile, which
    /// is the error.
    ///
    /// # Errors
    /// It has ended.
    pub fn replace(self) -> io::Result<()> {
        self.channel.send(&Message::Ready, &[])
    }
}

/// A process that wants the place of this one.
#[derive(Debug)]
pub struct Successor {
    channel: Channel,
}

impl Listening {
    /// Waits for a process that asks for the sockets of this one.
    ///
    /// # Errors
    /// The process that connected is none.
    pub fn successor(&self) -> io::Result<Successor> {
        let channel = self.accept()?;
        match channel.receive(Some(REPLY_TIMEOUT)) {
            Ok((Message::Hello, _)) => Ok(Successor { channel }),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "an unexpected message")),
            Err(error) => {
                // Says at least which version this one speaks.
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

    /// Gives it nothing, for this reason.
    pub fn refuse(self, reason: &str) {
        // Who has gone needs no reason.
        _ = self.channel.send(&Message::Refused(reason.to_owned()), &[]);
    }

    /// Gives it the sockets, which stay this process's as well.
    ///
    /// # Errors
    /// It has gone or does not read.
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
    /// It ended before, or said something else.
    pub fn wait_until_ready(self) -> io::Result<()> {
        match self.channel.receive(None)? {
            (Message::Ready, _) => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "an unexpected message")),
        }
    }
}
