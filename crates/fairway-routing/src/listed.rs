//! Candidates that are tried one after the other, as listed: an ingress-nginx host with a regular expression on it.

use fairway_model::VirtualHost;

use crate::candidate::{PathCandidate, proposals};
use crate::request::{Fields, Request};

/// The candidates of a host in listed order.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    candidates: Box<[PathCandidate]>,
}

impl Listed {
    /// Takes the matches of `host`; `problem` hears of those that cannot be compiled, which then match nothing.
    pub(crate) fn compiled(host: &VirtualHost, mut problem: impl FnMut(u32, String)) -> Self {
        let candidates = proposals(host)
            .filter_map(|proposal| proposal.path_candidate().map_err(|why| problem(proposal.rule, why)).ok())
            .collect();
        Self { candidates }
    }

    /// Whether the length of a path decides what a lookup costs.
    pub(crate) fn reads_on(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.path.reads_on())
    }

    /// The number of the first rule that fits, and the bytes of the path that it covers.
    pub(crate) fn find<F: Fields>(&self, path: &[u8], request: &Request<'_, F>) -> Option<(u32, usize)> {
        self.candidates.iter().find_map(|PathCandidate { path: test, candidate }| {
            let covered = test.covered(path)?;
            candidate.fits(request).then_some((candidate.rule, covered))
        })
    }
}
