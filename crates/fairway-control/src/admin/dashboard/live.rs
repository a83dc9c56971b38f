//! The live values of the first page, by the key of their element, and the server-sent events that update them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::counter::{NumbersCache, NumbersSample};
use super::numbers::{Numbers, TimeBound};
use super::process::Process;
use crate::admin::body::{EventStream, Events};
use crate::admin::readiness::Readiness;
use crate::pipeline::View;

/// Between two events.
const EVENT_INTERVAL: Duration = Duration::from_secs(2);
/// How long the browser waits before it reopens the stream.
const RECONNECT_FIELD: &str = "retry: 2000\n";

const UNKNOWN_TEXT: &str = "–";

/// The status classes, in the order of [`Numbers::by_class`]; each is a key.
pub(super) const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A possible cause of a fault.
#[derive(Clone, Copy)]
pub(super) struct FaultCause {
    /// As in [`Numbers`]; also a key.
    pub(super) key: &'static str,
    pub(super) description: &'static str,
}

/// All possible causes of a fault.
pub(super) const FAULT_CAUSES: [FaultCause; 5] = [
    FaultCause { key: "client", description: "Clients" },
    FaultCause { key: "configuration", description: "Configuration" },
    FaultCause { key: "endpoint", description: "Endpoints" },
    FaultCause { key: "service", description: "Services that guards ask" },
    FaultCause { key: "fairway", description: "Fairway" },
];

/// The values of the first page, by the key of their element.
pub(super) fn live_values(
    readiness: &Readiness,
    view: Option<&View>,
    numbers: Option<&Numbers>,
    per_second: Option<f64>,
) -> BTreeMap<&'static str, String> {
    let unknown = || UNKNOWN_TEXT.to_owned();
    let outcome = view.map(|view| &view.outcome);
    let count =
        |number_of: &dyn Fn(&Numbers) -> u64| numbers.map_or_else(unknown, |it| number_of(it).to_string());
    let time = |bound: Option<TimeBound>| bound.map_or_else(unknown, |bound| bound.to_string());
    let mut values = BTreeMap::from([
        ("state", readiness.to_string()),
        ("version", outcome.map_or_else(unknown, |it| it.snapshot.version().to_string())),
        ("digest", outcome.map_or_else(unknown, |it| it.digest.to_string())),
        ("requests", count(&|it| it.requests)),
        ("rate", per_second.map_or_else(unknown, |rate| format!("{rate:.1}"))),
        ("connections", count(&|it| it.open_connections)),
        ("self_inflicted", count(&|it| it.self_inflicted_last_day)),
        ("p50", time(numbers.and_then(|it| it.p50))),
        ("p99", time(numbers.and_then(|it| it.p99))),
    ]);
    for (at, class) in STATUS_CLASSES.into_iter().enumerate() {
        values.insert(class, count(&|it| it.by_class[at]));
    }
    for FaultCause { key, .. } in FAULT_CAUSES {
        values.insert(key, count(&|it| it.caused_by(key)));
    }
    values
}

/// A stream of events that holds `permit`, until `end` or until the client leaves. It ends before its connection is closed: the
/// browser then opens another one without logging an error.
pub(super) fn events(
    process: Process,
    counter: Arc<NumbersCache>,
    place: OwnedSemaphorePermit,
    end: Instant,
) -> Events {
    let mut ticks = interval(EVENT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let updates = EventUpdates { process, counter, ticks, end, before: None, _place: place };
    let next = |mut updates: EventUpdates| async move {
        let event = updates.next_event().await?;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(event))), updates))
    };
    let stream: EventStream = Box::pin(stream::unfold(updates, next));
    StreamBody::new(stream)
}

/// Produces the events of a stream.
struct EventUpdates {
    process: Process,
    counter: Arc<NumbersCache>,
    ticks: Interval,
    end: Instant,
    /// The previous numbers.
    before: Option<NumbersSample>,
    _place: OwnedSemaphorePermit,
}

impl EventUpdates {
    /// The next event when it is due; `None` at the end.
    async fn next_event(&mut self) -> Option<String> {
        let due = self.ticks.tick().await;
        if due >= self.end {
            return None;
        }
        let counted = self.counter.current().await;
        let rate = self.before.as_ref().and_then(|before| per_second(before, &counted));
        let view = self.process.viewer.view();
        let readiness = (self.process.readiness)();
        let values = live_values(&readiness, view.as_ref(), counted.numbers.as_ref(), rate);
        self.before = Some(counted);
        let json = serde_json::to_string(&values).unwrap_or_default();
        Some(format!("{RECONNECT_FIELD}data: {json}\n\n"))
    }
}

/// Requests per second between two samples.
fn per_second(before: &NumbersSample, now: &NumbersSample) -> Option<f64> {
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

    /// A stream that may last this long.
    fn stream(slots: &Arc<Semaphore>, time: Duration) -> Events {
        let process = Process {
            viewer: Viewer::blank(),
            readiness: Arc::new(|| Readiness::Draining { pod_is_deleted: false }),
        };
        let requests = AtomicU64::new(0);
        let count = move || {
            let requests = requests.fetch_add(7, Ordering::Relaxed);
            let counted = Numbers { requests, ..Numbers::default() };
            Box::pin(async move { Some(counted) }) as Pin<Box<dyn Future<Output = Option<Numbers>> + Send>>
        };
        let permit = Arc::clone(slots).try_acquire_owned().unwrap();
        events(process, Arc::new(NumbersCache::new(Box::new(count))), permit, Instant::now() + time)
    }

    #[tokio::test(start_paused = true)]
    async fn events_come_every_other_second_and_end_before_the_connection() {
        for (time, count) in [(50, 25), (10, 5), (0, 0)] {
            let (places, time) = (Arc::new(Semaphore::new(1)), Duration::from_secs(time));
            let began = Instant::now();
            let body = stream(&places, time).collect().await.unwrap().to_bytes();
            assert!((time..time + EVENT_INTERVAL).contains(&began.elapsed()));
            let text = String::from_utf8(body.to_vec()).unwrap();
            assert_eq!(text.matches("data: ").count(), count);
            assert_eq!(places.available_permits(), 1, "its place is free again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_has_the_values_of_the_page() {
        let body =
            stream(&Arc::new(Semaphore::new(1)), 2 * EVENT_INTERVAL).collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.starts_with(RECONNECT_FIELD), "{text}");
        for part in ["\"state\":\"not ready: draining\"", "\"rate\":\"3.5\""] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_releases_its_permit() {
        let slots = Arc::new(Semaphore::new(1));
        let mut body = stream(&slots, EVENT_INTERVAL);
        assert!(body.frame().await.unwrap().unwrap().is_data());
        assert_eq!(slots.available_permits(), 0);
        drop(body);
        assert_eq!(slots.available_permits(), 1);
    }
}
