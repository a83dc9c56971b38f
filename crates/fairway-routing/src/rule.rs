//! A rule that requests can be given to: the rule of the model with its backends as slots and its rewrites compiled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairway_model::{Action, PathForm, Route, Rule, VirtualHost};

use crate::rewrite::CompiledRewrite;
use crate::slots::Slots;
use crate::steps::{RequestStep, Steps};
use crate::targets::Targets;
use crate::unserved;

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
        let steps = match unserved::of_host(host) {
            None => Steps::compiled(&rule.filters, form),
            Some(unserved) => Err(unserved.to_owned()),
        };
        let (steps, targets) = match steps {
            Ok(steps) => (steps, acquired(&rule.action, slots)),
            Err(why) => {
                problem(why);
                (Steps::default(), Targets::None)
            }
        };
        Self { route: route.clone(), number, id: next_id(), targets, steps, path_form: form }
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

fn next_id() -> RuleId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    RuleId(NEXT.fetch_add(1, Ordering::Relaxed))
}
