//! A running stream of load: starts its threads, reads their progress, stops them and merges their counts.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::outcome::Outcome;
use super::plan::Plan;
use super::shared::{Progress, WorkerShared};
use super::thread_counts::Tally;
use super::urgency;
use super::worker::{End, Report, Worker};

/// Limit on the time to open connections before the first request, however many time out.
const LONGEST_OPENING: Duration = Duration::from_secs(60);

/// How long a split may take; a thread checks at least a hundred times a second.
const LONGEST_SPLIT: Duration = Duration::from_secs(10);

/// How often to check whether connections are open.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A running stream of load.
pub struct Stream {
    plan: Arc<Plan>,
    shared: Arc<WorkerShared>,
    threads: Vec<JoinHandle<anyhow::Result<Report>>>,
    started: Instant,
    /// The time of the last split.
    split: Instant,
}

impl Stream {
    /// Opens the connections, unless each request has its own, and starts the load. Returns when the first request is due,
    /// so that [`Stream::begun`] is known.
    ///
    /// # Errors
    /// The plan is not possible: no rate, no connections, unknown headers or cipher suites.
    pub fn start(plan: Plan) -> anyhow::Result<Self> {
        let mut stream = Self::open(plan)?;
        stream.shared.release();
        stream.start_load();
        Ok(stream)
    }

    /// Opens the connections but sends nothing until [`Stream::start_load`]. They stay open after the last response until
    /// [`Stream::join`], so that idle connections can be measured.
    ///
    /// # Errors
    /// As [`Stream::start`].
    pub fn open(mut plan: Plan) -> anyhow::Result<Self> {
        plan.check()?;
        plan.shape.threads = plan.shape.threads.clamp(1, plan.shape.connections);
        let plan = Arc::new(plan);
        let shared = Arc::new(WorkerShared::new(plan.shape.threads));
        let run = fastrand::u64(..) >> 16;
        let (report, reports) = mpsc::channel();
        let threads = (0..plan.shape.threads)
            .map(|index| {
                let (plan, shared, report) = (plan.clone(), shared.clone(), report.clone());
                std::thread::Builder::new()
                    .name(format!("load-{index}"))
                    .spawn(move || {
                        urgency::raise(&plan);
                        let worker = Worker::new(plan, shared, run, index);
                        // The owner may have given up because another thread failed to start.
                        _ = report.send(worker.as_ref().err().map(|error| format!("{error:#}")));
                        worker?.run()
                    })
                    .context("start a thread of the generator")
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let now = Instant::now();
        // From here on, dropping the stream on an error ends the threads.
        let stream = Self { plan, shared, threads, started: now, split: now };
        for _ in 0..stream.plan.shape.threads {
            if let Some(error) = reports.recv().context("a thread of the generator is gone")? {
                anyhow::bail!(error);
            }
        }
        while !stream.shared.are_ready() {
            let seconds = LONGEST_OPENING.as_secs();
            anyhow::ensure!(
                now.elapsed() < LONGEST_OPENING,
                "the connections were not open after {seconds} s"
            );
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(stream)
    }

    /// Starts the load; returns when the first request is due.
    pub fn start_load(&mut self) {
        self.started = self.shared.start_clock();
        self.split = self.started;
        std::thread::sleep(self.started.saturating_duration_since(Instant::now()));
    }

    /// When the first request was due.
    #[must_use]
    pub fn begun(&self) -> Instant {
        self.started
    }

    /// The progress so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// Stops the schedule; requests in flight may complete.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Whether every request has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        (0..self.threads.len()).all(|index| self.has_finished(index))
    }

    fn has_finished(&self, index: usize) -> bool {
        self.shared.threads[index].finished.load(Ordering::Acquire) || self.threads[index].is_finished()
    }

    /// Returns what ended since the start or the previous split. Connections and requests in flight continue, and
    /// [`Stream::join`] returns only the rest.
    ///
    /// # Errors
    /// A thread has ended or does not respond.
    pub fn split(&mut self) -> anyhow::Result<Segment> {
        self.shared.cut();
        let now = Instant::now();
        let from = std::mem::replace(&mut self.split, now);
        let mut sum: Option<Tally> = None;
        for index in 0..self.threads.len() {
            let tally = loop {
                if let Some(tally) = self.shared.take(index) {
                    break tally;
                }
                anyhow::ensure!(!self.has_finished(index), "the stream has ended: there is nothing to split");
                anyhow::ensure!(now.elapsed() < LONGEST_SPLIT, "a thread of the generator does not answer");
                std::thread::sleep(Duration::from_micros(200));
            };
            match &mut sum {
                None => sum = Some(tally),
                Some(sum) => sum.add(tally),
            }
        }
        let tally = sum.context("the stream had no thread")?;
        Ok(Segment {
            plan: self.plan.clone(),
            tally,
            started: self.started,
            seconds: (now - from).as_secs_f64(),
        })
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Polling failed in a thread.
    pub fn join(mut self) -> anyhow::Result<Outcome> {
        self.shared.release();
        let mut sum: Option<Report> = None;
        for thread in std::mem::take(&mut self.threads) {
            let report =
                thread.join().map_err(|_| anyhow::anyhow!("a thread of the generator panicked"))??;
            sum = Some(match sum {
                None => report,
                Some(mut sum) => {
                    sum.tally.add(report.tally);
                    sum.end = sum.end.max(report.end);
                    sum.open += report.open;
                    sum
                }
            });
        }
        let report = sum.context("the stream had no thread")?;
        let planned = match report.end {
            End::ByNumber => None,
            End::At(nanos) => Some(nanos as f64 / 1e9),
        };
        Ok(Outcome { open: report.open, ..Outcome::new(&self.plan, report.tally, self.started, planned) })
    }
}

impl Drop for Stream {
    /// Ends the threads if the owner fails.
    fn drop(&mut self) {
        self.shared.stop();
        self.shared.release();
    }
}

/// The results of one segment of a stream, from [`Stream::split`]. The segments add up to the results of the whole stream.
#[derive(Clone)]
pub struct Segment {
    plan: Arc<Plan>,
    tally: Tally,
    started: Instant,
    seconds: f64,
}

impl Segment {
    /// Adds another segment of the same stream.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.tally.add(other.tally);
        self.seconds += other.seconds;
        self
    }

    /// Converts to the format of the results. Times count from the start of the stream.
    #[must_use]
    pub fn outcome(mut self) -> Outcome {
        self.tally.in_time = self.tally.responses;
        self.tally.last = 0;
        let mut outcome = Outcome::new(&self.plan, self.tally, self.started, Some(self.seconds));
        // Intervals before the segment are empty.
        outcome
            .load
            .over_time
            .series
            .retain(|piece| piece.requests > 0 || piece.errors > 0 || piece.max_ms > 0.0);
        outcome
    }
}
