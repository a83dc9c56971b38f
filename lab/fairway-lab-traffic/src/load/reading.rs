//! What the readers of HTTP/1 say of the bytes that they were given.

/// What is wrong with bytes that are no HTTP/1.
pub(crate) type Malformed = &'static str;

/// How far a message is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More bytes are needed.
    More,
    /// It is complete; this many of the bytes belonged to it.
    Done(usize),
}
