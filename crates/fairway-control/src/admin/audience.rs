//! Whom an admin server answers. Knows no page.

/// Which pages there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Whoever may look at the process itself: all of them.
    Operators,
    /// Probes and scrapes from outside: what names no host and no object that was not asked for.
    Probes,
}
