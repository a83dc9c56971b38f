//! Compares the requests that backends received with those the generator sent: duplicates and requests that never arrived.
//! Sends no requests.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use fairway_lab_measure::results::{Class, Delivered, Deliveries, Load};
use fairway_lab_traffic::backend::{Collector, Register};
use fairway_lab_traffic::load::{Fates, FinishedRequest};

use super::handover::Handover;
use crate::cluster::Cluster;

/// Timeout for the backends' last reports.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of example requests of each measure.
const MAX_EXAMPLES: usize = 5;

/// Where backends report the requests they received.
pub(super) enum Receipts {
    Collected(Collector),
    /// They cannot report, with the reason.
    Uncollected(String),
}

impl Receipts {
    /// Starts collecting where pods can reach this process: in a testbed, on its node; otherwise at the user's address.
    ///
    /// # Errors
    /// It cannot listen at the user's address.
    pub(super) async fn start(handover: &Handover, cluster: &Cluster) -> anyhow::Result<Self> {
        if let Some(address) = handover.collector {
            let collector = Collector::start(address);
            return collector.map(Self::Collected).context("--collector must be an address of this machine");
        }
        if !handover.is_in_testbed() {
            return Ok(Self::Uncollected(
                "backends in a cluster of yours tell this machine which requests they were given with --collector only"
                    .to_owned(),
            ));
        }
        Ok(match on_node(cluster).await {
            Ok(collector) => Self::Collected(collector),
            Err(error) => Self::Uncollected(format!(
                "backends could not tell which requests they were given: {error:#}"
            )),
        })
    }

    /// The collector's address for backends.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Collected(collector) => Some(collector.address()),
            Self::Uncollected(_) => None,
        }
    }

    /// The backends' receipts for a stream that has ended; `None` for a stream without ids. A POST that was delivered twice
    /// is not a success, whatever its client saw.
    pub(super) fn compare(&self, fates: Option<&Fates>, load: &mut Load) -> Option<Deliveries> {
        let collector = match self {
            Self::Collected(collector) => collector,
            Self::Uncollected(reason) => return Some(Deliveries::Uncounted { reason: reason.clone() }),
        };
        let fates = fates?;
        if let Err(error) = collector.wait_until_settled(RECEIPT_TIMEOUT) {
            return Some(Deliveries::Uncounted { reason: format!("{error:#}") });
        }
        let sum = collector.with_register(|register| Sum::from_fates(fates, register));
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

async fn on_node(cluster: &Cluster) -> anyhow::Result<Collector> {
    let node = cluster.node().await?;
    Collector::start(SocketAddr::new(node, 0)).context("on the node's address")
}

#[derive(Default)]
struct Sum {
    delivered: Delivered,
    /// POSTs with an expected response that were delivered more than once.
    answered_twice: u64,
}

impl Sum {
    fn from_fates(fates: &Fates, register: &Register) -> Self {
        let mut sum = Self::default();
        for ended in fates.finished_requests() {
            sum.add(ended, register.times(ended.id));
        }
        sum
    }

    fn add(&mut self, ended: FinishedRequest, times: u8) {
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
        if delivered.examples.len() < MAX_EXAMPLES {
            let fate = if ended.is_answered { "answered" } else { "failed" };
            delivered.examples.push(format!("{method} {}, {times} times, {fate}", ended.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_lab_traffic::backend::{Faults, Options, Server};
    use fairway_lab_traffic::load::{Outcome, Pace, Plan, Stream};

    fn receipts() -> Receipts {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Receipts::Collected(Collector::start(any).expect("a port is free"))
    }

    fn backend(receipts: &Receipts, faults: Faults) -> Server {
        let Receipts::Collected(collector) = receipts else { panic!("nobody collects") };
        let before = collector.backends();
        let options = Options { record: receipts.address(), faults, size: 8, ..Options::default() };
        let server = Server::start(options).expect("it starts");
        let deadline = std::time::Instant::now() + RECEIPT_TIMEOUT;
        while collector.backends() == before {
            assert!(std::time::Instant::now() < deadline, "waited for the backend to reach the collector");
            std::thread::yield_now();
        }
        server
    }

    /// A stream to these addresses in turn; every fifth request is a POST.
    fn stream(addresses: Vec<SocketAddr>, requests: u64) -> Outcome {
        let mut plan = Plan::for_addresses("http://a.test/", addresses).expect("it is a URL");
        plan.pace = Pace::Open { rate: 2_000.0, poisson: false };
        plan.bounds.requests = Some(requests);
        plan.shape.connections = 4;
        plan.shape.threads = 2;
        (plan.request.ids, plan.request.posts) = (true, 0.2);
        Stream::start(plan).and_then(Stream::join).expect("it runs")
    }

    fn count_delivered(receipts: &Receipts, outcome: &mut Outcome) -> Delivered {
        match receipts.compare(outcome.fates.as_ref(), &mut outcome.load) {
            Some(Deliveries::Counted(delivered)) => delivered,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_that_arrived_is_seen_once_as_soon_as_the_stream_is_over() {
        let receipts = receipts();
        let servers = [backend(&receipts, Faults::default()), backend(&receipts, Faults::default())];
        let addresses = servers.iter().map(|server| server.addresses()[0]).collect();
        let mut outcome = stream(addresses, 500);
        let delivered = count_delivered(&receipts, &mut outcome);
        let posts = delivered.posts;
        // A hundred, with a tolerance for requests that start on other connections.
        assert!((90..=110).contains(&posts), "{posts}");
        let expected = Delivered { sent: 500, posts, seen: 500, ..Delivered::default() };
        assert_eq!((delivered, outcome.load.errors.len()), (expected, 0));
        // Ids of another stream differ.
        assert_eq!(count_delivered(&receipts, &mut stream(vec![servers[0].addresses()[0]], 100)).seen, 100);
        servers.into_iter().for_each(Server::end);
    }

    #[test]
    fn a_request_that_failed_is_known_to_have_been_seen_or_not() {
        let receipts = receipts();
        let server = backend(&receipts, Faults { statuses: vec![(503, 1.0)], ..Faults::default() });
        let mut outcome = stream(vec![server.addresses()[0]], 50);
        let delivered = count_delivered(&receipts, &mut outcome);
        assert_eq!((delivered.sent, delivered.failed_seen, delivered.failed_unseen), (50, 50, 0));
        server.end();

        // A backend without a collector simulates one that was never reached.
        let server = Server::start(Options { size: 8, ..Options::default() }).expect("it starts");
        let mut outcome = stream(vec![server.addresses()[0]], 50);
        let delivered = count_delivered(&receipts, &mut outcome);
        assert_eq!((delivered.seen, delivered.answered_unseen), (0, 50));
        server.end();
    }

    #[test]
    fn a_get_may_come_twice_and_a_post_that_does_is_an_error() {
        let receipts = receipts();
        let server = backend(&receipts, Faults::default());
        let mut outcome = stream(vec![server.addresses()[0]], 100);
        let fates = outcome.fates.clone().expect("the plan asks for ids");
        let repeated = |is_post: bool, count: usize| {
            fates
                .finished_requests()
                .filter(move |ended| ended.is_post == is_post)
                .take(count)
                .map(|ended| ended.id)
        };
        // Simulates a proxy that sends a request to a second endpoint.
        for id in repeated(false, 3).chain(repeated(true, 2)) {
            let mut again =
                Plan::for_addresses("http://a.test/", vec![server.addresses()[0]]).expect("it is a URL");
            again.bounds.requests = Some(1);
            again.request.headers = vec![("X-Lab-Id".to_owned(), id.to_string())];
            Stream::start(again).and_then(Stream::join).expect("it runs");
        }
        let delivered = count_delivered(&receipts, &mut outcome);
        assert_eq!((delivered.seen, delivered.repeated_gets, delivered.repeated_posts), (100, 3, 2));
        assert_eq!(delivered.examples.len(), 5);
        assert_eq!(outcome.load.errors.get(&Class::Duplicated), Some(&2));
        assert_eq!(outcome.load.counts.ok, 98);
        receipts.forget();
        assert_eq!(count_delivered(&receipts, &mut outcome).seen, 0);
        server.end();
    }

    #[test]
    fn an_unreachable_collector_counts_nothing() {
        let receipts = receipts();
        let server = Server::start(Options::default()).expect("it starts");
        let mut outcome = stream(vec![server.addresses()[0]], 10);
        match receipts.compare(outcome.fates.as_ref(), &mut outcome.load) {
            Some(Deliveries::Uncounted { reason }) => {
                assert!(reason.starts_with("no backend has reached"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        server.end();
    }

    #[test]
    fn backends_without_a_collector_are_reported_with_the_reason() {
        let receipts = Receipts::Uncollected("too far away".to_owned());
        let deliveries = receipts.compare(None, &mut Load::default());
        assert_eq!(deliveries, Some(Deliveries::Uncounted { reason: "too far away".to_owned() }));
        assert_eq!(receipts.address(), None);
    }
}
