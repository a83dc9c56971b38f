//! What waits for what in a thread of the generator. Values only.

use std::collections::VecDeque;

/// What waits for what.
#[derive(Default)]
pub(super) struct Queues {
    /// Requests that wait for a connection, by the time that they were due.
    pub(super) line: VecDeque<u64>,
    /// Connections that can take a request: place and epoch.
    pub(super) idle: VecDeque<(usize, u32)>,
    /// Places without a connection.
    pub(super) closed: Vec<usize>,
    /// Connections of HTTP/2 that were given requests and have not been polled since.
    pub(super) unpolled: Vec<usize>,
    /// When users of a closed loop that rest are back.
    pub(super) rests: VecDeque<u64>,
    /// What must have happened by when: time, place, number.
    pub(super) deadlines: VecDeque<(u64, usize, u64)>,
    pub(super) opening: usize,
    pub(super) in_flight: usize,
    pub(super) number: u64,
}
