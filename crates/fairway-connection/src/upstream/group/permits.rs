//! Permits for requests and connections of a group. A permit counts against the limits of the backend, which all
//! workers share. A group without limits has no breaker: its requests and connections need no permit.

use std::rc::Rc;

use fairway_net::clock::Instant;

use super::{Group, TriedMembers};
use crate::sides::Hop;
use crate::upstream::circuit::{Breaker, ConnectionPermit, LimitReached, PendingRequest, RequestPermit};
use crate::upstream::endpoint::PickedEndpoint;

impl<H: Hop> Group<H> {
    /// Acquires a permit for a request; `None` if the backend has no limits.
    ///
    /// # Errors
    /// The backend has reached its limit of requests, or of requests awaiting a response.
    #[inline]
    pub fn begin_request(&self) -> Result<Option<RequestPermit>, LimitReached> {
        self.breaker.as_ref().map(|breaker| breaker.begin_request(true)).transpose()
    }

    /// Acquires a permit for a forwarded connection, which counts as a request that awaits no response; `None` if the
    /// backend has no limits.
    ///
    /// # Errors
    /// The backend has reached its limit of requests.
    pub fn begin_forwarding(&self) -> Result<Option<RequestPermit>, LimitReached> {
        self.breaker.as_ref().map(|breaker| breaker.begin_request(false)).transpose()
    }

    /// Acquires a permit for a new connection; `None` if the backend does not limit connections. If the limit is
    /// reached, this worker closes one of its unused connections, which frees a permit, and tries again.
    ///
    /// # Errors
    /// The backend has reached its limit of connections, and this worker has no unused one.
    pub fn begin_connection(&self) -> Result<Option<Rc<ConnectionPermit>>, LimitReached> {
        let Some(breaker) = &self.breaker else { return Ok(None) };
        match breaker.begin_connection() {
            Err(_) if self.close_unused(breaker) => breaker.begin_connection(),
            permit_or_error => permit_or_error,
        }
    }

    /// Queues a request until the backend is below the limit that the request has reached.
    ///
    /// # Errors
    /// The backend has reached its limit of pending requests, which may be zero.
    pub fn wait(&self, limit: LimitReached) -> Result<PendingRequest, LimitReached> {
        self.breaker.as_ref().ok_or(limit)?.wait(limit)
    }

    /// Picks an untried, usable member that has an idle connection. When the limit of connections is reached, reusing
    /// that connection is cheaper than closing it to connect to the member whose turn it is.
    pub fn pick_with_idle_connection(&self, tried: &TriedMembers, now: Instant) -> Option<PickedEndpoint<H>> {
        let has_idle = |index: &usize| {
            !tried.contains(*index)
                && self.members[*index].idle() > 0
                && self.takes_more(*index)
                && self.is_usable(*index, now)
        };
        self.pick_member((0..self.members.len()).find(has_idle)?, now)
    }

    /// Closes unused connections until requests of other workers no longer wait for one. Returns whether the backend
    /// has limits: groups without limits need no further calls.
    pub(super) fn yield_idle_connections(&self) -> bool {
        let Some(breaker) = &self.breaker else { return false };
        while breaker.is_awaited_by_other_worker() && self.close_unused(breaker) {}
        true
    }

    /// Closes one unused connection of any member. Returns whether there was one.
    fn close_unused(&self, breaker: &Breaker) -> bool {
        self.members.iter().any(|member| member.close_unused(breaker))
    }
}
