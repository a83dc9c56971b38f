//! Rebuilds the hosts that earlier stages have marked in [`Work::hosts`]: virtual hosts of HTTP route tables, and
//! stream routes of TLS, TCP and UDP route tables.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{self as model, HostKey, HostPattern, PathForm, RuleOrder, StreamKey, VirtualHost};
use fairway_objects::insertion_order::filling;
use fairway_objects::object::{Kind, ObjectRef};
use fairway_pattern::budget::Budget;

use crate::attach::Attachment;
use crate::hostname::{self, Specificity};
use crate::listener::ListenerId;
use crate::pattern_budget::admit_route;
use crate::state::{BuiltRules, Contribution, Gateways, OverBudget};
use crate::work::Work;

impl Gateways {
    /// Rebuilds every marked host from its routes, and records the results in [`Work::changes`].
    pub(crate) fn make_hosts(&mut self, work: &mut Work) {
        // The receiver of the changes inserts them into persistent maps, which stay smaller in this order.
        let fill_order = filling(std::mem::take(&mut work.hosts));
        for key in fill_order {
            let contributions: Vec<&Contribution> = self.effective_contributions(&key).collect();
            let is_stream = |contribution: &&Contribution| {
                matches!(contribution.route.kind, Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute)
            };
            // A table has either HTTP routes or stream routes, so one of the two results is empty. A stream has one
            // route: the one with the most specific hostname, and of those the oldest.
            let streams = contributions.iter().filter(|contribution| is_stream(contribution));
            let winner = streams.max_by_key(|contribution| {
                (self.specificity(contribution, &key.host), Reverse(&contribution.route))
            });
            let winning_rules = winner.and_then(|contribution| self.built_rules(contribution));
            let stream_key = StreamKey { table: key.table.clone(), host: key.host.clone() };
            let stream_route = winning_rules.map(|rules| Arc::new(rules.stream(stream_key.clone())));
            work.changes.streams.push((stream_key, stream_route));
            let http = contributions.into_iter().filter(|contribution| !is_stream(contribution));
            let (routes, over_budget) = self.routes_within_budget(http, &key.host);
            let virtual_host = self.build_host(&key, routes).map(Arc::new);
            self.store_over_budget(&key, over_budget, work);
            work.changes.hosts.push((key, virtual_host));
        }
    }

    /// The routes of a host without the matches whose regular expressions exceed the host's budget, and those
    /// rejected matches. Older routes use the budget first.
    fn routes_within_budget<'s>(
        &'s self,
        contributions: impl Iterator<Item = &'s Contribution>,
        host: &HostPattern,
    ) -> (Vec<Arc<model::Route>>, OverBudget) {
        let (mut budget, mut routes, mut over_budget) = (Budget::default(), Vec::new(), OverBudget::new());
        let mut specificities = Vec::new();
        for contribution in contributions {
            let Some(built) = self.built_rules(contribution) else { continue };
            let (route, rejected) = admit_route(&built.route, &built.match_costs, &mut budget);
            routes.push(route);
            specificities.push(self.specificity(contribution, host));
            if !rejected.is_empty() {
                over_budget.entry(contribution.route.reference()).or_default().refused.extend(rejected);
            }
        }
        for (reference, overrun) in &mut over_budget {
            overrun.nothing_left = !routes.iter().any(|route| {
                let (kind, key, origin) = (reference.kind.name(), &reference.key, &route.origin);
                let is_same_object =
                    *origin.kind == *kind && origin.namespace == key.namespace && origin.name == key.name;
                is_same_object && !route.rules.is_empty()
            });
        }
        assign_hostname_ranks(&mut routes, &specificities);
        routes.shrink_to_fit();
        (routes, over_budget)
    }

    /// Records the rejected matches of a host. If those of a route changed, marks its status and the statuses of its
    /// listeners' owners.
    fn store_over_budget(&mut self, key: &HostKey, after: OverBudget, work: &mut Work) {
        let before = self.tables.over_budget.remove(key).unwrap_or_default();
        let differs = |route: &&ObjectRef| before.get(*route) != after.get(*route);
        for route in before.keys().chain(after.keys()).filter(differs) {
            work.routes.statuses.insert(route.clone());
            work.statuses.extend(self.listener_owners(route));
        }
        if !after.is_empty() {
            self.tables.over_budget.insert(key.clone(), Arc::new(after));
        }
    }

    /// The Gateways and ListenerSets that a route is attached to.
    pub(crate) fn listener_owners(&self, route: &ObjectRef) -> BTreeSet<ObjectRef> {
        let attached = self.routes.by_key.get(route).into_iter().flat_map(|memo| memo.attachments());
        attached.map(|attachment| attachment.listener.owner.clone()).collect()
    }

    /// Whether no host at these attachments has room in its budget for any rule of the route, so that the route
    /// is not served. `false` for a route without hosts there.
    pub(crate) fn is_over_budget<'a>(
        &self,
        route: &ObjectRef,
        attachments: impl Iterator<Item = &'a Attachment>,
    ) -> bool {
        let hosts =
            attachments.filter_map(|attachment| Some((attachment.table.as_ref()?, &attachment.hosts)));
        let keys = hosts.flat_map(|(table, hosts)| {
            hosts.iter().map(|host| HostKey { table: table.clone(), host: host.clone() })
        });
        let nothing_left = |key: HostKey| {
            let overrun = self.tables.over_budget.get(&key).and_then(|overruns| overruns.get(route));
            overrun.is_some_and(|overrun| overrun.nothing_left)
        };
        let mut keys = keys.peekable();
        keys.peek().is_some() && keys.all(nothing_left)
    }

    /// The number of routes that are attached to a listener but not served, because none of their rules fits into the
    /// budget of a host.
    pub(crate) fn routes_over_budget(&self, listener: &ListenerId) -> usize {
        let routes_without_rules = |overruns: &'_ Arc<OverBudget>| {
            let without_rules = overruns.iter().filter(|(_, overrun)| overrun.nothing_left);
            without_rules.map(|(route, _)| route.clone()).collect::<Vec<_>>()
        };
        // A route that has no rules left at one host may have some at another one of this listener.
        let candidates: BTreeSet<ObjectRef> =
            self.tables.over_budget.values().flat_map(routes_without_rules).collect();
        let is_unserved = |route: &&ObjectRef| {
            let memo = self.routes.by_key.get(*route).into_iter();
            let winning = memo.flat_map(|memo| {
                memo.attachments().filter(|attachment| !self.loses_contest(attachment, &memo.age))
            });
            self.is_over_budget(route, winning.filter(|attachment| attachment.listener == *listener))
        };
        candidates.iter().filter(is_unserved).count()
    }

    /// The contributions of the most specific listener for a host. Other listeners do not get its requests
    /// (Gateway API "Listener Isolation").
    fn effective_contributions<'s>(&'s self, key: &'s HostKey) -> impl Iterator<Item = &'s Contribution> {
        let listeners = self.tables.listeners.get(&key.table);
        let winner = listeners.and_then(|hosts| hostname::most_specific(hosts, &key.host));
        let contributions = self.tables.hosts.users_of(key).map(|contribution| &**contribution);
        contributions.filter(move |contribution| winner == Some(&contribution.listener))
    }

    /// The specificity of a route's most specific hostname that intersects a host. The hostname counts as the route
    /// spells it, before its intersection with the listener's (Gateway API
    /// `GatewayRouteHostnameIntersectionPrecedence`). `None` for a route without hostnames.
    fn specificity(&self, contribution: &Contribution, host: &HostPattern) -> Option<Specificity> {
        let memo = self.routes.by_key.get(&contribution.route.reference())?;
        let matching =
            memo.hosts.iter().filter(|route_host| hostname::intersection(route_host, host).is_some());
        matching.map(hostname::specificity).max()
    }

    fn built_rules(&self, contribution: &Contribution) -> Option<&BuiltRules> {
        self.routes.by_key.get(&contribution.route.reference())?.rules_for(&contribution.variant)
    }

    /// Builds a virtual host; `None` if it has no routes and no listener names it. The host of a listener exists even
    /// without routes: its requests must get 404 instead of reaching a less specific listener.
    fn build_host(&self, key: &HostKey, routes: Vec<Arc<model::Route>>) -> Option<VirtualHost> {
        let listeners = self.tables.listeners.get(&key.table);
        let is_http = !self.tables.streams.contains(&key.table);
        let is_listener_host = is_http && listeners.is_some_and(|hosts| hosts.contains(&key.host));
        (is_listener_host || !routes.is_empty()).then(|| VirtualHost {
            key: key.clone(),
            order: RuleOrder::Precedence,
            path_form: PathForm::Normalised,
            routes,
            certificate: None,
            clients: None,
            suites: None,
            falls_through: !is_listener_host,
        })
    }
}

/// Ranks routes by the specificity of their hostnames. Usually all hostnames are equally specific; then no route is
/// changed, and all stay shared with other hosts.
fn assign_hostname_ranks(routes: &mut [Arc<model::Route>], specificities: &[Option<Specificity>]) {
    let distinct: BTreeSet<_> = specificities.iter().copied().collect();
    if distinct.len() < 2 {
        return;
    }
    for (route, specificity) in routes.iter_mut().zip(specificities) {
        let less_specific = distinct.range(..specificity).count();
        Arc::make_mut(route).hostname_rank = u32::try_from(less_specific).unwrap_or(u32::MAX);
    }
}
