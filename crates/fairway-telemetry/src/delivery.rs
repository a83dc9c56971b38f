//! Delivers the messages of one signal in order, with retries where OTLP allows them, for a limited time.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fairway_model::Collector;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::counts::{Counts, DropReason};
use crate::failure::{Failure, FailureKind, truncated};
use crate::message::{Message, PartialSuccess};
use crate::signal::Signal;
use crate::transport::{Connect, Link};

/// Timeout of one request.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a message is retried at most.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// The first pause before a retry; it doubles each time.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause, unless the collector asks for more.
const MAX_BACKOFF: Duration = Duration::from_secs(15);
/// The minimum interval between warnings about one signal.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);

/// The current collector.
pub(crate) type CurrentCollector = watch::Receiver<Option<Arc<Collector>>>;

/// Delivers the messages of one signal.
pub(crate) struct Delivery<C: Connect> {
    signal: Signal,
    connect: Rc<C>,
    collector: CurrentCollector,
    /// The link to the collector it was opened for.
    link: Option<(Arc<Collector>, C::Link)>,
    counts: Arc<Counts>,
    random: fastrand::Rng,
    /// When the last warning was logged, and whether deliveries have failed since the last success.
    warned: Option<Instant>,
    is_failing: bool,
    in_flight: Rc<Cell<u64>>,
}

/// The dependencies of a delivery.
pub(crate) struct DeliveryParts<C> {
    pub(crate) connect: Rc<C>,
    pub(crate) collector: CurrentCollector,
    pub(crate) counts: Arc<Counts>,
    pub(crate) random: fastrand::Rng,
}

/// Why a message was given up.
struct DeliveryError {
    why: DropReason,
    message: String,
}

impl<C: Connect> Delivery<C> {
    pub(crate) fn new(signal: Signal, parts: DeliveryParts<C>) -> Self {
        let DeliveryParts { connect, collector, counts, random } = parts;
        Self {
            signal,
            connect,
            collector,
            link: None,
            counts,
            random,
            warned: None,
            is_failing: false,
            in_flight: Rc::default(),
        }
    }

    /// The number of items in the message being delivered: they are lost if the delivery is abandoned.
    pub(crate) fn in_flight(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.in_flight)
    }

    /// Sends a message until it is accepted or given up, and counts the outcome. Returns whether it was accepted.
    pub(crate) async fn deliver(&mut self, message: Message) -> bool {
        let Message { bytes, items } = message;
        self.in_flight.set(items);
        let settled = self.send_with_retries(bytes, items).await;
        self.in_flight.set(0);
        match settled {
            Ok(verdict) => {
                self.report_accepted(&verdict, items);
                true
            }
            Err(DeliveryError { why, message }) => {
                self.counts.record_dropped(self.signal, why, items);
                if why != DropReason::NoCollector {
                    self.warn(&format!("a message is dropped: {message}"));
                }
                false
            }
        }
    }

    async fn send_with_retries(&mut self, bytes: Bytes, items: u64) -> Result<PartialSuccess, DeliveryError> {
        let began = Instant::now();
        let mut backoff = FIRST_BACKOFF;
        loop {
            let failure = match self.send(bytes.clone()).await? {
                Ok(response) => return Ok(PartialSuccess::decode(self.signal, &response, items)),
                Err(failure) => failure,
            };
            let Failure { kind, message } = failure;
            let request = match kind {
                FailureKind::Rejected => return Err(DeliveryError { why: DropReason::Rejected, message }),
                FailureKind::Retryable(after) => after.unwrap_or_default(),
                FailureKind::NoResponse => {
                    // The connection may be dead.
                    self.link = None;
                    Duration::ZERO
                }
            };
            // Jitter, so that deliveries that failed together are not retried together.
            let pause = request.max(backoff.mul_f64(0.75 + 0.5 * self.random.f64()));
            backoff = MAX_BACKOFF.min(backoff * 2);
            if began.elapsed().saturating_add(pause) > RETRY_TIMEOUT {
                return Err(DeliveryError { why: DropReason::Unreachable, message });
            }
            self.warn(&format!("{message}; retrying for a minute"));
            let is_other = async |collector: &mut CurrentCollector| {
                if collector.changed().await.is_err() {
                    pending::<()>().await;
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = is_other(&mut self.collector) => {}
            }
        }
    }

    /// Sends a message once.
    async fn send(&mut self, bytes: Bytes) -> Result<Result<Bytes, Failure>, DeliveryError> {
        let signal = self.signal;
        let link = self.link()?;
        let sent = match timeout(EXPORT_TIMEOUT, link.send(signal, bytes)).await {
            Ok(sent) => sent,
            Err(_) => Err(Failure {
                kind: FailureKind::NoResponse,
                message: format!("no response within {} s", EXPORT_TIMEOUT.as_secs()),
            }),
        };
        self.counts.record_export(signal, sent.is_ok());
        Ok(sent)
    }

    /// The link to the current collector.
    fn link(&mut self) -> Result<&C::Link, DeliveryError> {
        let Some(collector) = self.collector.borrow_and_update().clone() else {
            self.link = None;
            return Err(DeliveryError { why: DropReason::NoCollector, message: String::new() });
        };
        let known_link = self.link.take().filter(|(known, _)| *known == collector);
        let (_, link) = match known_link {
            Some(kept) => self.link.insert(kept),
            None => {
                let link = self.connect.connect(&collector);
                let link = link.map_err(|message| DeliveryError { why: DropReason::Unreachable, message })?;
                self.link.insert((collector, link))
            }
        };
        Ok(link)
    }

    /// The collector accepted a message.
    fn report_accepted(&mut self, verdict: &PartialSuccess, items: u64) {
        self.counts.record_sent(self.signal, items - verdict.rejected);
        self.counts.record_dropped(self.signal, DropReason::Rejected, verdict.rejected);
        if verdict.rejected > 0 || !verdict.text.is_empty() {
            let PartialSuccess { rejected, text } = verdict;
            self.warn(&format!("it rejects {rejected} of {items} items: {}", truncated(text)));
        } else if self.is_failing {
            self.is_failing = false;
            tracing::info!(signal = self.signal.label(), "the collector accepts everything again");
        }
    }

    fn warn(&mut self, message: &str) {
        let is_due = self.warned.is_none_or(|warned| warned.elapsed() >= NOTICE_INTERVAL);
        if is_due {
            self.warned = Some(Instant::now());
            self.is_failing = true;
            let endpoint = self.collector.borrow().as_ref().map(|it| Arc::clone(&it.endpoint));
            tracing::warn!(
                signal = self.signal.label(),
                collector = endpoint.as_deref().unwrap_or("none"),
                dropped = self.counts.dropped_items(self.signal),
                "telemetry: {message}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ScriptedCollector, ScriptedResponse, retry_after, sum_of_counts, unavailable};

    struct TestDelivery {
        script: ScriptedCollector,
        collector: watch::Sender<Option<Arc<Collector>>>,
        counts: Arc<Counts>,
        delivery: Delivery<ScriptedCollector>,
        began: Instant,
    }

    impl TestDelivery {
        fn new(acts: impl IntoIterator<Item = ScriptedResponse>) -> Self {
            let script = ScriptedCollector::with_responses(acts);
            let (sender, collector) = watch::channel(Some(Arc::new(Collector::at("http://first"))));
            let counts = Arc::new(Counts::default());
            let parts = DeliveryParts {
                connect: Rc::new(script.clone()),
                collector,
                counts: Arc::clone(&counts),
                random: fastrand::Rng::with_seed(1),
            };
            let delivery = Delivery::new(Signal::Traces, parts);
            Self { script, collector: sender, counts, delivery, began: Instant::now() }
        }

        async fn deliver(&mut self) {
            let message = Message { bytes: Bytes::from_static(b"x"), items: 5 };
            self.delivery.deliver(message).await;
        }

        /// When requests arrived, in seconds since the start.
        fn seconds(&self) -> Vec<f64> {
            self.script.requests().iter().map(|it| (it.at - self.began).as_secs_f64()).collect()
        }

        fn count(&self, name: &str) -> u64 {
            sum_of_counts(&self.counts, name, Signal::Traces)
        }

        fn dropped(&self, reason: &str) -> u64 {
            self.count(&format!("fairway_otlp_items_dropped_total{{signal=\"traces\",reason=\"{reason}\""))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_accepted_message_is_sent_once() {
        let mut bench = TestDelivery::new([ScriptedResponse::Accept]);
        bench.deliver().await;
        bench.deliver().await;
        assert_eq!(bench.seconds(), [0.0, 0.0]);
        assert_eq!(bench.count("fairway_otlp_items_sent_total"), 10);
        assert_eq!(bench.count("fairway_otlp_exports_total"), 2);
        assert_eq!(bench.script.links(), 1, "the connections are kept");
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_items_are_counted_and_never_sent_again() {
        for (rejected, counted) in [(2, 2), (99, 5), (-3, 0)] {
            let mut bench = TestDelivery::new([ScriptedResponse::Reject(rejected)]);
            bench.deliver().await;
            assert_eq!(bench.seconds().len(), 1);
            let sent = bench.count("fairway_otlp_items_sent_total");
            assert_eq!((bench.dropped("rejected"), sent), (counted, 5 - counted));
        }
        let mut bench = TestDelivery::new([ScriptedResponse::Fail(Failure::rejected("bad data"))]);
        bench.deliver().await;
        assert_eq!((bench.seconds().len(), bench.dropped("rejected")), (1, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_collector_is_not_retried_before_its_retry_after() {
        let mut bench = TestDelivery::new([retry_after(7), retry_after(20)]);
        bench.deliver().await;
        let at = bench.seconds();
        assert!(at.len() == 3 && at[1] >= 7.0 && at[1] < 7.5 && at[2] - at[1] >= 20.0, "{at:?}");
        assert_eq!(bench.count("fairway_otlp_items_sent_total"), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end_after_a_minute() {
        let mut bench = TestDelivery::new((0..100).map(|_| unavailable()));
        bench.deliver().await;
        let at = bench.seconds();
        assert!((5..=9).contains(&at.len()) && at.last().is_some_and(|last| *last <= 60.0), "{at:?}");
        let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (pause, expected) in pauses.iter().zip([1.0, 2.0, 4.0, 8.0]) {
            assert!((expected * 0.75..=expected * 1.25 + 0.01).contains(pause), "{pauses:?}");
        }
        assert_eq!(bench.dropped("unreachable"), 5);
        assert_eq!(bench.script.links(), at.len(), "each over a new connection");
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_delay_beyond_the_limit_gives_up_at_once() {
        let mut bench = TestDelivery::new([retry_after(3_600)]);
        bench.deliver().await;
        assert_eq!((bench.seconds().len(), bench.dropped("unreachable")), (1, 5));
        assert!(bench.began.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_response_is_given_up_after_ten_seconds() {
        let mut bench = TestDelivery::new([ScriptedResponse::Hang]);
        bench.deliver().await;
        let at = bench.seconds();
        assert!(at.len() == 2 && at[1] >= 10.75 && at[1] <= 11.26, "{at:?}");
        assert_eq!(bench.count("fairway_otlp_items_sent_total"), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_collector_gets_items_that_the_previous_one_did_not_accept() {
        let mut bench = TestDelivery::new([retry_after(50)]);
        let other = Arc::new(Collector::at("http://second"));
        let change = bench.collector.clone();
        let changed = async {
            sleep(Duration::from_secs(5)).await;
            change.send_replace(Some(other));
        };
        tokio::join!(bench.deliver(), changed);
        let to: Vec<_> = bench.script.requests().into_iter().map(|it| it.target.to_string()).collect();
        assert_eq!(to, ["http://first", "http://second"]);
        assert_eq!(bench.began.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_collector_nothing_is_sent() {
        let mut bench = TestDelivery::new([]);
        bench.collector.send_replace(None);
        bench.deliver().await;
        assert_eq!((bench.seconds().len(), bench.dropped("no_collector")), (0, 5));
        bench.collector.send_replace(Some(Arc::new(Collector::at("nonsense"))));
        bench.deliver().await;
        assert_eq!((bench.seconds().len(), bench.dropped("unreachable")), (0, 5));
        // Dropping the exporter does not shorten the pauses.
        let mut bench = TestDelivery::new([unavailable()]);
        drop(std::mem::replace(&mut bench.collector, watch::channel(None).0));
        bench.deliver().await;
        assert_eq!(bench.seconds().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn items_in_flight_are_known() {
        let mut bench = TestDelivery::new([ScriptedResponse::Hang, ScriptedResponse::Hang]);
        let in_flight = bench.delivery.in_flight();
        _ = timeout(Duration::from_secs(3), bench.deliver()).await;
        assert_eq!(in_flight.get(), 5);
        bench.deliver().await;
        assert_eq!(in_flight.get(), 0);
    }
}
