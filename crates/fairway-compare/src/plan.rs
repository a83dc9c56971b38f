//! Everything that will be asked, before anything is. Sends nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Duration;

use fairway_routing::Snapshot;
use serde::Serialize;

use crate::address::Schemes;
use crate::probe::{Ask, Probe};
use crate::{access_log, generate};

/// What will be asked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In the order in which it is asked: host by host.
    pub probes: Vec<Probe>,
    /// What will not be asked.
    pub skipped: Vec<Skipped>,
    /// Which ports are asked.
    pub schemes: Schemes,
    /// Whether an object asks for any of what is served.
    pub is_of_objects: bool,
    most: usize,
}

/// What is not asked, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// A sentence's end: what and why.
    pub why: String,
    /// How often.
    pub count: usize,
}

impl Plan {
    /// The probes of a configuration; at most `most`.
    #[must_use]
    pub fn of(snapshot: &Snapshot, schemes: Schemes, most: usize) -> Self {
        let all = generate::collected(snapshot.config(), schemes);
        let is_of_objects = all.is_of_objects;
        let mut plan = Self { probes: all.probes, skipped: Vec::new(), schemes, is_of_objects, most };
        plan.skip("probes of the objects that no request can say", all.unaskable);
        plan.bound();
        plan
    }

    /// Adds the requests of an access log of ingress-nginx.
    ///
    /// # Errors
    /// Those of `log`.
    pub fn add_log(&mut self, log: impl BufRead, snapshot: &Snapshot) -> io::Result<()> {
        let log = access_log::read(log, snapshot, self.schemes)?;
        let known: BTreeSet<String> =
            self.probes.iter().map(|probe| format!("{:?}", probe.question())).collect();
        let new = log.probes.into_iter().filter(|probe| !known.contains(&format!("{:?}", probe.question())));
        self.probes.extend(new);
        for (why, count) in log.skipped {
            self.skip(&format!("lines of the access log: {why}"), count);
        }
        self.bound();
        Ok(())
    }

    /// How many probes each host gets.
    #[must_use]
    pub fn hosts(&self) -> BTreeMap<&str, usize> {
        let mut hosts = BTreeMap::new();
        for probe in &self.probes {
            *hosts.entry(&*probe.host).or_default() += 1;
        }
        hosts
    }

    /// How many probes there are of each kind.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<Ask, usize> {
        let mut kinds = BTreeMap::new();
        for probe in &self.probes {
            *kinds.entry(probe.ask).or_default() += 1;
        }
        kinds
    }

    /// How long it takes at `rate` probes per second and side, if all is the same.
    #[must_use]
    pub fn duration(&self, rate: u32) -> Duration {
        Duration::from_secs_f64(2.0 * self.probes.len() as f64 / f64::from(rate.max(1)))
    }

    /// A host that both sides should know.
    pub(crate) fn first_host(&self) -> Option<Arc<str>> {
        self.probes.first().map(|probe| Arc::clone(&probe.host))
    }

    fn skip(&mut self, why: &str, count: usize) {
        if count > 0 {
            self.skipped.push(Skipped { why: why.to_owned(), count });
        }
    }

    fn bound(&mut self) {
        let beyond = self.probes.len().saturating_sub(self.most);
        self.probes.truncate(self.most);
        self.skip(&format!("probes beyond the first {} (--limit)", self.most), beyond);
    }
}
