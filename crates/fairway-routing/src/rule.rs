//! A rule that requests can be given to: the rule of the model with its backends as slots and its rewrites compiled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairway_model::{Action, Filter, PathForm, PathRewrite, RedirectTarget, Route, Rule, VirtualHost};

use crate::slots::Slots;
use crate::{CompiledRewrite, Targets};

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
    rewrite: Option<CompiledRewrite>,
    redirect_path: Option<CompiledRewrite>,
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

    /// The first [`Filter::RewritePath`].
    #[must_use]
    pub fn rewrite(&self) -> Option<&CompiledRewrite> {
        self.rewrite.as_ref()
    }

    /// The path of the first [`Filter::Redirect`] that makes one of its own.
    #[must_use]
    pub fn redirect_path(&self) -> Option<&CompiledRewrite> {
        self.redirect_path.as_ref()
    }

    /// Whether the length of the path decides what its rewrites cost.
    pub(crate) fn reads_on(&self) -> bool {
        self.rewrite.iter().chain(&self.redirect_path).any(CompiledRewrite::reads_on)
    }

    /// The form of the path that the host's rules are written for.
    #[must_use]
    pub fn path_form(&self) -> PathForm {
        self.path_form
    }

    /// Compiles rule `number` of `route`; `problem` hears of a rewrite that cannot be: the rule then has no targets,
    /// because a request with the wrong path must not reach the backend.
    pub(crate) fn compiled(
        host: &VirtualHost,
        route: &Arc<Route>,
        number: usize,
        slots: &mut Slots,
        problem: impl FnOnce(String),
    ) -> Self {
        let rule = &route.rules[number];
        let form = host.path_form;
        let redirect_path = compiled_rewrite(rule.filters.iter().find_map(redirected_path), form);
        let rewrite = compiled_rewrite(rule.filters.iter().find_map(rewritten_path), form);
        let mut targets = Targets::None;
        let (rewrite, redirect_path) = match (rewrite, redirect_path) {
            (Ok(rewrite), Ok(redirect_path)) => {
                targets = acquired(&rule.action, slots);
                (rewrite, redirect_path)
            }
            (Err(why), _) | (_, Err(why)) => {
                problem(why);
                (None, None)
            }
        };
        Self { route: route.clone(), number, id: next_id(), targets, rewrite, redirect_path, path_form: form }
    }
}

fn compiled_rewrite(path: Option<&PathRewrite>, form: PathForm) -> Result<Option<CompiledRewrite>, String> {
    path.map(|path| CompiledRewrite::compiled(path, form)).transpose()
}

fn rewritten_path(filter: &Filter) -> Option<&PathRewrite> {
    match filter {
        Filter::RewritePath(path) => Some(path),
        _ => None,
    }
}

fn redirected_path(filter: &Filter) -> Option<&PathRewrite> {
    match filter {
        Filter::Redirect(redirect) => match &redirect.target {
            RedirectTarget::Parts { path, .. } => path.as_ref(),
            RedirectTarget::Url(_) => None,
        },
        _ => None,
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
