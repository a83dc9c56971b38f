//! What the first page keeps up to date: texts by the key of the element that shows them, and the server-sent events with them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::counter::{Counted, Counter};
use super::numbers::{Numbers, TimeBound};
use super::process::Process;
use crate::admin::body::{EventStream, Events};
use crate::admin::readiness::Readiness;
use crate::pipeline::View;

/// Between two events.
const EVENT_INTERVAL: Duration = Duration::from_secs(2);
/// A stream ends before its connection does, which lasts for 60 s: the browser connects again.
const STREAM_TIMEOUT: Duration = Duration::from_secs(50);
/// How long the browser waits before that.
const RECONNECT: &str = "retry: 2000\n";

const UNKNOWN: &str = "–";

/// The classes of statuses, in the order of [`Numbers::by_class`]; each is a key.
pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Who may have caused a fault.
#[derive(Clone, Copy)]
pub(super) struct Cause {
    /// As [`Numbers`] have it; it is a key, too.
    pub(super) key: &'static str,
    pub(super) description: &'static str,
}

/// Everybody who may have caused a fault.
pub(super) const CAUSES: [Cause; 5] = [
    Cause { key: "client", description: "Clients" },
    Cause { key: "configuration", description: "Configuration" },
    Cause { key: "endpoint", description: "Endpoints" },
    Cause { key: "service", description: "Services that guards ask" },
    Cause { key: "fairway", description: "Fairway" },
];

/// What the first page says now, by the key of the element that says it.
pub(super) fn values(
    readiness: &Readiness,
    view: Option<&View>,
    numbers: Option<&Numbers>,
    per_second: Option<f64>,
) -> BTreeMap<&'static str, String> {
    let unknown = || UNKNOWN.to_owned();
    let outcome = view.map(|view| &view.outcome);
    let count = |of: &dyn Fn(&Numbers) -> u64| numbers.map_or_else(unknown, |it| of(it).to_string());
    let time = |bound: Option<TimeBound>| bound.map_or_else(unknown, |bound| bound.to_string());
    let mut values = BTreeMap::from([
        ("state", readiness.to_string()),
        ("version", outcome.map_or_else(unknown, |it| it.snapshot.version().to_string())),
        ("digest", outcome.map_or_else(unknown, |it| it.digest.to_string())),
        ("requests", count(&|it| it.requests)),
        ("rate", per_second.map_or_else(unknown, |rate| format!("{rate:.1}"))),
        ("connections", count(&|it| it.open_connections)),
        ("p50", time(numbers.and_then(|it| it.p50))),
        ("p99", time(numbers.and_then(|it| it.p99))),
    ]);
    for (at, class) in CLASSES.into_iter().enumerate() {
        values.insert(class, count(&|it| it.by_class[at]));
    }
    for Cause { key, .. } in CAUSES {
        values.insert(key, count(&|it| it.caused_by(key)));
    }
    values
}

/// A stream of events in its place, until it is over or the client leaves.
pub(super) fn events(process: Process, counter: Arc<Counter>, place: OwnedSemaphorePermit) -> Events {
    let mut ticks = interval(EVENT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = Instant::now() + STREAM_TIMEOUT;
    let updates = Updates { process, counter, ticks, end, before: None, _place: place };
    let next = |mut updates: Updates| async move {
        let event = updates.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(event))), updates))
    };
    let stream: EventStream = Box::pin(stream::unfold(updates, next));
    StreamBody::new(stream)
}

/// Makes the events of a stream.
struct Updates {
    process: Process,
    counter: Arc<Counter>,
    ticks: Interval,
    end: Instant,
    /// The last numbers.
    before: Option<Counted>,
    _place: OwnedSemaphorePermit,
}

impl Updates {
    /// The next event when it is due; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let due = self.ticks.tick().await;
        if due >= self.end {
            return None;
        }
        let counted = self.counter.now().await;
        let rate = self.before.as_ref().and_then(|before| per_second(before, &counted));
        let view = self.process.viewer.view();
        let readiness = (self.process.readiness)();
        let values = values(&readiness, view.as_ref(), counted.numbers.as_ref(), rate);
        self.before = Some(counted);
        let json = serde_json::to_string(&values).unwrap_or_default();
        Some(format!("{RECONNECT}data: {json}\n\n"))
    }
}

/// Requests a second between two times of asking.
fn per_second(before: &Counted, now: &Counted) -> Option<f64> {
    let requests = now.numbers.as_ref()?.requests.saturating_sub(before.numbers.as_ref()?.requests);
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    (seconds > 0.0).then(|| requests as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU64, Ordering};

    use http_body_util::BodyExt;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::pipeline::Viewer;

    fn stream(places: &Arc<Semaphore>) -> Events {
        let process = Process { viewer: Viewer::blank(), readiness: Arc::new(|| Readiness::Draining) };
        let requests = AtomicU64::new(0);
        let count = move || {
            let requests = requests.fetch_add(7, Ordering::Relaxed);
            let counted = Numbers { requests, ..Numbers::default() };
            Box::pin(async move { Some(counted) }) as Pin<Box<dyn Future<Output = Option<Numbers>> + Send>>
        };
        let place = Arc::clone(places).try_acquire_owned().unwrap();
        events(process, Arc::new(Counter::new(Box::new(count))), place)
    }

    #[tokio::test(start_paused = true)]
    async fn events_come_every_other_second_and_end_before_the_connection() {
        let places = Arc::new(Semaphore::new(1));
        let began = Instant::now();
        let body = stream(&places).collect().await.unwrap().to_bytes();
        assert!((STREAM_TIMEOUT..STREAM_TIMEOUT + EVENT_INTERVAL).contains(&began.elapsed()));
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert_eq!(text.matches("data: ").count(), 25);
        assert!(
            text.contains("\"state\":\"not ready: draining\"") && text.contains("\"rate\":\"3.5\""),
            "{text}"
        );
        assert_eq!(places.available_permits(), 1, "its place is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_makes_room() {
        let places = Arc::new(Semaphore::new(1));
        let mut body = stream(&places);
        assert!(body.frame().await.unwrap().unwrap().is_data());
        assert_eq!(places.available_permits(), 0);
        drop(body);
        assert_eq!(places.available_permits(), 1);
    }
}
