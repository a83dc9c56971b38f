//! A slot for a connection: closed, opening or open. It does not decide when to open.

use std::io;
use std::os::fd::AsFd;

use fairway_lab_measure::results::Class;

use super::http1::Http1;
use super::http2::Http2;
use super::http3::Http3;
use super::plan::Protocol;
use super::poller::{Interest, Poller};
use super::transport::Transport;

/// A slot for a connection.
pub(super) struct Slot {
    /// Incremented for each connection, so that a late event of the previous one is recognised.
    pub(super) epoch: u32,
    pub(super) state: State,
    interest: Interest,
    /// Whether the slot's latest connection carried a request.
    pub(super) was_used: bool,
    /// Whether a connection with streams is queued as able to take a request.
    pub(super) is_offered: bool,
    /// Whether it is queued for polling because it was given a request.
    pub(super) is_unpolled: bool,
}

/// The state of a slot.
pub(super) enum State {
    Closed,
    Opening(Opening),
    Http1(Http1),
    Http2(Box<Http2>),
    /// Open or opening.
    Http3(Box<Http3>),
}

/// A connection being opened.
pub(super) struct Opening {
    pub(super) transport: Transport,
    /// The key of its deadline.
    pub(super) number: u64,
    is_connected: bool,
    /// Data received together with the end of the TLS handshake, e.g. HTTP/2 settings.
    pub(super) sent_bytes: Vec<u8>,
}

/// The result of a step.
pub(super) enum Step {
    Wait,
    Ready,
    Failed(Class, String),
}

impl Slot {
    pub(super) fn empty() -> Self {
        Self {
            epoch: 0,
            state: State::Closed,
            interest: Interest::Read,
            was_used: false,
            is_offered: false,
            is_unpolled: false,
        }
    }

    /// The token of its events.
    pub(super) fn token(&self, index: usize) -> u64 {
        u64::from(self.epoch) << 32 | index as u64
    }

    /// Starts opening a connection in this slot.
    pub(super) fn start(&mut self, opening: Opening, index: usize, poller: &Poller) -> io::Result<()> {
        self.renew(Interest::ReadAndWrite);
        poller.add(&opening.transport, self.token(index), self.interest)?;
        self.state = State::Opening(opening);
        Ok(())
    }

    /// As [`Slot::start`], for HTTP/3.
    pub(super) fn begin_http3(&mut self, http3: Box<Http3>, index: usize, poller: &Poller) -> io::Result<()> {
        self.renew(Interest::Read);
        poller.add(&http3.quic, self.token(index), self.interest)?;
        self.state = State::Http3(http3);
        Ok(())
    }

    fn renew(&mut self, interest: Interest) {
        self.epoch = self.epoch.wrapping_add(1);
        self.interest = interest;
        (self.was_used, self.is_offered, self.is_unpolled) = (false, false, false);
    }

    /// Whether the connection can take another request, with at most `limit` in flight; `None` for connections without
    /// streams.
    pub(super) fn has_room(&self, limit: usize) -> Option<bool> {
        match &self.state {
            State::Http2(http2) => Some(http2.has_room(limit)),
            State::Http3(http3) => Some(http3.has_room(limit)),
            State::Closed | State::Opening(_) | State::Http1(_) => None,
        }
    }

    /// Waits for writability only while output is pending; otherwise epoll would report it constantly.
    pub(super) fn settle_interest(&mut self, index: usize, poller: &Poller) -> io::Result<()> {
        let token = self.token(index);
        let wants = |transport: &Transport| {
            if transport.wants_write() { Interest::ReadAndWrite } else { Interest::Read }
        };
        match &self.state {
            State::Closed => Ok(()),
            State::Opening(opening) if !opening.is_connected => Ok(()),
            State::Opening(Opening { transport, .. }) | State::Http1(Http1 { transport, .. }) => {
                let interest = wants(transport);
                change(poller, transport, token, &mut self.interest, interest)
            }
            State::Http2(http2) => {
                let pipe = http2.pipe.borrow();
                let interest = wants(&pipe.transport);
                change(poller, &pipe.transport, token, &mut self.interest, interest)
            }
            State::Http3(http3) => {
                let interest = if http3.quic.wants_write() { Interest::ReadAndWrite } else { Interest::Read };
                change(poller, &http3.quic, token, &mut self.interest, interest)
            }
        }
    }

    /// Empties the slot; closes the connection gracefully if `orderly`, immediately otherwise.
    pub(super) fn clear(&mut self, orderly: bool) {
        self.epoch = self.epoch.wrapping_add(1);
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Http1(http1) if orderly => http1.transport.close(),
            // Unlike TCP, the kernel does not notify the peer.
            State::Http3(http3) => http3.close(),
            _ => {}
        }
    }
}

fn change(
    poller: &Poller,
    transport: impl AsFd,
    token: u64,
    interest: &mut Interest,
    wanted: Interest,
) -> io::Result<()> {
    if *interest != wanted {
        *interest = wanted;
        poller.change(transport, token, wanted)?;
    }
    Ok(())
}

impl Opening {
    pub(super) fn new(transport: Transport, number: u64) -> Self {
        Self { transport, number, is_connected: false, sent_bytes: Vec::new() }
    }

    /// Continues after an event of the socket.
    pub(super) fn step(&mut self, scratch: &mut super::transport::Scratch) -> Step {
        if !self.is_connected {
            if let Err(error) = self.transport.connected() {
                return Step::Failed(connect_class(&error), error.to_string());
            }
            self.is_connected = true;
        }
        if !self.transport.is_handshaking() {
            return Step::Ready;
        }
        match self.shake_hands(scratch) {
            Ok(true) => Step::Ready,
            Ok(false) => Step::Wait,
            Err(error) => Step::Failed(Class::Tls, handshake_failure(&error)),
        }
    }

    /// Why a ready connection cannot carry this protocol, if so.
    pub(super) fn refusal(&self, protocol: Protocol) -> Option<(Class, String)> {
        match protocol {
            Protocol::Http2 if self.transport.settled().is_some_and(|(_, tls)| tls.protocol != "h2") => {
                Some((Class::Tls, "the server does not speak h2 (ALPN)".to_owned()))
            }
            Protocol::Http1 if !self.sent_bytes.is_empty() => {
                Some((Class::Malformed, "the server spoke before it was asked anything".to_owned()))
            }
            _ => None,
        }
    }

    /// The class and text of a timeout while opening.
    pub(super) fn give_up(&self) -> (Class, String) {
        if self.is_connected {
            (Class::TlsTimeout, "the TLS handshake did not end in time".to_owned())
        } else {
            (Class::ConnectTimeout, "the connection was not made in time".to_owned())
        }
    }

    fn shake_hands(&mut self, scratch: &mut super::transport::Scratch) -> io::Result<bool> {
        use super::transport::Received;
        self.transport.flush()?;
        let received = self.transport.receive(scratch)?;
        self.sent_bytes.extend_from_slice(scratch.bytes());
        match received {
            Received::End => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the end of the stream within the TLS handshake",
            )),
            Received::Nothing | Received::Bytes => Ok(!self.transport.is_handshaking()),
        }
    }
}

fn handshake_failure(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)) => {
            "the server speaks none of the protocols that it was offered (ALPN)".to_owned()
        }
        _ => error.to_string(),
    }
}

/// The error class of a failure to connect.
pub(super) fn connect_class(error: &io::Error) -> Class {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Class::ConnectRefused,
        io::ErrorKind::ConnectionReset => Class::ConnectReset,
        io::ErrorKind::TimedOut => Class::ConnectTimeout,
        _ => Class::ConnectOther,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};
    use socket2::Type;

    use super::super::transport::Scratch;
    use super::*;

    #[test]
    fn a_reset_before_the_first_read_counts_as_reset_while_connecting() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let transport = Transport::open(listener.local_addr().unwrap(), Type::STREAM, None).unwrap();
        let (stream, _) = listener.accept().unwrap();
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        drop(stream);
        let mut descriptors = [PollFd::new(&transport, PollFlags::empty())];
        poll(&mut descriptors, None).unwrap();
        assert!(descriptors[0].revents().contains(PollFlags::ERR));
        match Opening::new(transport, 1).step(&mut Scratch::new()) {
            Step::Failed(class, text) => {
                assert_eq!(class, Class::ConnectReset);
                assert!(text.contains("reset"), "{text}");
            }
            Step::Wait | Step::Ready => panic!("a reset was not seen"),
        }
    }
}
