//! The exporter thread: receives telemetry, queues it and delivers it.

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use fairway_model::Collector;
use fairway_proxy::TraceReceiver;
use futures_util::FutureExt;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use crate::counts::{Counts, DropReason};
use crate::delivery::{CurrentCollector, Delivery, DeliveryParts};
use crate::message::{Item, metrics_message};
use crate::metrics::{MetricsBatch, MetricsConverter, MetricsSource};
use crate::queue::{Queue, QueueLimits};
use crate::receiver::{ExchangeSource, LineSender, log_records};
use crate::resource::ProcessIdentity;
use crate::signal::Signal;
use crate::times::unix_nanos;
use crate::transport::{Connect, Credentials, Network};

/// Time for the remaining items once the process stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings that never change during the life of an exporter.
#[derive(Clone, Debug, Default)]
pub struct ExporterOptions {
    /// Identifies this process.
    pub identity: ProcessIdentity,
    /// Credentials for the collector.
    pub credentials: Credentials,
    /// The seed for retry jitter.
    pub seed: u64,
}

/// A handle to the exporter thread.
pub struct Exporter {
    counts: Arc<Counts>,
    lines: LineSender,
    collector: watch::Sender<Option<Arc<Collector>>>,
    stopping: watch::Sender<bool>,
    /// Taken when the export of metrics starts.
    metrics: Mutex<Option<oneshot::Sender<MetricsExport>>>,
    /// Taken by the caller that waits for the end.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Which metrics are exported, and how often.
struct MetricsExport {
    interval: Duration,
    source: MetricsSource,
}

/// What the thread works with.
struct ExporterTask<E, C> {
    identity: ProcessIdentity,
    exchanges: E,
    lines: mpsc::Receiver<Vec<u8>>,
    metrics: oneshot::Receiver<MetricsExport>,
    collector: CurrentCollector,
    stopping: watch::Receiver<bool>,
    counts: Arc<Counts>,
    connect: C,
    seed: u64,
}

impl Exporter {
    /// Starts the thread. Until [`Self::set_collector`] names a collector, everything is dropped and counted.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    pub fn start(options: ExporterOptions, traces: TraceReceiver) -> io::Result<Self> {
        let ExporterOptions { identity, credentials, seed } = options;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let network = Network::new(credentials, &identity.version);
        let (exporter, job) = Self::with_job(identity, traces, network, seed);
        let work = move || {
            runtime.block_on(job.run());
            // A name lookup in progress must not delay the process.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("fairway-telemetry".into()).spawn(work)?;
        *exporter.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(exporter)
    }

    /// An exporter, and the task of its thread.
    fn with_job<E, C>(
        identity: ProcessIdentity,
        exchanges: E,
        connect: C,
        seed: u64,
    ) -> (Self, ExporterTask<E, C>) {
        let counts = Arc::new(Counts::default());
        let (lines, line_receiver) = LineSender::new(Arc::clone(&counts));
        let (collector, current) = watch::channel(None);
        let (stopping, is_stopping) = watch::channel(false);
        let (metrics, metrics_receiver) = oneshot::channel();
        let job = ExporterTask {
            identity,
            exchanges,
            lines: line_receiver,
            metrics: metrics_receiver,
            collector: current,
            stopping: is_stopping,
            counts: Arc::clone(&counts),
            connect,
            seed,
        };
        let (metrics, thread) = (Mutex::new(Some(metrics)), Mutex::new(None));
        (Self { counts, lines, collector, stopping, metrics, thread }, job)
    }

    /// Sends everything to this collector from now on; with `None`, everything is dropped.
    pub fn set_collector(&self, collector: Option<Arc<Collector>>) {
        self.collector.send_if_modified(|current| {
            let is_other = *current != collector;
            if is_other {
                *current = collector;
            }
            is_other
        });
    }

    /// Starts to export the metrics of `source` at this interval. A second call has no effect.
    pub fn export_metrics(&self, interval: Duration, source: MetricsSource) {
        let sender = self.metrics.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // A thread that has ended exports nothing.
            _ = sender.send(MetricsExport { interval, source });
        }
    }

    /// A sender for access log lines.
    #[must_use]
    pub fn line_sender(&self) -> LineSender {
        self.lines.clone()
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Sends the remaining items for at most 5 s, and waits for that. Blocks.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread that exports telemetry panicked");
        }
    }
}

impl<E: ExchangeSource, C: Connect> ExporterTask<E, C> {
    /// Runs until it is stopped and the remaining items were sent or timed out.
    async fn run(self) {
        let Self { identity, exchanges, lines, metrics, collector, stopping, counts, connect, seed } = self;
        let connect = Rc::new(connect);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut delivery = |signal| {
            let parts = DeliveryParts {
                connect: Rc::clone(&connect),
                collector: collector.clone(),
                counts: Arc::clone(&counts),
                random: random.fork(),
            };
            Delivery::new(signal, parts)
        };
        let (of_spans, of_metrics, of_lines) =
            (delivery(Signal::Traces), delivery(Signal::Metrics), delivery(Signal::Logs));
        let in_flight = [of_spans.in_flight(), of_metrics.in_flight(), of_lines.in_flight()];
        let (spans, records) = (Queue::new(Arc::clone(&counts)), Queue::new(Arc::clone(&counts)));
        let started = unix_nanos(SystemTime::now());
        let station = ExportContext { identity, started, collector, stopping, counts: &counts };
        let work = async {
            tokio::join!(
                station.receive_exchanges(exchanges, &spans),
                station.send_queue(&spans, of_spans),
                station.receive_lines(lines, &records),
                station.send_queue(&records, of_lines),
                station.export_metrics(metrics, of_metrics),
            );
        };
        let deadline = async {
            station.wait_for_stop().await;
            sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            () = work => {}
            () = deadline => {}
        }
        let lost = [spans.len() as u64, 0, records.len() as u64];
        for (signal, (left, in_flight)) in Signal::ALL.into_iter().zip(lost.into_iter().zip(in_flight)) {
            counts.record_dropped(signal, DropReason::Unreachable, left + in_flight.get());
            counts.set_queued(signal, 0);
        }
    }
}

/// What all tasks share.
struct ExportContext<'a> {
    identity: ProcessIdentity,
    /// When counters started, close to the start of the process: in nanoseconds since 1970.
    started: u64,
    collector: CurrentCollector,
    stopping: watch::Receiver<bool>,
    counts: &'a Counts,
}

impl ExportContext<'_> {
    /// Queues spans as they arrive. Once the process stops, queues what has arrived by then.
    async fn receive_exchanges<E: ExchangeSource>(&self, mut exchanges: E, queue: &Queue<Span>) {
        let add = |trees: Vec<Vec<Span>>| trees.into_iter().for_each(|tree| queue.push(tree, self.bounds()));
        let mut stopped = pin!(self.wait_for_stop());
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => break,
                trees = exchanges.receive() => match trees {
                    Some(trees) => add(trees),
                    None => return queue.close(),
                },
            }
            // A full queue is sent before more is received.
            yield_now().await;
        }
        while let Some(Some(trees)) = unconstrained(exchanges.receive()).now_or_never() {
            add(trees);
        }
        queue.close();
    }

    /// Queues access log lines as they arrive.
    async fn receive_lines(&self, mut lines: mpsc::Receiver<Vec<u8>>, queue: &Queue<LogRecord>) {
        let add = |lines: Vec<u8>| {
            log_records(&lines).for_each(|record| queue.push(vec![record], self.bounds()));
        };
        let mut stopped = pin!(self.wait_for_stop());
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => break,
                buffer = lines.recv() => match buffer {
                    Some(buffer) => add(buffer),
                    None => return queue.close(),
                },
            }
            yield_now().await;
        }
        while let Ok(buffer) = lines.try_recv() {
            add(buffer);
        }
        queue.close();
    }

    /// Sends the items of a queue until it is closed and empty.
    async fn send_queue<T: Item, C: Connect>(&self, queue: &Queue<T>, mut delivery: Delivery<C>) {
        // Without a collector nothing is batched: it is dropped.
        let none = QueueLimits { max_queue: 0, max_delay: Duration::ZERO, max_batch: usize::MAX };
        while let Some(items) = queue.next_batch(|| self.bounds().unwrap_or(none)).await {
            let message = T::message(items, &self.identity, &self.service_name());
            delivery.deliver(message).await;
        }
    }

    /// Exports metrics at their interval, once they are configured.
    async fn export_metrics<C: Connect>(
        &self,
        metrics: oneshot::Receiver<MetricsExport>,
        mut delivery: Delivery<C>,
    ) {
        let mut stopped = pin!(self.wait_for_stop());
        let export = tokio::select! {
            () = &mut stopped => return,
            export = metrics => export,
        };
        let Ok(MetricsExport { interval, source }) = export else { return };
        let mut ticks = interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => return,
                _ = ticks.tick() => self.export_once(&source, &mut delivery).await,
            }
        }
    }

    async fn export_once<C: Connect>(&self, source: &MetricsSource, delivery: &mut Delivery<C>) {
        if self.collector.borrow().is_none() {
            return;
        }
        let mut converter = MetricsConverter::new(self.started, unix_nanos(SystemTime::now()));
        for piece in source().await {
            for batch in converter.push(&piece) {
                // The rest would fail as well, and is outdated by then.
                if !self.send_metrics(batch, delivery).await {
                    return;
                }
            }
            // Writing the metrics of a large process takes long.
            yield_now().await;
        }
        self.send_metrics(converter.finish(), delivery).await;
    }

    async fn send_metrics<C: Connect>(&self, batch: MetricsBatch, delivery: &mut Delivery<C>) -> bool {
        let (metrics, points) = batch;
        if points == 0 {
            return true;
        }
        self.counts.set_queued(Signal::Metrics, usize::try_from(points).unwrap_or(usize::MAX));
        let message = metrics_message(metrics, points, &self.identity, &self.service_name());
        let is_taken = delivery.deliver(message).await;
        self.counts.set_queued(Signal::Metrics, 0);
        is_taken
    }

    /// The queue limits of the collector, if there is one.
    fn bounds(&self) -> Option<QueueLimits> {
        let collector = self.collector.borrow();
        collector.as_ref().map(|it| {
            let max_queue = usize::try_from(it.max_queue).unwrap_or(usize::MAX);
            // A batch size beyond the queue size would never be reached.
            let max_batch = usize::try_from(it.max_batch).unwrap_or(usize::MAX).clamp(1, max_queue.max(1));
            QueueLimits { max_queue, max_delay: it.max_delay, max_batch }
        })
    }

    /// The service name for the current collector.
    fn service_name(&self) -> Arc<str> {
        self.collector.borrow().as_ref().map_or_else(|| "".into(), |it| Arc::clone(&it.service_name))
    }

    /// Resolves when the process stops or the exporter is dropped.
    async fn wait_for_stop(&self) {
        let mut stopping = self.stopping.clone();
        _ = stopping.wait_for(|is_stopping| *is_stopping).await;
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use prost::Message as _;

    use super::*;
    use crate::metrics::MetricsText;
    use crate::testing::{ScriptedCollector, ScriptedResponse, sum_of_counts, unavailable};

    /// Span trees that a test sends.
    struct TestSpans(mpsc::Receiver<Vec<Vec<Span>>>);

    impl ExchangeSource for TestSpans {
        async fn receive(&mut self) -> Option<Vec<Vec<Span>>> {
            self.0.recv().await
        }
    }

    struct TestExporter {
        exporter: Exporter,
        script: ScriptedCollector,
        trees: mpsc::Sender<Vec<Vec<Span>>>,
    }

    impl TestExporter {
        fn new(acts: impl IntoIterator<Item = ScriptedResponse>) -> (Self, impl Future<Output = ()>) {
            let script = ScriptedCollector::with_responses(acts);
            // Capacity for one batch: a second one waits until the exporter has received the first.
            let (trees, receiver) = mpsc::channel(1);
            let identity = ProcessIdentity::default();
            let (exporter, job) = Exporter::with_job(identity, TestSpans(receiver), script.clone(), 1);
            let collector =
                Collector { max_queue: 10, max_batch: 4, ..Collector::at("http://collector:4317") };
            exporter.set_collector(Some(Arc::new(collector)));
            (Self { exporter, script, trees }, job.run())
        }

        async fn trace(&self, spans: usize) {
            self.trees.send(vec![vec![Span::default(); spans]]).await.unwrap();
        }

        fn count(&self, name: &str) -> u64 {
            sum_of_counts(&self.exporter.counts, name, Signal::Traces)
        }

        fn dropped(&self, signal: Signal, reason: &str) -> u64 {
            let label = signal.label();
            let name = format!("fairway_otlp_items_dropped_total{{signal=\"{label}\",reason=\"{reason}\"");
            sum_of_counts(&self.exporter.counts, &name, signal)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spans_are_sent_in_messages_and_the_rest_at_the_end() {
        let (bench, work) = TestExporter::new([]);
        let began = Instant::now();
        tokio::join!(work, async {
            bench.trace(3).await;
            bench.trace(3).await;
            sleep(Duration::from_secs(1)).await;
            assert_eq!(bench.count("fairway_otlp_items_sent_total"), 4);
            bench.trace(1).await;
            bench.exporter.stop();
        });
        assert_eq!(bench.count("fairway_otlp_items_sent_total"), 7);
        assert_eq!(bench.script.requests().len(), 2);
        assert_eq!(began.elapsed().as_secs(), 1, "nobody waits for more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_collector_blocks_no_one_and_every_loss_is_counted() {
        let (bench, work) = TestExporter::new((0..100).map(|_| ScriptedResponse::Hang));
        let began = Instant::now();
        tokio::join!(work, async {
            // Four are in flight, ten are queued, and there is no room for the others.
            for _ in 0..50 {
                bench.trace(2).await;
            }
            sleep(Duration::from_secs(1)).await;
            assert_eq!(bench.dropped(Signal::Traces, "queue_full"), 100 - 14);
            assert_eq!(bench.count("fairway_otlp_queue_items"), 10);
            bench.exporter.stop();
        });
        assert_eq!(began.elapsed().as_secs(), 6, "the process stops in time");
        assert_eq!(bench.dropped(Signal::Traces, "unreachable"), 14);
        assert_eq!(bench.count("fairway_otlp_items_sent_total"), 0);
        assert_eq!(bench.count("fairway_otlp_queue_items"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_returning_collector_gets_the_queued_items() {
        let (bench, work) = TestExporter::new((0..3).map(|_| unavailable()));
        tokio::join!(work, async {
            bench.trace(4).await;
            bench.trace(4).await;
            sleep(Duration::from_secs(30)).await;
            bench.exporter.stop();
        });
        assert_eq!(bench.count("fairway_otlp_items_sent_total"), 8);
        assert_eq!(bench.count("fairway_otlp_items_dropped_total"), 0);
        assert_eq!(bench.count("fairway_otlp_exports_total"), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn the_collector_may_change_and_go_away() {
        let (bench, work) = TestExporter::new([]);
        tokio::join!(work, async {
            bench.trace(1).await;
            sleep(Duration::from_secs(10)).await;
            bench.exporter.set_collector(Some(Arc::new(Collector::at("http://other:4317"))));
            bench.trace(1).await;
            sleep(Duration::from_secs(10)).await;
            bench.trace(1).await;
            sleep(Duration::from_secs(1)).await;
            bench.exporter.set_collector(None);
            bench.trace(1).await;
            sleep(Duration::from_secs(10)).await;
            bench.exporter.stop();
        });
        let to: Vec<_> = bench.script.requests().into_iter().map(|it| it.target.to_string()).collect();
        assert_eq!(to, ["http://collector:4317", "http://other:4317"]);
        assert_eq!(bench.dropped(Signal::Traces, "no_collector"), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_of_the_access_log_are_sent() {
        let (bench, work) = TestExporter::new([]);
        tokio::join!(work, async {
            bench.exporter.line_sender().send(b"a\nb\n".to_vec());
            bench.exporter.line_sender().send(b"{\"status\":500}\n".to_vec());
            sleep(Duration::from_secs(6)).await;
            bench.exporter.stop();
        });
        let requests = bench.script.requests();
        let [request] = &requests[..] else { panic!("{}", requests.len()) };
        assert_eq!(request.signal, Signal::Logs);
        let request = ExportLogsServiceRequest::decode(request.message.clone()).unwrap();
        let records = &request.resource_logs[0].scope_logs[0].log_records;
        let severities: Vec<_> = records.iter().map(|record| record.severity_number).collect();
        assert_eq!(severities, [0, 0, 17]);
        assert_eq!(sum_of_counts(&bench.exporter.counts, "fairway_otlp_items_sent_total", Signal::Logs), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_are_sent_at_their_interval() {
        let (bench, work) = TestExporter::new([]);
        let source: MetricsSource = Box::new(|| {
            let text = ["# TYPE a counter\na 1", "\n# TYPE b gauge\n", "b{c=\"d\"} 2\n"].map(str::to_owned);
            Box::pin(async { Box::new(text.into_iter()) as MetricsText })
        });
        bench.exporter.export_metrics(Duration::from_secs(15), source);
        tokio::join!(work, async {
            sleep(Duration::from_secs(40)).await;
            bench.exporter.set_collector(None);
            sleep(Duration::from_secs(40)).await;
            bench.exporter.stop();
        });
        let requests = bench.script.requests();
        assert_eq!(requests.len(), 2);
        let request = ExportMetricsServiceRequest::decode(requests[1].message.clone()).unwrap();
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let names: Vec<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(
            sum_of_counts(&bench.exporter.counts, "fairway_otlp_items_sent_total", Signal::Metrics),
            4
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_exporter_ends() {
        let (bench, work) = TestExporter::new([]);
        drop(bench);
        work.await;
    }
}
