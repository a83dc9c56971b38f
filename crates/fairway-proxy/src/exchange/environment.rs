//! What every step of an exchange knows and works on.

use std::rc::Rc;

use fairway_routing::CompiledRule;
use fairway_runtime::clock::Deadline;

use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::network::Network;
use crate::peer::Peer;
use crate::record::Record;
use crate::request::body::BodyBounds;
use crate::request::client::Client;
use crate::request::intake::Intake;
use crate::worker::{Adopted, ToEndpoint, Worker};

/// The client's side of one exchange: its connection, or a part of one that other exchanges share.
pub(crate) struct ClientSide<D> {
    pub(crate) down: D,
    pub(crate) deadline: Deadline,
    pub(crate) peer: Peer,
    /// Requests of the connection before this one.
    pub(crate) served: u64,
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It waits for the next request.
    Again,
    /// It is closed so that the answer is received.
    Linger,
    /// It is closed at once; the client sees a failure.
    Abort,
    /// Both sides are done with it.
    Finished,
}

/// What every step of an exchange knows.
pub(crate) struct Environment<'a, N: Network> {
    pub(crate) worker: &'a Rc<Worker<N>>,
    pub(crate) adopted: &'a Rc<Adopted<ToEndpoint<N>>>,
    pub(crate) rule: &'a CompiledRule,
    pub(crate) intake: Intake,
    pub(crate) client: Client,
    /// Bytes of the path that the matched prefix covers.
    pub(crate) prefix: usize,
    /// The public port of the listener to which requests in the clear are redirected.
    pub(crate) https_port: u16,
}

/// An exchange that has a rule.
pub(crate) struct Exchange<'t, 'a, N: Network, D> {
    pub(crate) env: Environment<'a, N>,
    pub(crate) client_side: &'t mut ClientSide<D>,
    pub(crate) buffers: &'t mut Buffers,
    pub(crate) record: &'t mut Record<'a>,
}

/// A request that has none.
pub(crate) enum Unroutable {
    /// It breaks a rule, or there is no room for it: the connection ends with it.
    Broken(Fault),
    /// Nobody serves it.
    NoRoute(Intake),
}

impl<N: Network> Environment<'_, N> {
    pub(super) fn body_bounds(&self) -> BodyBounds {
        let limits = &self.worker.options.limits;
        let most = self.rule.rule().policy.max_body;
        BodyBounds { most, replay: limits.replay_bytes, rate: limits.body_rate }
    }
}
