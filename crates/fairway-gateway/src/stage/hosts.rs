//! Makes the hosts that are marked: the virtual hosts of a table, and the stream routes where it is none of HTTP.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_model::{self as model, HostKey, HostPattern, PathForm, RuleOrder, StreamKey, VirtualHost};
use fairway_objects::filling::filling;
use fairway_objects::object::{Kind, ObjectRef};
use fairway_pattern::budget::Budget;

use crate::afford::afford;
use crate::attach::Attachment;
use crate::hostname::{self, Specificity};
use crate::listener::ListenerId;
use crate::state::{Contribution, Gateways, Made, OverBudget};
use crate::work::Work;

impl Gateways {
    /// Makes hosts.
    pub(crate) fn make_hosts(&mut self, work: &mut Work) {
        for key in filling(std::mem::take(&mut work.hosts)) {
            let parts: Vec<&Contribution> = self.parts(&key).collect();
            let is_stream = |part: &&Contribution| {
                matches!(part.route.kind, Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute)
            };
            // A table has routes of one of the two.
            let streams = parts.iter().filter(|part| is_stream(part));
            let stream = streams.max_by_key(|part| (self.specificity(part, &key.host), Reverse(&part.route)));
            let stream = stream.and_then(|part| self.made_by(part));
            let stream_key = StreamKey { table: key.table.clone(), host: key.host.clone() };
            let made = stream.map(|made| Arc::new(made.stream(stream_key.clone())));
            work.pieces.streams.push((stream_key, made));
            let http = parts.into_iter().filter(|part| !is_stream(part));
            let (routes, over_budget) = self.affordable(http, &key.host);
            let made = self.host(&key, routes).map(Arc::new);
            self.note_over_budget(&key, over_budget, work);
            work.pieces.hosts.push((key, made));
        }
    }

    /// The routes as far as a host can afford their regular expressions, the oldest first, and what it cannot.
    fn affordable<'s>(
        &'s self,
        parts: impl Iterator<Item = &'s Contribution>,
        host: &HostPattern,
    ) -> (Vec<Arc<model::Route>>, OverBudget) {
        let (mut budget, mut routes, mut over) = (Budget::default(), Vec::new(), OverBudget::new());
        let mut ranks = Vec::new();
        for part in parts {
            let Some(made) = self.made_by(part) else { continue };
            let (route, refused) = afford(&made.route, &made.prices, &mut budget);
            routes.push(route);
            ranks.push(self.specificity(part, host));
            if !refused.is_empty() {
                over.entry(part.route.reference()).or_default().refused.extend(refused);
            }
        }
        for (reference, overrun) in &mut over {
            overrun.nothing_left = !routes.iter().any(|route| {
                let (kind, key) = (reference.kind.name(), &reference.key);
                let of = &route.origin;
                let same = *of.kind == *kind && of.namespace == key.namespace && of.name == key.name;
                same && !route.rules.is_empty()
            });
        }
        rank(&mut routes, &ranks);
        routes.shrink_to_fit();
        (routes, over)
    }

    /// Notes what a host cannot afford, and marks the routes for which that is different.
    fn note_over_budget(&mut self, key: &HostKey, after: OverBudget, work: &mut Work) {
        let before = self.tables.over_budget.remove(key).unwrap_or_default();
        let differs = |route: &&ObjectRef| before.get(*route) != after.get(*route);
        for route in before.keys().chain(after.keys()).filter(differs) {
            work.routes.told.insert(route.clone());
            work.statuses.extend(self.owners(route));
        }
        if !after.is_empty() {
            self.tables.over_budget.insert(key.clone(), Arc::new(after));
        }
    }

    /// The Gateways and ListenerSets whose listeners a route is attached to.
    pub(crate) fn owners(&self, route: &ObjectRef) -> BTreeSet<ObjectRef> {
        let attached = self.routes.by_key.get(route).into_iter().flat_map(|memo| memo.attached());
        attached.map(|it| it.listener.owner.clone()).collect()
    }

    /// Whether hosts can afford no rule of a route at any of these listeners, so that nothing of it is served there.
    pub(crate) fn is_spent<'a>(
        &self,
        route: &ObjectRef,
        attached: impl Iterator<Item = &'a Attachment>,
    ) -> bool {
        let hosts = attached.filter_map(|it| Some((it.table.as_ref()?, &it.hosts)));
        let keys = hosts.flat_map(|(table, hosts)| {
            hosts.iter().map(|host| HostKey { table: table.clone(), host: host.clone() })
        });
        let nothing_left = |key: HostKey| {
            let over = self.tables.over_budget.get(&key).and_then(|over| over.get(route));
            over.is_some_and(|over| over.nothing_left)
        };
        let mut keys = keys.peekable();
        keys.peek().is_some() && keys.all(nothing_left)
    }

    /// The routes at a listener of which hosts can afford no rule.
    pub(crate) fn spent(&self, listener: &ListenerId) -> usize {
        let nothing_left = |over: &'_ Arc<OverBudget>| {
            over.iter().filter(|(_, it)| it.nothing_left).map(|(route, _)| route.clone()).collect::<Vec<_>>()
        };
        let routes: BTreeSet<ObjectRef> = self.tables.over_budget.values().flat_map(nothing_left).collect();
        let is_spent = |route: &&ObjectRef| {
            let memo = self.routes.by_key.get(*route).into_iter();
            let at = memo.flat_map(|memo| memo.attached().filter(|it| !self.loses(it, &memo.age)));
            self.is_spent(route, at.filter(|it| it.listener == *listener))
        };
        routes.iter().filter(is_spent).count()
    }

    /// The parts in a host that count: a request belongs to the most specific listener for its host, and to no
    /// other (Gateway API "Listener Isolation").
    fn parts<'s>(&'s self, key: &'s HostKey) -> impl Iterator<Item = &'s Contribution> {
        let listeners = self.tables.listeners.get(&key.table);
        let own = listeners.and_then(|hosts| hostname::most_specific(hosts, &key.host));
        self.tables.hosts.of(key).map(|part| &**part).filter(move |part| own == Some(&part.listener))
    }

    /// How well a name of a route says which connections or requests it wants, where that of a listener made it narrower
    /// (Gateway API `GatewayRouteHostnameIntersectionPrecedence`). `None` for a route without names.
    fn specificity(&self, part: &Contribution, host: &HostPattern) -> Option<Specificity> {
        let memo = self.routes.by_key.get(&part.route.reference())?;
        let own = memo.hosts.iter().filter(|own| hostname::intersection(own, host).is_some());
        own.map(hostname::specificity).max()
    }

    fn made_by(&self, part: &Contribution) -> Option<&Made> {
        self.routes.by_key.get(&part.route.reference())?.made(&part.variant)
    }

    /// A host of a listener is there also without a route: it keeps its requests from less specific listeners.
    fn host(&self, key: &HostKey, routes: Vec<Arc<model::Route>>) -> Option<VirtualHost> {
        let listeners = self.tables.listeners.get(&key.table);
        let is_http = !self.tables.streams.contains(&key.table);
        let of_listener = is_http && listeners.is_some_and(|hosts| hosts.contains(&key.host));
        (of_listener || !routes.is_empty()).then(|| VirtualHost {
            key: key.clone(),
            order: RuleOrder::Precedence,
            path_form: PathForm::Normalised,
            routes,
            certificate: None,
            clients: None,
            suites: None,
            falls_through: !of_listener,
        })
    }
}

/// Says which routes come before others because of their hostnames. Nearly always all have named the same, and are shared as they are.
fn rank(routes: &mut [Arc<model::Route>], ranks: &[Option<Specificity>]) {
    let distinct: BTreeSet<_> = ranks.iter().copied().collect();
    if distinct.len() < 2 {
        return;
    }
    for (route, rank) in routes.iter_mut().zip(ranks) {
        let below = distinct.range(..rank).count();
        Arc::make_mut(route).hostname_rank = u32::try_from(below).unwrap_or(u32::MAX);
    }
}
