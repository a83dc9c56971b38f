//! The plan of a comparison: all probes, before any is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Duration;

use fairway_routing::Snapshot;
use serde::Serialize;

use crate::address::Schemes;
use crate::probe::{Probe, ProbeKind};
use crate::{access_log, generate};

/// The probes of a comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The probes in the order in which they are sent, host by host.
    pub probes: Vec<Probe>,
    /// Probes that will not be sent.
    pub skipped: Vec<Skipped>,
    /// The ports to probe.
    pub schemes: Schemes,
    /// Whether any probe comes from a rule of an object.
    pub is_of_objects: bool,
    max_probes: usize,
}

/// Probes that are not sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The end of a sentence: which probes, and why.
    pub why: String,
    /// The number of probes.
    pub count: usize,
}

impl Plan {
    /// Generates the probes of a configuration, at most `limit`.
    #[must_use]
    pub fn from_snapshot(snapshot: &Snapshot, schemes: Schemes, limit: usize) -> Self {
        let all = generate::collect_probes(snapshot.config(), schemes);
        let is_of_objects = all.is_of_objects;
        let mut plan =
            Self { probes: all.probes, skipped: Vec::new(), schemes, is_of_objects, max_probes: limit };
        plan.skip("generated probes that are not valid requests", all.invalid);
        plan.truncate();
        plan
    }

    /// Adds the requests of an access log of ingress-nginx.
    ///
    /// # Errors
    /// Reading `log` fails.
    pub fn add_log(&mut self, log: impl BufRead, snapshot: &Snapshot) -> io::Result<()> {
        let log = access_log::read(log, snapshot, self.schemes)?;
        let known: BTreeSet<String> =
            self.probes.iter().map(|probe| format!("{:?}", probe.dedup_key())).collect();
        let new = log.probes.into_iter().filter(|probe| !known.contains(&format!("{:?}", probe.dedup_key())));
        self.probes.extend(new);
        for (why, count) in log.skipped {
            self.skip(&format!("lines of the access log: {why}"), count);
        }
        self.truncate();
        Ok(())
    }

    /// The number of probes per host.
    #[must_use]
    pub fn hosts(&self) -> BTreeMap<&str, usize> {
        let mut hosts = BTreeMap::new();
        for probe in &self.probes {
            *hosts.entry(&*probe.host).or_default() += 1;
        }
        hosts
    }

    /// The number of probes per kind.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<ProbeKind, usize> {
        let mut kinds = BTreeMap::new();
        for probe in &self.probes {
            *kinds.entry(probe.kind).or_default() += 1;
        }
        kinds
    }

    /// How long the comparison takes at `rate` probes per second and side, if there are no differences.
    #[must_use]
    pub fn duration(&self, rate: u32) -> Duration {
        Duration::from_secs_f64(2.0 * self.probes.len() as f64 / f64::from(rate.max(1)))
    }

    /// A host that both sides should serve.
    pub(crate) fn first_host(&self) -> Option<Arc<str>> {
        self.probes.first().map(|probe| Arc::clone(&probe.host))
    }

    fn skip(&mut self, why: &str, count: usize) {
        if count > 0 {
            self.skipped.push(Skipped { why: why.to_owned(), count });
        }
    }

    fn truncate(&mut self) {
        let beyond = self.probes.len().saturating_sub(self.max_probes);
        self.probes.truncate(self.max_probes);
        self.skip(&format!("probes beyond the first {} (--limit)", self.max_probes), beyond);
    }
}
