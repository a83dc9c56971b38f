//! A compiled virtual host: its rules and the lookup structure that finds one of them for a request.

use std::sync::Arc;

use fairway_model::{CertificateKey, HostKey, HostPattern, PathForm, RuleOrder, VirtualHost};
use fairway_pattern::LONGEST_TEXT;

use crate::candidate::{RankedMatch, proposals};
use crate::few_paths::FewPaths;
use crate::names::{Named, ShortName};
use crate::ordered_candidates::ListedCandidates;
use crate::problem::Problem;
use crate::rare_list::RareList;
use crate::request::{Fields, Request};
use crate::rule::CompiledRule;
use crate::slots::Slots;
use crate::tree::Tree;

/// The routes of one host, ready for lookups. The same value in all snapshots while the host does not change.
///
/// The layout minimises cache misses: a lookup among many hosts is bound by memory. The first two cache lines have what
/// it needs, and nearly always the paths of a host with few of them; the end of long ones is in a third. After the two
/// counts of an `Arc`, the name fills the first line. An alignment would put these counts on a line of their own.
#[derive(Debug)]
#[repr(C)]
pub struct CompiledHost {
    /// The exact name; empty for wildcards and catch-alls. This and the next four fields are here so that a lookup need
    /// not touch the model.
    name: ShortName,
    /// The rules of all routes, as listed.
    rules: Box<[CompiledRule]>,
    path_form: PathForm,
    falls_through: bool,
    /// Whether it has regular expressions whose cost depends on the length of the path: their cost is bounded for
    /// [`LONGEST_TEXT`].
    reads_on: bool,
    table: RuleTable,
    model: Arc<VirtualHost>,
    problems: RareList<Problem>,
}

#[derive(Debug)]
enum RuleTable {
    Few(FewPaths),
    Precedence(Tree),
    /// For routes with different hostname ranks: a table for each rank, highest first.
    Ranked(Box<[RuleTable]>),
    Listed(ListedCandidates),
}

impl RuleTable {
    /// For a host whose rules are tried by precedence; `problem` is called for matches that cannot be compiled.
    fn by_precedence(host: &VirtualHost, mut problem: impl FnMut(u32, String)) -> Self {
        let mut ordered: Vec<_> = proposals(host).collect();
        ordered.sort_by(RankedMatch::precedence);
        let mut same_rank =
            ordered.chunk_by(|one, next| one.route.hostname_rank == next.route.hostname_rank).peekable();
        let first = same_rank.next().unwrap_or_default();
        match same_rank.peek() {
            None => Self::of_one_rank(first, &mut problem),
            Some(_) => {
                let ranks = std::iter::once(first).chain(same_rank);
                Self::Ranked(ranks.map(|ordered| Self::of_one_rank(ordered, &mut problem)).collect())
            }
        }
    }

    fn of_one_rank(ordered: &[RankedMatch<'_>], problem: impl FnMut(u32, String)) -> Self {
        match FewPaths::from_matches(ordered) {
            Some(few) => Self::Few(few),
            None => Self::Precedence(Tree::compiled(ordered, problem)),
        }
    }

    /// The index of the rule for a request, and the bytes of the path that its match covers.
    #[inline]
    fn find<F: Fields>(&self, path: &[u8], request: &Request<'_, F>) -> Option<(u32, usize)> {
        match self {
            Self::Few(few) => few.find(path),
            Self::Precedence(tree) => tree.find(path, request),
            Self::Ranked(ranks) => find_by_rank(ranks, path, request),
            Self::Listed(listed) => listed.find(path, request),
        }
    }

    fn reads_on(&self) -> bool {
        match self {
            Self::Few(_) => false,
            Self::Precedence(tree) => tree.reads_on(),
            Self::Ranked(ranks) => ranks.iter().any(Self::reads_on),
            Self::Listed(listed) => listed.reads_on(),
        }
    }
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

    /// The certificate for TLS clients that request this host.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateKey> {
        self.model.certificate.as_ref()
    }

    /// The form of the path that its rules are written for.
    #[must_use]
    pub fn path_form(&self) -> PathForm {
        self.path_form
    }

    /// The rules of all routes, as listed.
    #[must_use]
    pub fn rules(&self) -> &[CompiledRule] {
        &self.rules
    }

    /// What could not be compiled.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub(crate) fn falls_through(&self) -> bool {
        self.falls_through
    }

    /// Whether the path is too long for the regular expressions of the host: then no rule matches, here and on less
    /// specific hosts.
    #[inline]
    pub(crate) fn is_too_long(&self, path: &[u8]) -> bool {
        self.reads_on && path.len() > LONGEST_TEXT
    }

    /// The path in the form that the rules are written for.
    #[inline]
    pub(crate) fn path<'r, F>(&self, request: &Request<'r, F>) -> &'r [u8] {
        match self.path_form {
            PathForm::Normalised => request.normalised,
            PathForm::Decoded => request.decoded,
        }
    }

    /// Compiles `model` and acquires the slots of its backends; [`Self::release`] releases them.
    pub(crate) fn compiled(model: &Arc<VirtualHost>, slots: &mut Slots) -> Self {
        let mut problems = Vec::new();
        let rule_indexes =
            model.routes.iter().flat_map(|route| (0..route.rules.len()).map(move |number| (route, number)));
        let rules: Box<[_]> = rule_indexes
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
            RuleOrder::Precedence => RuleTable::by_precedence(model, problem),
            RuleOrder::Listed => RuleTable::Listed(ListedCandidates::compiled(model, problem)),
        };
        let name = match &model.key.host {
            HostPattern::Exact(name) => ShortName::new(name),
            HostPattern::Wildcard { .. } | HostPattern::Any => ShortName::new(&"".into()),
        };
        Self {
            name,
            path_form: model.path_form,
            falls_through: model.falls_through,
            reads_on: table.reads_on() || rules.iter().any(CompiledRule::reads_on),
            model: model.clone(),
            rules,
            table,
            problems: problems.into(),
        }
    }

    pub(crate) fn release(&self, slots: &mut Slots) {
        for slot in self.rules.iter().flat_map(CompiledRule::slots) {
            slots.release(slot);
        }
    }

    /// The rule for a request, and the bytes of the path that its match covers.
    #[inline]
    pub(crate) fn find<F: Fields>(&self, request: &Request<'_, F>) -> Option<(&CompiledRule, usize)> {
        let path = self.path(request);
        if self.is_too_long(path) {
            return None;
        }
        let (rule, covered) = self.table.find(path, request)?;
        Some((&self.rules[rule as usize], covered))
    }
}

/// Separate from [`RuleTable::find`], which is inlined: hardly any host has ranks.
#[cold]
fn find_by_rank<F: Fields>(
    ranks: &[RuleTable],
    path: &[u8],
    request: &Request<'_, F>,
) -> Option<(u32, usize)> {
    ranks.iter().find_map(|table| match table {
        RuleTable::Few(few) => few.find(path),
        RuleTable::Precedence(tree) => tree.find(path, request),
        // Ranks are not nested, and listed hosts have none.
        RuleTable::Ranked(_) | RuleTable::Listed(_) => None,
    })
}

impl Named for CompiledHost {
    #[inline]
    fn name(&self) -> &[u8] {
        self.name.bytes()
    }
}

const REFUSED: &str = "; requests of this rule are answered 500";
const UNMATCHED: &str = "; this match never applies";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_the_counts_of_its_arc_are_three_cache_lines() {
        let counts = 2 * size_of::<usize>();
        assert_eq!(counts + size_of::<CompiledHost>(), 192);
        assert_eq!(counts + std::mem::offset_of!(CompiledHost, rules), 64);
    }
}
