//! Sending messages of one signal, one after the other, and again where OTLP allows it, for a bounded time.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fairway_model::Collector;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::counts::{Counts, Dropped};
use crate::failure::{Failure, FailureKind, shown};
use crate::message::{Message, Verdict};
use crate::signal::Signal;
use crate::transport::{Connect, Link};

/// How long one request may take.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a message is tried again at most.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// The first pause before a message is sent again; it doubles with each.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause that nobody asked for.
const MAX_BACKOFF: Duration = Duration::from_secs(15);
/// Warnings about one signal have at least so much time between them.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);

/// The collector of the moment.
pub(crate) type CurrentCollector = watch::Receiver<Option<Arc<Collector>>>;

/// Sends the messages of one signal.
pub(crate) struct Delivery<C: Connect> {
    signal: Signal,
    connect: Rc<C>,
    collector: CurrentCollector,
    /// To that collector.
    link: Option<(Arc<Collector>, C::Link)>,
    counts: Arc<Counts>,
    random: fastrand::Rng,
    /// When the last warning was written, and whether things have been well since.
    warned: Option<Instant>,
    is_failing: bool,
    in_flight: Rc<Cell<u64>>,
}

/// What a delivery needs besides its signal.
pub(crate) struct DeliveryParts<C> {
    pub(crate) connect: Rc<C>,
    pub(crate) collector: CurrentCollector,
    pub(crate) counts: Arc<Counts>,
    pub(crate) random: fastrand::Rng,
}

/// Why a message was given up.
struct GivenUp {
    why: Dropped,
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

    /// How many items the message has that is being delivered: they are lost when the delivery is abandoned.
    pub(crate) fn in_flight(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.in_flight)
    }

    /// Sends a message until it is taken or given up, and counts what became of it. Says whether it was taken.
    pub(crate) async fn deliver(&mut self, message: Message) -> bool {
        let Message { bytes, items } = message;
        self.in_flight.set(items);
        let settled = self.settle(bytes, items).await;
        self.in_flight.set(0);
        match settled {
            Ok(verdict) => {
                self.accept(&verdict, items);
                true
            }
            Err(GivenUp { why, message }) => {
                self.counts.dropped(self.signal, why, items);
                if why != Dropped::NoCollector {
                    self.warn(&format!("a message is dropped: {message}"));
                }
                false
            }
        }
    }

    async fn settle(&mut self, bytes: Bytes, items: u64) -> Result<Verdict, GivenUp> {
        let began = Instant::now();
        let mut backoff = FIRST_BACKOFF;
        loop {
            let failure = match self.send(bytes.clone()).await? {
                Ok(response) => return Ok(Verdict::read(self.signal, &response, items)),
                Err(failure) => failure,
            };
            let Failure { kind, message } = failure;
            let asked = match kind {
                FailureKind::Rejected => return Err(GivenUp { why: Dropped::Rejected, message }),
                FailureKind::Retryable(after) => after.unwrap_or_default(),
                FailureKind::NoResponse => {
                    // What is left of it may be dead.
                    self.link = None;
                    Duration::ZERO
                }
            };
            // Those that failed together do not come back together.
            let pause = asked.max(backoff.mul_f64(0.75 + 0.5 * self.random.f64()));
            backoff = MAX_BACKOFF.min(backoff * 2);
            if began.elapsed().saturating_add(pause) > RETRY_TIMEOUT {
                return Err(GivenUp { why: Dropped::Unreachable, message });
            }
            self.warn(&format!("{message}; it is tried again for a minute"));
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
    async fn send(&mut self, bytes: Bytes) -> Result<Result<Bytes, Failure>, GivenUp> {
        let signal = self.signal;
        let link = self.link()?;
        let sent = match timeout(EXPORT_TIMEOUT, link.send(signal, bytes)).await {
            Ok(sent) => sent,
            Err(_) => Err(Failure {
                kind: FailureKind::NoResponse,
                message: format!("no response within {} s", EXPORT_TIMEOUT.as_secs()),
            }),
        };
        self.counts.exported(signal, sent.is_ok());
        Ok(sent)
    }

    /// The link to the collector of the moment.
    fn link(&mut self) -> Result<&C::Link, GivenUp> {
        let Some(collector) = self.collector.borrow_and_update().clone() else {
            self.link = None;
            return Err(GivenUp { why: Dropped::NoCollector, message: String::new() });
        };
        let kept = self.link.take().filter(|(known, _)| *known == collector);
        let (_, link) = match kept {
            Some(kept) => self.link.insert(kept),
            None => {
                let link = self.connect.connect(&collector);
                let link = link.map_err(|message| GivenUp { why: Dropped::Unreachable, message })?;
                self.link.insert((collector, link))
            }
        };
        Ok(link)
    }

    /// The collector has taken a message.
    fn accept(&mut self, verdict: &Verdict, items: u64) {
        self.counts.sent(self.signal, items - verdict.rejected);
        self.counts.dropped(self.signal, Dropped::Rejected, verdict.rejected);
        if verdict.rejected > 0 || !verdict.text.is_empty() {
            let Verdict { rejected, text } = verdict;
            self.warn(&format!("it rejects {rejected} of {items} items: {}", shown(text)));
        } else if self.is_failing {
            self.is_failing = false;
            tracing::info!(signal = self.signal.label(), "the collector takes everything again");
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
                dropped = self.counts.dropped_so_far(self.signal),
                "telemetry: {message}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Act, Script, away, busy, total};

    struct Bench {
        script: Script,
        collector: watch::Sender<Option<Arc<Collector>>>,
        counts: Arc<Counts>,
        delivery: Delivery<Script>,
        began: Instant,
    }

    impl Bench {
        fn new(acts: impl IntoIterator<Item = Act>) -> Self {
            let script = Script::playing(acts);
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

        /// When requests came, in seconds since the beginning.
        fn seconds(&self) -> Vec<f64> {
            self.script.requests().iter().map(|it| (it.at - self.began).as_secs_f64()).collect()
        }

        fn count(&self, name: &str) -> u64 {
            total(&self.counts, name, Signal::Traces)
        }

        fn dropped(&self, reason: &str) -> u64 {
            self.count(&format!("fairway_otlp_items_dropped_total{{signal=\"traces\",reason=\"{reason}\""))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_taken_is_sent_once() {
        let mut bench = Bench::new([Act::Take]);
        bench.deliver().await;
        bench.deliver().await;
        assert_eq!(bench.seconds(), [0.0, 0.0]);
        assert_eq!(bench.count("fairway_otlp_items_sent_total"), 10);
        assert_eq!(bench.count("fairway_otlp_exports_total"), 2);
        assert_eq!(bench.script.links(), 1, "the connections are kept");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_collector_rejects_is_counted_and_never_sent_again() {
        for (rejected, counted) in [(2, 2), (99, 5), (-3, 0)] {
            let mut bench = Bench::new([Act::Reject(rejected)]);
            bench.deliver().await;
            assert_eq!(bench.seconds().len(), 1);
            let sent = bench.count("fairway_otlp_items_sent_total");
            assert_eq!((bench.dropped("rejected"), sent), (counted, 5 - counted));
        }
        let mut bench = Bench::new([Act::Fail(Failure::rejected("bad data"))]);
        bench.deliver().await;
        assert_eq!((bench.seconds().len(), bench.dropped("rejected")), (1, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_collector_is_asked_again_not_before_it_wants() {
        let mut bench = Bench::new([busy(7), busy(20)]);
        bench.deliver().await;
        let at = bench.seconds();
        assert!(at.len() == 3 && at[1] >= 7.0 && at[1] < 7.5 && at[2] - at[1] >= 20.0, "{at:?}");
        assert_eq!(bench.count("fairway_otlp_items_sent_total"), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end_after_a_minute() {
        let mut bench = Bench::new((0..100).map(|_| away()));
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
    async fn a_collector_that_wants_to_be_left_alone_for_too_long_gets_no_other_try() {
        let mut bench = Bench::new([busy(3_600)]);
        bench.deliver().await;
        assert_eq!((bench.seconds().len(), bench.dropped("unreachable")), (1, 5));
        assert!(bench.began.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_response_is_given_up_after_ten_seconds() {
        let mut bench = Bench::new([Act::Hang]);
        bench.deliver().await;
        let at = bench.seconds();
        assert!(at.len() == 2 && at[1] >= 10.75 && at[1] <= 11.26, "{at:?}");
        assert_eq!(bench.count("fairway_otlp_items_sent_total"), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn another_collector_gets_what_the_first_one_did_not_take() {
        let mut bench = Bench::new([busy(50)]);
        let other = Arc::new(Collector::at("http://second"));
        let change = bench.collector.clone();
        let changed = async {
            sleep(Duration::from_secs(5)).await;
            change.send_replace(Some(other));
        };
        tokio::join!(bench.deliver(), changed);
        let to: Vec<_> = bench.script.requests().into_iter().map(|it| it.to.to_string()).collect();
        assert_eq!(to, ["http://first", "http://second"]);
        assert_eq!(bench.began.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_collector_nothing_is_sent() {
        let mut bench = Bench::new([]);
        bench.collector.send_replace(None);
        bench.deliver().await;
        assert_eq!((bench.seconds().len(), bench.dropped("no_collector")), (0, 5));
        bench.collector.send_replace(Some(Arc::new(Collector::at("nonsense"))));
        bench.deliver().await;
        assert_eq!((bench.seconds().len(), bench.dropped("unreachable")), (0, 5));
        // A process that forgets its exporter still waits as long as it should.
        let mut bench = Bench::new([away()]);
        drop(std::mem::replace(&mut bench.collector, watch::channel(None).0));
        bench.deliver().await;
        assert_eq!(bench.seconds().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_is_known() {
        let mut bench = Bench::new([Act::Hang, Act::Hang]);
        let in_flight = bench.delivery.in_flight();
        _ = timeout(Duration::from_secs(3), bench.deliver()).await;
        assert_eq!(in_flight.get(), 5);
        bench.deliver().await;
        assert_eq!(in_flight.get(), 0);
    }
}
