//! What goes wrong with a request, by class and never as one number. Owns the names that the report prints.

use std::fmt;
use std::io::{self, ErrorKind};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Failure {
    ConnectRefused,
    Connect,
    Tls,
    Reset,
    EofBeforeHead,
    BadHead,
    TruncatedBody,
    WrongLength,
    Surplus,
    NoRoomToSend,
    TimedOut,
    Status(u16),
}

impl Failure {
    pub(crate) fn of_connect(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::ConnectRefused,
            _ => Self::Connect,
        }
    }

    pub(crate) fn of_write(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock => Self::NoRoomToSend,
            _ => Self::Reset,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::ConnectRefused => "connection refused",
            Self::Connect => "connect failed",
            Self::Tls => "TLS failure",
            Self::Reset => "connection reset",
            Self::EofBeforeHead => "EOF before the head",
            Self::BadHead => "unreadable head",
            Self::TruncatedBody => "truncated body",
            Self::WrongLength => "wrong length",
            Self::Surplus => "bytes after the answer",
            Self::NoRoomToSend => "no room to send",
            Self::TimedOut => "timed out",
            Self::Status(code) => return write!(out, "status {code}"),
        };
        out.write_str(name)
    }
}
