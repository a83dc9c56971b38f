//! System errors caused by this process or its machine, not by the peer.

use std::io;

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
/// From `epoll_ctl`: the user has reached the limit of watches.
const ENOSPC: i32 = 28;
const EADDRNOTAVAIL: i32 = 99;
const ENOBUFS: i32 = 105;

/// The exhausted resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Descriptors, or kernel memory for another socket. Closing any socket helps.
    Sockets,
    /// Local ports for another connection to the same address.
    Ports,
}

impl Shortage {
    /// Classifies `error`.
    pub fn from_error(error: &io::Error) -> Option<Self> {
        match error.raw_os_error()? {
            ENOMEM | ENFILE | EMFILE | ENOSPC | ENOBUFS => Some(Self::Sockets),
            EADDRNOTAVAIL => Some(Self::Ports),
            _ => None,
        }
    }

    /// The system's error for a lack of descriptors.
    pub fn no_descriptor() -> io::Error {
        io::Error::from_raw_os_error(EMFILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_an_endpoint_can_cause_are_no_shortage() {
        for (error, shortage) in [
            (24, Some(Shortage::Sockets)),
            (99, Some(Shortage::Ports)),
            // ECONNRESET, ETIMEDOUT, ECONNREFUSED, EHOSTUNREACH, ENETUNREACH.
            (104, None),
            (110, None),
            (111, None),
            (113, None),
            (101, None),
        ] {
            assert_eq!(Shortage::from_error(&io::Error::from_raw_os_error(error)), shortage, "{error}");
        }
        assert_eq!(Shortage::from_error(&io::ErrorKind::ConnectionRefused.into()), None);
    }
}
