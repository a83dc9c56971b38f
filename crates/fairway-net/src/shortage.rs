//! Errors of the system that say something about this process or its machine and nothing about the peer.

use std::io;

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
/// Of `epoll_ctl`: the user has as many watches as it may have.
const ENOSPC: i32 = 28;
const EADDRNOTAVAIL: i32 = 99;
const ENOBUFS: i32 = 105;

/// What there is none of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Descriptors, or memory of the kernel for one more socket. Every socket that is closed helps.
    Sockets,
    /// Local ports for one more connection to the same address.
    Ports,
}

impl Shortage {
    /// What `error` says.
    pub fn of(error: &io::Error) -> Option<Self> {
        match error.raw_os_error()? {
            ENOMEM | ENFILE | EMFILE | ENOSPC | ENOBUFS => Some(Self::Sockets),
            EADDRNOTAVAIL => Some(Self::Ports),
            _ => None,
        }
    }

    /// As the system says it.
    pub fn no_descriptor() -> io::Error {
        io::Error::from_raw_os_error(EMFILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_endpoint_can_cause_is_no_shortage() {
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
            assert_eq!(Shortage::of(&io::Error::from_raw_os_error(error)), shortage, "{error}");
        }
        assert_eq!(Shortage::of(&io::ErrorKind::ConnectionRefused.into()), None);
    }
}
