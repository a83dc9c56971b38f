//! The audience of an admin server.

/// Which pages are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Operators of the process: all pages.
    Operators,
    /// Probes and scrapes from outside: only pages that name no host, and no object that was not asked for.
    Probes,
}
