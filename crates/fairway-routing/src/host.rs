//! A virtual host, compiled: its rules and the structure that finds one of them for a request.

use std::sync::Arc;

use fairway_model::{CertificateKey, HostKey, PathForm, RuleOrder, VirtualHost};

use crate::listed::Listed;
use crate::slots::Slots;
use crate::tree::Tree;
use crate::{CompiledRule, Fields, Problem, Request};

/// All routes of one host, ready for lookups. The same value from snapshot to snapshot while the host does not change.
#[derive(Debug)]
pub struct CompiledHost {
    model: Arc<VirtualHost>,
    /// Of all routes, as listed.
    rules: Box<[CompiledRule]>,
    table: Table,
    problems: Box<[Problem]>,
}

#[derive(Debug)]
enum Table {
    Precedence(Tree),
    Listed(Listed),
}

impl CompiledHost {
    /// Its route table and host pattern.
    #[must_use]
    pub fn key(&self) -> &HostKey {
        &self.model.key
    }

    /// The host of the model.
    #[must_use]
    pub fn model(&self) -> &Arc<VirtualHost> {
        &self.model
    }

    /// The certificate for TLS clients that name the host.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateKey> {
        self.model.certificate.as_ref()
    }

    /// The form of the path that its rules are written for.
    #[must_use]
    pub fn path_form(&self) -> PathForm {
        self.model.path_form
    }

    /// Its rules, of all routes, as listed.
    #[must_use]
    pub fn rules(&self) -> &[CompiledRule] {
        &self.rules
    }

    /// What could not be compiled.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Compiles `model`. The slots of its backends are acquired; [`Self::release`] gives them back.
    pub(crate) fn compiled(model: &Arc<VirtualHost>, slots: &mut Slots) -> Self {
        let mut problems = Vec::new();
        let places =
            model.routes.iter().flat_map(|route| (0..route.rules.len()).map(move |number| (route, number)));
        let rules: Box<[_]> = places
            .map(|(route, number)| {
                let origin = &route.rules[number].origin;
                let problem = |why| problems.push(Problem { origin: origin.clone(), text: why + REFUSED });
                CompiledRule::compiled(model, route, number, slots, problem)
            })
            .collect();
        let problem = |rule: u32, why| {
            let origin = rules[rule as usize].rule().origin.clone();
            problems.push(Problem { origin, text: why + UNMATCHED });
        };
        let table = match model.order {
            RuleOrder::Precedence => Table::Precedence(Tree::compiled(model, problem)),
            RuleOrder::Listed => Table::Listed(Listed::compiled(model, problem)),
        };
        Self { model: model.clone(), rules, table, problems: problems.into() }
    }

    pub(crate) fn release(&self, slots: &mut Slots) {
        for slot in self.rules.iter().flat_map(|rule| rule.targets().slots()) {
            slots.release(slot);
        }
    }

    /// The rule for a request, and the bytes of the path that its match covers.
    #[inline]
    pub(crate) fn find<F: Fields>(&self, request: &Request<'_, F>) -> Option<(&CompiledRule, usize)> {
        let path = match self.model.path_form {
            PathForm::Normalised => request.normalised,
            PathForm::Decoded => request.decoded,
        };
        let (rule, covered) = match &self.table {
            Table::Precedence(tree) => tree.find(path, request),
            Table::Listed(listed) => listed.find(path, request),
        }?;
        Some((&self.rules[rule as usize], covered))
    }
}

const REFUSED: &str = "; requests of this rule are answered 500";
const UNMATCHED: &str = "; this match never applies";
