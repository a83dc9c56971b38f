//! Candidates that are tried one after the other, as listed: for ingress-nginx hosts with a regular expression.

use fairway_model::VirtualHost;

use crate::candidate::{PathCandidate, proposals};
use crate::request::{Fields, Request};

/// The candidates of a host in listed order.
#[derive(Clone, Debug)]
pub(crate) struct ListedCandidates {
    candidates: Box<[PathCandidate]>,
}

impl ListedCandidates {
    /// The matches of `host`; `problem` is called for those that cannot be compiled, which then never match.
    pub(crate) fn compiled(host: &VirtualHost, mut problem: impl FnMut(u32, String)) -> Self {
        let candidates = proposals(host)
            .filter_map(|proposal| proposal.path_candidate().map_err(|why| problem(proposal.rule, why)).ok())
            .collect();
        Self { candidates }
    }

    /// Whether the cost of a lookup depends on the length of the path.
    pub(crate) fn reads_on(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.path.reads_on())
    }

    /// The index of the first matching rule, and the bytes of the path that it covers.
    pub(crate) fn find<F: Fields>(&self, path: &[u8], request: &Request<'_, F>) -> Option<(u32, usize)> {
        self.candidates.iter().find_map(|PathCandidate { path: test, candidate }| {
            let covered = test.covered(path)?;
            candidate.fits(request).then_some((candidate.rule, covered))
        })
    }
}
