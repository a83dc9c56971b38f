//! What steps are told, and what they say.

use std::sync::Arc;

use fairway_net::counts::Counts;
use fairway_routing::GuardStep;

use crate::fault::Fault;
use crate::guards::{FleetLimits, Logins, Tokens};
use crate::peer::{Proof, Scheme};
use crate::request::client::Client;
use crate::request::intake::Intake;

/// What steps know of the request besides its head.
pub(crate) struct FilterContext<'a> {
    pub(crate) intake: &'a Intake,
    pub(crate) client: &'a Client,
    /// Of the connection: whether TLS is between the client, or whoever speaks for it, and Fairway.
    pub(crate) scheme: Scheme,
    /// What the client showed in the handshake.
    pub(crate) proof: Option<&'a Proof>,
    /// What policies count.
    pub(crate) counts: &'a Arc<Counts>,
    /// The limits that replicas share.
    pub(crate) fleet: &'a FleetLimits,
    /// Which tokens were verified before; none for a question of Fairway's own, which waits for nobody and must not depend on it.
    pub(crate) tokens: Option<&'a Tokens>,
    /// Which sessions were opened before; none as for tokens.
    pub(crate) logins: Option<&'a Logins>,
    /// The public port of the listener `https`.
    pub(crate) https_port: u16,
}

/// Whether the request goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict<'r> {
    /// To the next guard, or to its backend.
    Pass,
    /// The answer stands in the buffers.
    Answered(Made),
    /// It is refused.
    Refused(Fault),
    /// It is refused for the whole host, before its rules or in their place.
    RefusedByHost(Fault),
    /// This guard waits for somebody's word; when it lets the request pass, that goes on with the guard of this number.
    Wait(&'r GuardStep, u32),
    /// It came in early data, and nothing is decided before the handshake of its connection is complete.
    TooEarly,
}

/// Where an answer is made, as in ingress-nginx, which decides what is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// Under the rule of the request, or by its endpoint.
    ByRule,
    /// In the place from which clients are sent to sign in.
    AtSignIn,
    /// For the whole host, before its rules or in their place.
    ByHost,
}
