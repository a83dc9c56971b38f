//! What the annotations of an Ingress contribute to the way of its requests, by phase. Owns the order of the phases;
//! never reads an annotation.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{
    AccessList, ChosenBy, CipherSuite, ClientCertificate, ClientDemand, ClientVerification, Deny, Filter,
    HostPattern, Match, Origin, Policy, Stickiness, Template,
};
use fairway_objects::backend::{BackendRef, Purpose, Via};
use fairway_objects::balance::Balance;
use fairway_objects::transport::Transport;
use ipnet::IpNet;

use crate::ingress::canary::Canary;
use crate::ingress::closed::Closed;
use crate::ingress::defaults::Defaults;
use crate::ingress::errors::Errors;
use crate::ingress::to_https::Redirects;

/// When a filter acts on a request, in the order of nginx: `if` and `return` of the rewrite phase, the redirect to https
/// at its end, the limits, the access phase, then what is forwarded, then the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Who the client is, and what is refused whatever else is asked for.
    Refuse,
    /// Answers to preflight requests, before anything else.
    Preflight,
    /// Redirects of all requests.
    Redirect,
    /// Redirects of plain requests to https.
    Https,
    /// How much each client may ask for.
    Limit,
    /// Who may pass.
    Access,
    /// The request as the endpoint gets it.
    Forward,
    /// The head of the answer.
    AnswerHead,
}

/// Filters in the order of their phases; of one phase in the order of their arrival. With them the backends that they name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filters {
    ordered: Vec<(Phase, Filter)>,
    backends: Vec<Named>,
}

/// A backend that a filter names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) backend: BackendRef,
    /// Where it is named.
    pub(crate) origin: Origin,
    pub(crate) purpose: Purpose,
}

/// What the annotations of an Ingress make of its requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contributions {
    /// Why all paths answer 503.
    pub(crate) closed: Option<Closed>,
    /// The filters of all paths.
    pub(crate) filters: Filters,
    /// When plain requests are sent to https: whether they are depends on the host and the path too.
    pub(crate) redirects: Redirects,
    /// What holds for its hosts as a whole.
    pub(crate) host: HostFeatures,
    /// Where `/` is redirected to.
    pub(crate) app_root: Option<Arc<str>>,
    /// What becomes of each path.
    pub(crate) rewrite: Rewrite,
    /// `use-regex`: whether its paths, and with them all paths of the host, are regular expressions.
    pub(crate) use_regex: bool,
    pub(crate) policy: Arc<Policy>,
    /// How its Services are reached.
    pub(crate) upstream: Upstream,
    pub(crate) errors: Errors,
    pub(crate) role: Role,
}

/// How the Services of an Ingress are reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Upstream {
    pub(crate) transport: Transport,
    pub(crate) balance: Balance,
    pub(crate) via: Via,
    /// `affinity-mode`, where it says something.
    pub(crate) mode: Option<Stickiness>,
    /// `upstream-vhost`: texts and labels of the rule.
    pub(crate) host: Option<Template>,
}

/// What an Ingress says about its hosts as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostFeatures {
    /// `from-to-www-redirect`.
    pub(crate) www: bool,
    /// `server-alias`. A wildcard stands for any number of labels.
    pub(crate) aliases: BTreeSet<HostPattern>,
    /// `ssl-ciphers`.
    pub(crate) suites: Vec<CipherSuite>,
    /// `ssl-prefer-server-ciphers`.
    pub(crate) suite_chosen_by: Option<ChosenBy>,
    /// `auth-tls-secret`.
    pub(crate) clients: Option<HostClients>,
    /// `ssl-passthrough`.
    pub(crate) passthrough: bool,
}

/// Which clients a host serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostClients {
    /// Those with such certificates.
    Verified(ClientCertificate),
    /// None: what it asks for cannot be read.
    Refused,
}

impl HostClients {
    /// What connections are verified by.
    pub(crate) fn rules(&self) -> Option<&Arc<ClientVerification>> {
        match self {
            Self::Verified(of) => Some(&of.rules),
            Self::Refused => None,
        }
    }

    /// Puts what asks for it before the filters of a rule.
    pub(crate) fn guard(&self, filters: &mut Vec<Filter>) {
        let of = match self {
            Self::Verified(of) => of,
            Self::Refused => {
                let deny = Deny { status: 403, when: vec![Match::default()] };
                return filters.insert(0, Filter::Deny(deny));
            }
        };
        filters.insert(0, Filter::ClientCertificate(of.clone()));
        if of.rules.demand == ClientDemand::Required {
            // Behind what sends requests in the clear to https.
            let redirect = filters.iter().position(|filter| matches!(filter, Filter::HttpsRedirect(_)));
            filters.insert(redirect.unwrap_or(0) + 1, Filter::OverTls);
        }
    }
}

/// What becomes of the paths of an Ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rewrite {
    /// What each is rewritten to.
    pub(crate) target: Option<Arc<str>>,
    /// `X-Forwarded-Prefix` of requests whose path is rewritten.
    pub(crate) prefix: Option<Arc<str>>,
}

/// What an Ingress is to the others of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has paths of its own.
    Main,
    /// It takes a part of another Ingress's requests.
    Canary(Canary),
}

impl Filters {
    /// Adds a filter behind those of its phase and of all earlier ones.
    pub(crate) fn push(&mut self, phase: Phase, filter: Filter) {
        let at = self.ordered.partition_point(|(other, _)| *other <= phase);
        self.ordered.insert(at, (phase, filter));
    }

    /// Adds filters one behind the other.
    pub(crate) fn extend(&mut self, phase: Phase, filters: impl IntoIterator<Item = Filter>) {
        filters.into_iter().for_each(|filter| self.push(phase, filter));
    }

    /// Notes a backend that a filter names, and where it is written.
    pub(crate) fn name_backend(&mut self, backend: BackendRef, origin: Origin, purpose: Purpose) {
        self.backends.push(Named { backend, origin, purpose });
    }

    /// The backends that filters name.
    pub(crate) fn backends(&self) -> &[Named] {
        &self.backends
    }

    /// Takes the lists of client addresses out.
    pub(crate) fn take_access_lists(&mut self) -> Vec<AccessList> {
        let mut lists = Vec::new();
        self.ordered.retain(|(_, filter)| match filter {
            Filter::Access(list) => {
                lists.push(list.clone());
                false
            }
            _ => true,
        });
        lists
    }

    /// Refuses these clients, whatever else lets them pass.
    pub(crate) fn block(&mut self, ranges: &[IpNet]) {
        if !ranges.is_empty() {
            let list = AccessList { deny: ranges.to_vec(), allow: Vec::new() };
            self.push(Phase::Access, Filter::Access(list));
        }
    }

    /// Takes out what asks who the client is; its address still counts.
    pub(crate) fn let_everybody_in(&mut self) {
        self.ordered.retain_mut(|(_, filter)| match filter {
            Filter::BasicAuth(_) | Filter::ExternalAuth(_) => false,
            Filter::AnyGuard(any) => {
                let list = any.access.take().map(Filter::Access);
                list.map(|list| *filter = list).is_some()
            }
            _ => true,
        });
    }

    /// Whether there is a filter of a phase.
    pub(crate) fn has(&self, phase: Phase) -> bool {
        self.ordered.iter().any(|(other, _)| *other == phase)
    }

    /// The filters in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Filter> {
        self.ordered.iter().map(|(_, filter)| filter)
    }

    /// The filters in their order.
    pub(crate) fn into_ordered(self) -> impl Iterator<Item = Filter> {
        self.ordered.into_iter().map(|(_, filter)| filter)
    }
}

impl Contributions {
    /// Of an Ingress without annotations.
    pub(crate) fn new(defaults: &Defaults) -> Self {
        Self {
            closed: defaults.closed,
            filters: Filters::default(),
            redirects: defaults.https.redirects,
            host: HostFeatures::default(),
            app_root: None,
            rewrite: Rewrite::default(),
            use_regex: false,
            policy: Arc::new(defaults.policy(defaults.forwarding.timeouts, defaults.forwarding.max_body)),
            upstream: Upstream::default(),
            errors: Errors::default(),
            role: Role::Main,
        }
    }

    /// Whether they keep somebody out: close the paths, or say who may pass.
    pub(crate) fn protect(&self) -> bool {
        self.closed.is_some()
            || self.filters.has(Phase::Refuse)
            || self.filters.has(Phase::Access)
            || self.filters.has(Phase::Limit)
    }

    /// Whether they check the addresses of clients.
    pub(crate) fn check_source_ranges(&self) -> bool {
        let is_list = |filter: &Filter| match filter {
            Filter::Access(_) => true,
            Filter::AnyGuard(any) => any.access.is_some(),
            _ => false,
        };
        self.filters.iter().any(is_list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_act_in_the_order_of_their_phases() {
        let header = |name: &str| Filter::StrictTransportSecurity(name.into());
        let mut filters = Filters::default();
        for (phase, name) in
            [(Phase::AnswerHead, "e"), (Phase::Access, "c"), (Phase::Preflight, "a"), (Phase::Access, "d")]
        {
            filters.push(phase, header(name));
        }
        filters.push(Phase::Redirect, header("b"));
        let ordered: Vec<_> = filters.clone().into_ordered().collect();
        assert_eq!(ordered, ["a", "b", "c", "d", "e"].map(header));
        assert!(filters.has(Phase::Access) && !filters.has(Phase::Https));
    }
}
