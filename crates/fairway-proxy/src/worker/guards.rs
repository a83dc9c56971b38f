//! What guards need besides the request: what all workers count together, what verifies passwords, and answers of services
//! that were asked before.

use std::sync::Arc;

use fairway_guards::{KeptAnswers, Passwords, Pool};
use fairway_runtime::counts::Counts;

/// Of a worker.
pub(crate) struct Guards {
    /// What policies count, together with the other workers.
    pub(crate) counts: Arc<Counts>,
    pub(crate) passwords: Passwords,
    pub(crate) answers: KeptAnswers,
}

/// What the guards of all workers share.
#[derive(Clone)]
pub(crate) struct SharedGuards {
    counts: Arc<Counts>,
    pool: Arc<Pool>,
}

impl SharedGuards {
    /// Of a process with this many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self { counts: Counts::new(), pool: Pool::new(workers) }
    }

    /// Those of a worker.
    pub(super) fn of_worker(self) -> Guards {
        let answers = KeptAnswers::default();
        Guards { counts: self.counts, passwords: Passwords::new(self.pool), answers }
    }
}
