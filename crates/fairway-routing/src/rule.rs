//! A compiled rule: the rule of the model with its backends as slots and its rewrites compiled.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use fairway_model::{
    Action, BackendKey, Forwarding, PathForm, Phases, ReferenceStatus, Retry, RetrySource, Route, Rule,
    VirtualHost, WeightedBackend, smaller_limit,
};

use crate::rewrite::CompiledRewrite;
use crate::slots::{BackendSlot, Slots};
use crate::steps::{self, InnerRule};
use crate::{guards, targets, unsupported};

/// The steps of a rule.
pub type Steps = steps::Steps<CompiledRule>;
/// The weighted backends of a rule.
pub type Targets = targets::Targets<CompiledRule>;
/// An external authorization check.
pub type ExternalAuthCheck = guards::ExternalAuthCheck<CompiledRule>;
/// An authorization check by a gRPC service.
pub type GrpcAuthCheck = guards::GrpcAuthCheck<CompiledRule>;
/// A service that processes requests and responses.
pub type ExtensionStep = steps::ExtensionStep<CompiledRule>;
/// Several guards of which one must pass.
pub type AnyOfCheck = guards::AnyOfCheck<CompiledRule>;
/// A token check.
pub type TokenCheck = guards::TokenCheck<CompiledRule>;
/// A login check.
pub type LoginCheck = guards::LoginCheck<CompiledRule>;
/// Where the keys of an issuer come from.
pub type KeySource = guards::KeySource<CompiledRule>;
/// A guard that a request must pass.
pub type GuardStep = steps::GuardStep<CompiledRule>;
/// A mirror of requests.
pub type MirrorStep = steps::MirrorStep<CompiledRule>;
/// Responses from another backend.
pub type ErrorPagesStep = steps::ErrorPagesStep<CompiledRule>;

/// Identifies a compiled rule: unique in the lifetime of the process, and the same while its host is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct CompiledRule {
    route: Arc<Route>,
    /// Its index in the route.
    number: usize,
    id: RuleId,
    targets: Targets,
    /// Where requests of TLS connections go instead.
    secured: Option<BackendSlot>,
    /// Most rules have no steps or common ones, so there are far fewer of these than rules.
    steps: Arc<Steps>,
    path_form: PathForm,
}

/// The steps that were compiled last, and their input.
struct LastSteps {
    phases: Arc<Phases>,
    form: PathForm,
    steps: Arc<Steps>,
}

thread_local! {
    static LAST: RefCell<Option<LastSteps>> = const { RefCell::new(None) };
}

impl CompiledRule {
    /// The rule of the model.
    #[inline]
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.route.rules[self.number]
    }

    /// Its route.
    #[must_use]
    pub fn route(&self) -> &Arc<Route> {
        &self.route
    }

    /// Its id for metrics and per-rule state.
    #[must_use]
    pub fn id(&self) -> RuleId {
        self.id
    }

    /// Where its requests go. A forwarding rule with [`Targets::None`] is answered with 500: no backend has a share, or
    /// its rewrite cannot be compiled.
    #[inline]
    #[must_use]
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Where requests received over TLS go instead.
    #[inline]
    #[must_use]
    pub fn secured(&self) -> Option<BackendSlot> {
        self.secured
    }

    /// Its steps by phase.
    #[inline]
    #[must_use]
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// What rewrites the target of its requests.
    #[must_use]
    pub fn rewrite(&self) -> Option<&CompiledRewrite> {
        self.steps.forwarding.path.as_ref()
    }

    /// Whether the cost of its rewrites depends on the length of the path.
    pub(crate) fn reads_on(&self) -> bool {
        let shares = self.targets.rules().map(|rule| &*rule.steps);
        shares.chain([&*self.steps]).flat_map(Steps::rewrites).any(CompiledRewrite::reads_on)
    }

    /// Whether a header of its requests or responses, or of one of its shares, has the name of the handshake.
    pub(crate) fn reads_server_name(&self) -> bool {
        let reads = |rule: &Self| rule.steps.reads_server_name;
        reads(self) || self.targets.rules().any(reads)
    }

    /// The form of the path that the host's rules are written for.
    #[must_use]
    pub fn path_form(&self) -> PathForm {
        self.path_form
    }

    /// Whether its responses, or those of one of its shares, may be compressed.
    #[inline]
    #[must_use]
    pub fn compresses(&self) -> bool {
        let compresses = |rule: &Self| rule.steps.responses.compression.is_some();
        compresses(self) || self.targets.rules().any(compresses)
    }

    /// Whether requests may be served before the handshake is complete, when they may be replays (RFC 8470 §3): the
    /// rule checks nothing about the client, and only its endpoints get its requests.
    #[must_use]
    pub fn takes_early_data(&self) -> bool {
        !matches!(self.targets, Targets::Shares(_)) && self.steps.take_early_data()
    }

    /// Whether it behaves like an nginx location, in the order of nginx's phases. Rules for paths decoded as in nginx
    /// belong to Ingresses.
    #[inline]
    #[must_use]
    pub fn is_location(&self) -> bool {
        self.path_form == PathForm::Decoded
    }

    /// Compiles rule `number` of `route`; `problem` is called for a rewrite or protection that cannot be compiled: the
    /// rule then has no targets, because a request with the wrong path or of the wrong client must not reach the
    /// backend.
    pub(crate) fn compiled(
        host: &VirtualHost,
        route: &Arc<Route>,
        number: usize,
        slots: &mut Slots,
        problem: impl FnOnce(String),
    ) -> Self {
        let rule = &route.rules[number];
        let form = host.path_form;
        let mut maker = RuleBuilder { rule, form, slots, taken_slots: Vec::new() };
        let (steps, targets, secured) = match maker.build(unsupported::of_rule(host, rule)) {
            Ok(made) => made,
            Err(why) => {
                problem(why);
                maker.give_back();
                (no_steps(), Targets::None, None)
            }
        };
        Self { route: route.clone(), number, id: next_id(), targets, secured, steps, path_form: form }
    }

    /// Every backend that it names, including those of its steps and shares.
    pub(crate) fn slots(&self) -> impl Iterator<Item = BackendSlot> {
        let shares = self.targets.rules().flat_map(Self::own_slots);
        self.own_slots().chain(self.secured).chain(shares)
    }

    fn own_slots(&self) -> impl Iterator<Item = BackendSlot> {
        self.targets.slots().chain(self.steps.rules().flat_map(|rule| rule.targets.slots()))
    }
}

/// The steps and targets of a rule, and the target of requests over TLS.
type BuiltRule = (Arc<Steps>, Targets, Option<BackendSlot>);

/// Builds the steps and targets of a rule, and tracks the slots it acquired.
struct RuleBuilder<'m> {
    rule: &'m Rule,
    form: PathForm,
    slots: &'m mut Slots,
    taken_slots: Vec<BackendSlot>,
}

impl RuleBuilder<'_> {
    /// The steps and targets, or why the rule forwards nothing.
    fn build(&mut self, unserved: Option<&str>) -> Result<BuiltRule, String> {
        if let Some(unserved) = unserved {
            return Err(unserved.to_owned());
        }
        let steps = self.shared_steps()?;
        let targets = self.targets(&steps)?;
        let secured =
            self.rule.phases.forwarding.as_ref().and_then(|forwarding| forwarding.tls_backend.as_ref());
        Ok((steps, targets, secured.map(|backend| self.acquired(backend))))
    }

    /// Releases the slots of a rule that cannot be built.
    fn give_back(self) {
        let Self { slots, taken_slots: taken, .. } = self;
        taken.into_iter().for_each(|slot| slots.release(slot));
    }

    /// The steps of the rule; shared with the previous rule if the phases are equal.
    fn shared_steps(&mut self) -> Result<Arc<Steps>, String> {
        let phases = &self.rule.phases;
        if **phases == Phases::default() {
            return Ok(no_steps());
        }
        let form = self.form;
        let is_same = |last: &&LastSteps| {
            last.form == form && (Arc::ptr_eq(&last.phases, phases) || last.phases == *phases)
        };
        let of_last = |last: &LastSteps| Arc::clone(&last.steps);
        if let Some(steps) = LAST.with_borrow(|last| last.as_ref().filter(is_same).map(of_last)) {
            return Ok(steps);
        }
        let steps = Arc::new(self.steps(phases)?);
        // The rules inside steps have slots, which each rule acquires and releases by itself.
        if steps.rules().next().is_none() {
            LAST.set(Some(LastSteps { phases: Arc::clone(phases), form, steps: Arc::clone(&steps) }));
        }
        Ok(steps)
    }

    fn steps(&mut self, phases: &Phases) -> Result<Steps, String> {
        Steps::compiled(phases, self.form, &mut |inner: InnerRule<'_>| self.inner(inner))
    }

    fn targets(&mut self, steps: &Steps) -> Result<Targets, String> {
        let Action::Forward(backends) = &self.rule.action else { return Ok(Targets::None) };
        if let Some(sticky) = self.rule.phases.forwarding.as_ref().and_then(|it| it.sticky.clone()) {
            let shares = backends.iter().map(|target| Ok((self.share(target, steps)?, target.weight)));
            return Ok(Targets::of_sticky_shares(shares.collect::<Result<Vec<_>, String>>()?, sticky));
        }
        let weighted = || backends.iter().filter(|weighted| weighted.weight > 0);
        let is_plain = |backend: &WeightedBackend| {
            backend.filters.is_none()
                && backend.bodies.is_none()
                && backend.reference == ReferenceStatus::Resolved
        };
        if weighted().all(is_plain) {
            return Ok(Targets::new(
                weighted().map(|target| (self.acquired(&target.backend), target.weight)),
            ));
        }
        let shares: Vec<_> = weighted()
            .map(|target| Ok((self.share(target, steps)?, target.weight)))
            .collect::<Result<_, String>>()?;
        Ok(Targets::of_shares(shares))
    }

    /// The rule of a share; `None` if its reference is invalid.
    fn share(
        &mut self,
        backend: &WeightedBackend,
        outer: &Steps,
    ) -> Result<Option<Box<CompiledRule>>, String> {
        if backend.reference == ReferenceStatus::Invalid {
            return Ok(None);
        }
        let mut phases = steps::of_share(backend.filters.as_deref(), &self.rule.phases);
        if let Some(bodies) = &backend.bodies {
            phases.add(bodies.compression.clone().map(Phases::from).unwrap_or_default());
            phases.add(Forwarding { buffering: bodies.buffering, ..Forwarding::default() });
        }
        let steps = self.steps(&phases)?.within(outer);
        let mut rule = self.forwarding(&backend.backend, phases);
        if let Some(most) = backend.bodies.as_ref().and_then(|bodies| bodies.max_request) {
            let policy = Arc::make_mut(&mut rule.policy);
            policy.max_body = smaller_limit(policy.max_body, Some(most));
        }
        Ok(Some(Box::new(self.alone(rule, steps, &backend.backend))))
    }

    /// A rule for the requests of a step, which all go to one backend.
    fn inner(&mut self, inner: InnerRule<'_>) -> CompiledRule {
        let phases = Phases { answers: inner.response_handling, ..Phases::default() };
        let mut rule = self.forwarding(inner.backend, phases);
        let policy = Arc::make_mut(&mut rule.policy);
        policy.websocket = false;
        if policy.retry.by == RetrySource::Route {
            // The route's retry policy is for its own backends.
            policy.retry = Retry::default();
        }
        if let Some(timeouts) = inner.timeouts {
            policy.timeouts = timeouts;
        }
        // Steps for responses neither rewrite nor forward.
        let steps =
            Steps::compiled(&rule.phases, self.form, &mut |_| unreachable!("it only edits responses"));
        self.alone(rule, steps.unwrap_or_default(), inner.backend)
    }

    /// The same rule with these phases and this one backend.
    fn forwarding(&self, backend: &BackendKey, phases: Phases) -> Rule {
        Rule {
            matches: Vec::new(),
            phases: phases.shared(),
            action: Action::Forward(vec![WeightedBackend::new(backend.clone(), 1)]),
            ..self.rule.clone()
        }
    }

    /// A rule in its own route.
    fn alone(&mut self, rule: Rule, steps: Steps, backend: &BackendKey) -> CompiledRule {
        let slot = self.acquired(backend);
        let origin = rule.origin.clone();
        CompiledRule {
            route: Arc::new(Route { origin, created: None, hostname_rank: 0, rules: vec![rule] }),
            number: 0,
            id: next_id(),
            targets: Targets::One(slot),
            secured: None,
            steps: Arc::new(steps),
            path_form: self.form,
        }
    }

    fn acquired(&mut self, backend: &BackendKey) -> BackendSlot {
        let slot = self.slots.acquire(backend);
        self.taken_slots.push(slot);
        slot
    }
}

/// The steps of a rule that has only an action.
fn no_steps() -> Arc<Steps> {
    static NONE: LazyLock<Arc<Steps>> = LazyLock::new(Arc::default);
    Arc::clone(&NONE)
}

fn next_id() -> RuleId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    RuleId(NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_uses_little_memory() {
        assert!(size_of::<CompiledRule>() <= 80, "{}", size_of::<CompiledRule>());
    }
}
