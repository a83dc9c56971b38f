//! A rule that requests can be given to: the rule of the model with its backends as slots and its rewrites compiled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairway_model::{Action, Filter, PathForm, Route, Rule, VirtualHost, WeightedBackend};

use crate::guards;
use crate::rewrite::CompiledRewrite;
use crate::slots::{BackendSlot, Slots};
use crate::steps::{self, InnerRule};
use crate::targets::Targets;
use crate::unserved;

/// The steps of a rule.
pub type Steps = steps::Steps<CompiledRule>;
/// A question to another service.
pub type Asking = guards::Asking<CompiledRule>;
/// Several guards of which one is enough.
pub type AnyOf = guards::AnyOf<CompiledRule>;
/// What is done with a request's head.
pub type RequestStep = steps::RequestStep<CompiledRule>;
/// A copy of requests.
pub type Copying = steps::Copying<CompiledRule>;
/// Answers that another backend makes.
pub type Replacing = steps::Replacing<CompiledRule>;

/// Names a compiled rule: unique in the lifetime of the process, and the same while its host is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

/// A rule with what its requests need.
#[derive(Clone, Debug)]
pub struct CompiledRule {
    route: Arc<Route>,
    /// Its number in the route.
    number: usize,
    id: RuleId,
    targets: Targets,
    /// Where requests of connections with TLS go instead.
    secured: Option<BackendSlot>,
    steps: Steps,
    path_form: PathForm,
}

impl CompiledRule {
    /// The rule of the model.
    #[inline]
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.route.rules[self.number]
    }

    /// The route that the rule is part of.
    #[must_use]
    pub fn route(&self) -> &Arc<Route> {
        &self.route
    }

    /// Its name for metrics and per-rule state.
    #[must_use]
    pub fn id(&self) -> RuleId {
        self.id
    }

    /// Where its requests go. [`Targets::None`] for a forwarding rule is answered 500: no backend has a share, or its
    /// rewrite cannot be compiled.
    #[must_use]
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Where those of its requests go instead that came over TLS.
    #[inline]
    #[must_use]
    pub fn secured(&self) -> Option<BackendSlot> {
        self.secured
    }

    /// Its filters, phase by phase.
    #[inline]
    #[must_use]
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// What makes another target of its requests' own.
    #[must_use]
    pub fn rewrite(&self) -> Option<&CompiledRewrite> {
        self.steps.request.iter().find_map(|step| match step {
            RequestStep::Path(rewrite) => Some(rewrite),
            _ => None,
        })
    }

    /// Whether the length of the path decides what its rewrites cost.
    pub(crate) fn reads_on(&self) -> bool {
        self.steps.rewrites().any(CompiledRewrite::reads_on)
    }

    /// The form of the path that the host's rules are written for.
    #[must_use]
    pub fn path_form(&self) -> PathForm {
        self.path_form
    }

    /// Compiles rule `number` of `route`; `problem` hears of a rewrite or a protection that cannot be: the rule then
    /// has no targets, because a request with the wrong path or of the wrong client must not reach the backend.
    pub(crate) fn compiled(
        host: &VirtualHost,
        route: &Arc<Route>,
        number: usize,
        slots: &mut Slots,
        problem: impl FnOnce(String),
    ) -> Self {
        let rule = &route.rules[number];
        let form = host.path_form;
        let mut taken = Vec::new();
        let mut inner = |inner: InnerRule<'_>| {
            let inner = Self::inner(rule, inner, form, slots);
            taken.extend(inner.targets.slots());
            inner
        };
        let steps = match unserved::of_rule(host, rule) {
            None => Steps::compiled(&rule.filters, form, &mut inner),
            Some(unserved) => Err(unserved.to_owned()),
        };
        let (steps, targets, secured) = match steps {
            Ok(steps) => (steps, acquired(&rule.action, slots), secured(&rule.filters, slots)),
            Err(why) => {
                problem(why);
                taken.into_iter().for_each(|slot| slots.release(slot));
                (Steps::default(), Targets::None, None)
            }
        };
        Self { route: route.clone(), number, id: next_id(), targets, secured, steps, path_form: form }
    }

    /// A rule that a step of `outer` forwards by: all of its requests go to one backend.
    fn inner(outer: &Rule, inner: InnerRule<'_>, form: PathForm, slots: &mut Slots) -> Self {
        let mut rule = Rule {
            matches: Vec::new(),
            filters: inner.filters,
            action: Action::Forward(vec![WeightedBackend { backend: inner.backend.clone(), weight: 1 }]),
            ..outer.clone()
        };
        rule.policy.websocket = false;
        if let Some(timeouts) = inner.timeouts {
            rule.policy.timeouts = timeouts;
        }
        // What acts on answers neither rewrites nor forwards.
        let steps = Steps::compiled(&rule.filters, form, &mut |_| unreachable!("only filters of answers"));
        let targets = acquired(&rule.action, slots);
        let route = Arc::new(Route { origin: rule.origin.clone(), created: None, rules: vec![rule] });
        let steps = steps.unwrap_or_default();
        Self { route, number: 0, id: next_id(), targets, secured: None, steps, path_form: form }
    }

    /// Every backend that it names, those of its steps included.
    pub(crate) fn slots(&self) -> impl Iterator<Item = BackendSlot> {
        let inner = self.steps.rules().flat_map(|rule| rule.targets.slots());
        self.targets.slots().chain(self.secured).chain(inner)
    }
}

fn acquired(action: &Action, slots: &mut Slots) -> Targets {
    match action {
        Action::Answer(_) => Targets::None,
        Action::Forward(backends) => Targets::new(
            backends
                .iter()
                .filter(|weighted| weighted.weight > 0)
                .map(|weighted| (slots.acquire(&weighted.backend), weighted.weight)),
        ),
    }
}

fn secured(filters: &[Filter], slots: &mut Slots) -> Option<BackendSlot> {
    let backend = filters.iter().find_map(|filter| match filter {
        Filter::SecuredBackend(backend) => Some(backend),
        _ => None,
    });
    backend.map(|backend| slots.acquire(backend))
}

fn next_id() -> RuleId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    RuleId(NEXT.fetch_add(1, Ordering::Relaxed))
}
