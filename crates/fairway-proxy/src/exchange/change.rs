//! Decides whether a change of the configuration is to blame for a failed request: whether the snapshot before it would have
//! treated the request differently, in the one respect that the fault depends on. A changed header is not to blame for a client
//! that is denied as before.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_connection::sides::Hop;
use fairway_model::{Action, Backend, Policy, Rule};
use fairway_routing::{BackendSlot, CompiledHost, CompiledRule};

use super::lookup::{is_misdirected, lookup};
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::listener::ListenerId;
use crate::peer::Peer;
use crate::request::validation::Intake;
use crate::worker::Adopted;

/// What a fault depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decider {
    /// No configuration: the client, or the resources of the process.
    None,
    /// The rule of the snapshot that served the request.
    Rule,
    /// An endpoint, which a change may have added or removed, also one that was adopted during the request.
    Endpoint,
}

impl Decider {
    /// What a fault of a request with a rule depends on.
    pub(super) fn from_fault(fault: Fault) -> Self {
        match fault {
            Fault::Malformed(_)
            | Fault::ClientGone
            | Fault::ClientTimeout
            | Fault::ClientStalled
            | Fault::MethodNotAllowed
            | Fault::NoListener
            | Fault::Misdirected
            | Fault::BufferFull
            | Fault::ListenerFull
            | Fault::Overloaded
            | Fault::LocalShortage
            | Fault::Drained => Self::None,
            Fault::BodyTooLarge
            | Fault::Unsupported
            | Fault::NoRoute
            | Fault::NoBackend
            | Fault::NoEndpoint
            | Fault::EndpointsFull
            | Fault::BackendFull(_)
            | Fault::ProtectionUnavailable
            | Fault::ExtensionUnavailable
            | Fault::MissingReference
            | Fault::AccessDenied
            | Fault::AddressUnknown
            | Fault::CertificateMissing
            | Fault::CertificateRefused
            | Fault::TooManyRequests(_)
            | Fault::TooMuchUnderWay(_)
            | Fault::Denied(_)
            | Fault::Undecided
            | Fault::ExtensionFailed
            | Fault::Credential(_)
            | Fault::KeysUnavailable
            | Fault::ProviderUnavailable
            | Fault::DeadlineExceeded
            | Fault::RequestTimeout => Self::Rule,
            Fault::ConnectFailed
            | Fault::ConnectTimeout
            | Fault::UpstreamTls
            | Fault::UpstreamClosed
            | Fault::UpstreamUnreachable
            | Fault::UpstreamTruncated
            | Fault::UpstreamTimeout
            | Fault::UpstreamMalformed(_)
            | Fault::UpstreamNoWebsocket => Self::Endpoint,
        }
    }
}

/// What serves a request in one snapshot.
pub(super) struct Serving<'s, H> {
    adopted: &'s Adopted<H>,
    listener: ListenerId,
    host: &'s CompiledHost,
    pub(super) rule: &'s CompiledRule,
}

impl<'s, H: Hop> Serving<'s, H> {
    /// `None` if no rule matches.
    pub(super) fn find(
        adopted: &'s Adopted<H>,
        peer: &Peer,
        intake: &Intake,
        buffers: &Buffers,
    ) -> Option<Self> {
        let table = adopted.listener(peer.listener)?.table;
        let (host, rule, _) = lookup(adopted, table, intake, buffers)?;
        Some(Self { adopted, listener: peer.listener, host, rule })
    }

    fn model(&self) -> &'s Rule {
        self.rule.rule()
    }

    fn policy(&self) -> &'s Policy {
        &self.rule.rule().policy
    }

    /// Whether it responds to all requests with an error.
    fn refuses(&self) -> bool {
        matches!(&self.model().action, Action::FixedResponse(response) if response.status >= 400)
    }

    /// The backends of the rule.
    fn slots(&self) -> impl Iterator<Item = BackendSlot> + use<'s, H> {
        let rule = self.rule;
        let falling = rule.steps().forwarding.fallbacks.iter().map(|falling| &falling.rule);
        let rules = std::iter::once(rule).chain(rule.targets().rules()).chain(falling);
        rules.flat_map(|rule| rule.targets().slots()).chain(rule.secured())
    }

    fn backend(&self, slot: BackendSlot) -> Option<&'s Arc<Backend>> {
        self.adopted.snapshot().backend(slot)
    }

    /// The backend that has this endpoint.
    fn backend_of(&self, endpoint: SocketAddr) -> Option<&'s Arc<Backend>> {
        let mut backends = self.slots().filter_map(|slot| self.backend(slot));
        backends.find(|backend| backend.endpoints.iter().any(|it| it.address == endpoint))
    }

    fn has_endpoint(&self) -> bool {
        let mut backends = self.slots().filter_map(|slot| self.backend(slot));
        backends.any(|backend| !backend.endpoints.is_empty())
    }
}

/// Whether this snapshot would have served a request that no rule serves now, or none on its connection.
pub(super) fn would_serve<H: Hop>(
    adopted: &Adopted<H>,
    peer: &Peer,
    intake: &Intake,
    buffers: &Buffers,
) -> bool {
    let listener = adopted.listener(peer.listener);
    let is_sent_away = adopted.is_unverified(peer, listener)
        || adopted.evades_verification(peer, listener, &buffers.host)
        || is_misdirected(adopted, peer, &buffers.host);
    !is_sent_away && Serving::find(adopted, peer, intake, buffers).is_some_and(|it| !it.refuses())
}

/// Whether the change from one snapshot to the next is to blame for a fault that the request met at these endpoints.
pub(super) fn is_to_blame<H: Hop>(
    fault: Fault,
    endpoints: &[SocketAddr],
    before: &Serving<'_, H>,
    now: &Serving<'_, H>,
) -> bool {
    // The route already refused requests before the change.
    if before.refuses() {
        return false;
    }
    match fault {
        Fault::AccessDenied
        | Fault::AddressUnknown
        | Fault::CertificateMissing
        | Fault::CertificateRefused
        | Fault::TooManyRequests(_)
        | Fault::TooMuchUnderWay(_)
        | Fault::Denied(_)
        | Fault::Undecided
        | Fault::ExtensionFailed
        | Fault::Credential(_)
        | Fault::KeysUnavailable
        | Fault::ProviderUnavailable => !has_same_guards(before, now),
        Fault::NoRoute
        | Fault::NoBackend
        | Fault::ProtectionUnavailable
        | Fault::ExtensionUnavailable
        | Fault::MissingReference => !has_same_action(before, now) || !has_same_guards(before, now),
        Fault::NoEndpoint => {
            before.has_endpoint() && (!has_same_action(before, now) || loses_a_backend(before, now))
        }
        Fault::EndpointsFull | Fault::BackendFull(_) => {
            !has_same_action(before, now) || !has_same_traffic(before, now)
        }
        Fault::BodyTooLarge => !allows_same_bodies(before, now),
        Fault::Unsupported => before.policy().websocket != now.policy().websocket,
        Fault::DeadlineExceeded | Fault::RequestTimeout => before.policy().timeouts != now.policy().timeouts,
        Fault::UpstreamTimeout | Fault::ConnectTimeout => {
            before.policy().timeouts != now.policy().timeouts || routes_differently(endpoints, before, now)
        }
        _ => routes_differently(endpoints, before, now),
    }
}

fn has_same_guards<H: Hop>(before: &Serving<'_, H>, now: &Serving<'_, H>) -> bool {
    let (old, new) = (&before.model().phases, &now.model().phases);
    let same = Arc::ptr_eq(old, new) || (old.client == new.client && old.guards == new.guards);
    same && before.host.model().clients == now.host.model().clients
}

fn has_same_action<H: Hop>(before: &Serving<'_, H>, now: &Serving<'_, H>) -> bool {
    let (old, new) = (before.model(), now.model());
    std::ptr::eq(before.rule, now.rule)
        || (old.action == new.action && old.phases.forwarding == new.phases.forwarding)
}

/// Whether a backend of the rule was removed. Endpoints that left a remaining backend left by themselves.
fn loses_a_backend<H: Hop>(before: &Serving<'_, H>, now: &Serving<'_, H>) -> bool {
    now.slots().any(|slot| now.backend(slot).is_none() && before.backend(slot).is_some())
}

fn has_same_traffic<H: Hop>(before: &Serving<'_, H>, now: &Serving<'_, H>) -> bool {
    now.slots().all(|slot| {
        let [before, now] = [before, now].map(|serving| serving.backend(slot));
        before.map(|backend| backend.traffic()) == now.map(|backend| backend.traffic())
    })
}

fn allows_same_bodies<H: Hop>(before: &Serving<'_, H>, now: &Serving<'_, H>) -> bool {
    let of_listener = |serving: &Serving<'_, H>| serving.adopted.client_limits(serving.listener).max_body;
    before.policy().max_body == now.policy().max_body
        && of_listener(before) == of_listener(now)
        && has_same_action(before, now)
}

/// Whether one of the endpoints was added or removed, or its protocol or TLS settings changed.
fn routes_differently<H: Hop>(
    endpoints: &[SocketAddr],
    before: &Serving<'_, H>,
    now: &Serving<'_, H>,
) -> bool {
    let has_come_or_gone =
        |endpoint: &SocketAddr| match (before.backend_of(*endpoint), now.backend_of(*endpoint)) {
            (Some(old), Some(new)) => {
                !Arc::ptr_eq(old, new) && (old.protocol != new.protocol || old.tls != new.tls)
            }
            (old, new) => old.is_some() != new.is_some(),
        };
    !shares_backends(before, now) && endpoints.iter().any(has_come_or_gone)
}

/// Whether the backends are unchanged, as after most changes: then no endpoints need to be compared.
fn shares_backends<H: Hop>(before: &Serving<'_, H>, now: &Serving<'_, H>) -> bool {
    let is_shared = |slot| match (before.backend(slot), now.backend(slot)) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (old, new) => old.is_none() && new.is_none(),
    };
    std::ptr::eq(before.rule, now.rule) && now.slots().all(is_shared)
}
