//! The input of filter steps, and their verdicts.

use std::sync::Arc;

use fairway_net::counts::ClientCounts;
use fairway_routing::GuardStep;

use crate::fault::Fault;
use crate::guards::{FleetLimits, Logins, Tokens};
use crate::peer::{Proof, Scheme};
use crate::request::client::Client;
use crate::request::validation::Intake;

/// The input of steps in addition to the request head.
pub(crate) struct FilterContext<'a> {
    pub(crate) intake: &'a Intake,
    pub(crate) client: &'a Client,
    /// The scheme of the connection: whether the client, or the proxy in front of Fairway, uses TLS.
    pub(crate) scheme: Scheme,
    /// The client certificate of the handshake.
    pub(crate) proof: Option<&'a Proof>,
    /// Counters of rate and concurrency limits.
    pub(crate) counts: &'a Arc<ClientCounts>,
    /// The limits that replicas share.
    pub(crate) fleet: &'a FleetLimits,
    /// Remembered verified tokens; `None` for Fairway's own requests, which cannot wait and must not depend on what is
    /// remembered.
    pub(crate) tokens: Option<&'a Tokens>,
    /// Remembered opened sessions; `None` as for `tokens`.
    pub(crate) logins: Option<&'a Logins>,
    /// The public port of the listener `https`.
    pub(crate) https_port: u16,
}

/// Whether the request continues.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict<'r> {
    /// It continues with the next guard, or to its backend.
    Pass,
    /// The response is in the buffers.
    Responded(ResponseScope),
    /// It is refused.
    Refused(Fault),
    /// It is refused for the whole host, independently of its rules.
    RefusedByHost(Fault),
    /// This guard has to wait. If it lets the request pass, the guard with this number is next.
    Wait(&'r GuardStep, u32),
    /// It is in early data, and must wait for the handshake.
    TooEarly,
}

/// Where a response is made. As in ingress-nginx, this decides which response steps apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseScope {
    /// By the rule of the request, or by its endpoint.
    Rule,
    /// In the location that redirects clients to sign in.
    SignIn,
    /// For the whole host, independently of its rules.
    Host,
}
