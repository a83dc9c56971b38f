//! Places of a group whose backend limits what all workers have under way. A group without limits has no breaker, and everybody a place.

use std::rc::Rc;

use fairway_net::clock::Instant;

use super::{Group, Tried};
use crate::sides::Hop;
use crate::upstream::circuit::{Breaker, ConnectionPlace, Full, Pending, RequestPlace};
use crate::upstream::endpoint::Chosen;

impl<H: Hop> Group<H> {
    /// A place for a request; none where the backend has no limits.
    ///
    /// # Errors
    /// There are as many requests as there may be, or as await a response.
    #[inline]
    pub fn begin_request(&self) -> Result<Option<RequestPlace>, Full> {
        self.breaker.as_ref().map(|breaker| breaker.begin_request(true)).transpose()
    }

    /// The same for a connection that is forwarded, which counts as a request without a response.
    ///
    /// # Errors
    /// There are as many requests as there may be.
    pub fn begin_forwarding(&self) -> Result<Option<RequestPlace>, Full> {
        self.breaker.as_ref().map(|breaker| breaker.begin_request(false)).transpose()
    }

    /// A place for a connection that is to be made, for which an unused connection of this worker gives way; none where connections are not limited.
    ///
    /// # Errors
    /// There are as many connections as there may be.
    pub fn begin_connection(&self) -> Result<Option<Rc<ConnectionPlace>>, Full> {
        let Some(breaker) = &self.breaker else { return Ok(None) };
        match breaker.begin_connection() {
            Err(_) if self.close_unused(breaker) => breaker.begin_connection(),
            place => place,
        }
    }

    /// Waits for what is full.
    ///
    /// # Errors
    /// The backend lets nobody wait, or no more.
    pub fn wait(&self, full: Full) -> Result<Pending, Full> {
        self.breaker.as_ref().ok_or(full)?.wait(full)
    }

    /// A member that was not tried and may be used, and has an idle connection: where connections are full, that is better than closing it for one
    /// to the member whose turn it is.
    pub fn with_idle(&self, tried: &Tried, now: Instant) -> Option<Chosen<H>> {
        let has_idle = |index: &usize| {
            !tried.contains(*index)
                && self.members[*index].idle() > 0
                && self.takes_more(*index)
                && self.is_usable(*index, now)
        };
        self.chosen((0..self.members.len()).find(has_idle)?, now)
    }

    /// Closes unused connections for requests of other workers. Says whether the backend has limits.
    pub(super) fn give_way(&self) -> bool {
        let Some(breaker) = &self.breaker else { return false };
        while breaker.is_wanted_elsewhere() && self.close_unused(breaker) {}
        true
    }

    fn close_unused(&self, breaker: &Breaker) -> bool {
        self.members.iter().any(|member| member.close_unused(breaker))
    }
}
