//! What backends say that they were given, held against what the generator sent: requests that came twice, and requests
//! that never came. Never sends a request.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;

use super::handover::Handover;
use crate::backend::{Collector, Register};
use crate::cluster::Cluster;
use crate::load::{Ended, Fates};
use crate::results::{Class, Delivered, Deliveries, Load};

/// How long backends may take to tell what they were given last.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests that are named at most, of each measure.
const EXAMPLES: usize = 5;

/// Where backends tell which requests they were given.
pub(super) enum Receipts {
    Collected(Collector),
    /// They cannot tell: why not.
    Uncollected(String),
}

impl Receipts {
    /// Begins to collect, where pods can reach this process: in a testbed, whose node it runs on.
    pub(super) async fn begin(handover: &Handover, cluster: Option<&Cluster>) -> Self {
        let Some(cluster) = cluster.filter(|_| handover.is_in_testbed()) else {
            return Self::Uncollected(
                "backends in a cluster of yours have no way to tell this program which requests they were given".to_owned(),
            );
        };
        match collector(cluster).await {
            Ok(collector) => Self::Collected(collector),
            Err(error) => Self::Uncollected(format!(
                "backends could not tell which requests they were given: {error:#}"
            )),
        }
    }

    /// Where backends reach the collector.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Collected(collector) => Some(collector.address()),
            Self::Uncollected(_) => None,
        }
    }

    /// What backends say of the requests of a stream that has ended; none for a stream without ids. A POST that was done
    /// twice is no good answer, whatever its client saw.
    pub(super) fn compare(&self, fates: Option<&Fates>, load: &mut Load) -> Option<Deliveries> {
        let collector = match self {
            Self::Collected(collector) => collector,
            Self::Uncollected(reason) => return Some(Deliveries::Uncounted { reason: reason.clone() }),
        };
        let fates = fates?;
        if let Err(error) = collector.settle(PATIENCE) {
            return Some(Deliveries::Uncounted { reason: format!("{error:#}") });
        }
        let sum = collector.look(|register| Sum::of(fates, register));
        if sum.answered_twice > 0 {
            load.counts.ok = load.counts.ok.saturating_sub(sum.answered_twice);
            *load.errors.entry(Class::Duplicated).or_default() += sum.answered_twice;
        }
        Some(Deliveries::Counted(sum.delivered))
    }

    /// The streams until now are over.
    pub(super) fn forget(&self) {
        if let Self::Collected(collector) = self {
            collector.forget();
        }
    }
}

async fn collector(cluster: &Cluster) -> anyhow::Result<Collector> {
    let node = cluster.node().await?;
    Collector::start(SocketAddr::new(node, 0)).context("on the node's address")
}

#[derive(Default)]
struct Sum {
    delivered: Delivered,
    /// POSTs that were answered well and delivered more than once.
    answered_twice: u64,
}

impl Sum {
    fn of(fates: &Fates, register: &Register) -> Self {
        let mut sum = Self::default();
        for ended in fates.all() {
            sum.add(ended, register.times(ended.id));
        }
        sum
    }

    fn add(&mut self, ended: Ended, times: u8) {
        let delivered = &mut self.delivered;
        delivered.sent += 1;
        delivered.posts += u64::from(ended.is_post);
        delivered.seen += u64::from(times > 0);
        match (times > 0, ended.is_answered) {
            (false, true) => delivered.answered_unseen += 1,
            (true, false) => delivered.failed_seen += 1,
            (false, false) => delivered.failed_unseen += 1,
            (true, true) => {}
        }
        if times < 2 {
            return;
        }
        let method = if ended.is_post { "POST" } else { "GET" };
        *(if ended.is_post { &mut delivered.repeated_posts } else { &mut delivered.repeated_gets }) += 1;
        self.answered_twice += u64::from(ended.is_post && ended.is_answered);
        if delivered.examples.len() < EXAMPLES {
            let fate = if ended.is_answered { "answered" } else { "failed" };
            delivered.examples.push(format!("{method} {}, {times} times, {fate}", ended.id));
        }
    }
}
