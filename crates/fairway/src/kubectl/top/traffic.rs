//! Parses the request counters and latency buckets of a scrape per route, and computes differences and quantiles.

use std::collections::BTreeMap;
use std::fmt;

use crate::kubectl::exposition::{Series, series};

/// The metric that counts requests by route and status.
const REQUESTS_METRIC: &str = "nginx_ingress_controller_requests";

/// The metric that counts requests by route, status and an upper bound of their duration.
const LATENCY_BUCKETS_METRIC: &str = "nginx_ingress_controller_request_duration_seconds_bucket";

/// The text that follows these two metrics in a scrape.
pub(super) const AFTER_REQUEST_METRICS: &str = "# TYPE nginx_ingress_controller_response_duration_seconds ";

/// The status of WebSockets, whose duration is no latency.
const WEBSOCKET_STATUS: &str = "101";

/// The labels of a route in metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteName {
    pub(super) namespace: String,
    /// The Ingress or route.
    pub(super) route: String,
    pub(super) host: String,
    pub(super) path: String,
    pub(super) service: String,
}

/// The requests of a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RequestCounts {
    pub(super) requests: f64,
    /// Requests with a status of 500 or more.
    pub(super) errors: f64,
    /// Sorted by bound.
    buckets: Vec<Bucket>,
}

/// The number of requests that took at most `seconds`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    seconds: f64,
    count: f64,
}

/// The requests of all routes since a process started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Traffic(pub(super) BTreeMap<RouteName, RequestCounts>);

/// The request rate of a route on all pods together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) per_second: f64,
    /// The requests in the measured interval.
    pub(super) counts: RequestCounts,
}

/// A bound of a latency quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quantile {
    /// At most this many seconds.
    AtMost(f64),
    /// More than the largest finite bound, in seconds.
    Above(f64),
}

impl Traffic {
    /// Parses a scrape.
    pub(super) fn read(text: &str) -> Self {
        let mut traffic = Self::default();
        for it in series(text, REQUESTS_METRIC) {
            let counts = traffic.0.entry(name(&it)).or_default();
            counts.requests += it.value;
            if it.label("status").parse::<u16>().is_ok_and(|status| status >= 500) {
                counts.errors += it.value;
            }
        }
        for it in series(text, LATENCY_BUCKETS_METRIC).filter(|it| it.label("status") != WEBSOCKET_STATUS) {
            if let Ok(seconds) = it.label("le").parse() {
                let bucket = Bucket { seconds, count: it.value };
                traffic.0.entry(name(&it)).or_default().add_bucket(bucket);
            }
        }
        traffic
    }

    /// The requests since `earlier`, a scrape of the same process or of its predecessor.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let since = |(name, counts): (&RouteName, &RequestCounts)| {
            let counts = match earlier.0.get(name) {
                // A smaller counter means that the process restarted.
                Some(earlier) if earlier.requests <= counts.requests => counts.subtract(earlier),
                _ => counts.clone(),
            };
            (name.clone(), counts)
        };
        Self(self.0.iter().map(since).collect())
    }
}

fn name(series: &Series<'_>) -> RouteName {
    let label = |name| series.label(name).to_owned();
    RouteName {
        namespace: label("namespace"),
        route: label("ingress"),
        host: label("host"),
        path: label("path"),
        service: label("service"),
    }
}

impl RequestCounts {
    /// Adds the requests of another pod.
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        other.buckets.iter().for_each(|bucket| self.add_bucket(*bucket));
    }

    fn add_bucket(&mut self, bucket: Bucket) {
        match self.buckets.iter_mut().find(|it| it.seconds == bucket.seconds) {
            Some(known) => known.count += bucket.count,
            None => {
                let at = self.buckets.partition_point(|it| it.seconds < bucket.seconds);
                self.buckets.insert(at, bucket);
            }
        }
    }

    fn subtract(&self, earlier: &Self) -> Self {
        let count =
            |seconds: f64| earlier.buckets.iter().find(|it| it.seconds == seconds).map_or(0.0, |it| it.count);
        let less = |it: &Bucket| Bucket { count: (it.count - count(it.seconds)).max(0.0), ..*it };
        Self {
            requests: self.requests - earlier.requests,
            errors: (self.errors - earlier.errors).max(0.0),
            buckets: self.buckets.iter().map(less).collect(),
        }
    }

    /// The bound of the quantile `part`, such as 0.99; `None` without requests.
    pub(super) fn quantile(&self, part: f64) -> Option<Quantile> {
        let total = self.buckets.last().map(|bucket| bucket.count).filter(|total| *total > 0.0)?;
        let reached = self.buckets.iter().position(|bucket| bucket.count >= part * total)?;
        Some(match self.buckets[reached].seconds {
            seconds if seconds.is_finite() => Quantile::AtMost(seconds),
            _ => Quantile::Above(reached.checked_sub(1).map_or(0.0, |last| self.buckets[last].seconds)),
        })
    }
}

impl Quantile {
    /// The upper bound in seconds, if there is one.
    pub(super) fn bound(self) -> Option<f64> {
        match self {
            Self::AtMost(seconds) => Some(seconds),
            Self::Above(_) => None,
        }
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, seconds) = match self {
            Self::AtMost(seconds) => ("<=", seconds),
            Self::Above(seconds) => (">", seconds),
        };
        if *seconds < 1.0 {
            write!(f, "{sign}{:.0}ms", seconds * 1_000.0)
        } else {
            write!(f, "{sign}{seconds}s")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scrape of the route `shop/web`, with requests answered 200, and 500, and how many took at most 25 ms and at most 10 s.
    fn scrape(good: u32, failed: u32, fast: u32, slow: u32) -> String {
        let labels = "namespace=\"shop\",ingress=\"web\",service=\"web\",path=\"/\",host=\"a.test\",method=\"GET\",canary=\"\"";
        let all = good + failed;
        format!(
            "# TYPE {REQUESTS_METRIC} counter\n\
             {REQUESTS_METRIC}{{{labels},status=\"200\"}} {good}\n\
             {REQUESTS_METRIC}{{{labels},status=\"500\"}} {failed}\n\
             # TYPE {REQUESTS_METRIC} histogram\n\
             {LATENCY_BUCKETS_METRIC}{{{labels},status=\"200\",le=\"0.025\"}} {fast}\n\
             {LATENCY_BUCKETS_METRIC}{{{labels},status=\"200\",le=\"10\"}} {slow}\n\
             {LATENCY_BUCKETS_METRIC}{{{labels},status=\"200\",le=\"+Inf\"}} {all}\n\
             {LATENCY_BUCKETS_METRIC}{{{labels},status=\"101\",le=\"+Inf\"}} 1000\n"
        )
    }

    fn counts(traffic: &Traffic) -> RequestCounts {
        assert_eq!(traffic.0.len(), 1);
        let (name, counts) = traffic.0.first_key_value().unwrap();
        assert_eq!(
            (name.namespace.as_str(), name.route.as_str(), name.host.as_str()),
            ("shop", "web", "a.test")
        );
        counts.clone()
    }

    #[test]
    fn requests_between_two_scrapes_are_counted() {
        let (earlier, now) =
            (Traffic::read(&scrape(100, 5, 90, 100)), Traffic::read(&scrape(190, 15, 170, 199)));
        let counts = counts(&now.since(&earlier));
        assert_eq!((counts.requests, counts.errors), (100.0, 10.0));
        assert_eq!(counts.quantile(0.5), Some(Quantile::AtMost(0.025)));
        assert_eq!(counts.quantile(0.99), Some(Quantile::AtMost(10.0)));
    }

    #[test]
    fn a_restarted_process_counts_from_zero() {
        let (earlier, now) = (Traffic::read(&scrape(100, 5, 90, 100)), Traffic::read(&scrape(10, 0, 10, 10)));
        assert_eq!(counts(&now.since(&earlier)).requests, 10.0);
        assert_eq!(counts(&now.since(&Traffic::default())).requests, 10.0);
    }

    #[test]
    fn a_quantile_is_the_bound_of_the_bucket_that_reaches_it() {
        let quantile =
            |good, fast, slow, part| counts(&Traffic::read(&scrape(good, 0, fast, slow))).quantile(part);
        assert_eq!(quantile(100, 99, 100, 0.99), Some(Quantile::AtMost(0.025)));
        assert_eq!(quantile(100, 98, 100, 0.99), Some(Quantile::AtMost(10.0)));
        assert_eq!(quantile(100, 0, 98, 0.99), Some(Quantile::Above(10.0)));
        assert_eq!(quantile(0, 0, 0, 0.5), None);
        let shown =
            [Quantile::AtMost(0.025), Quantile::AtMost(2.5), Quantile::Above(10.0)].map(|it| it.to_string());
        assert_eq!(shown, ["<=25ms", "<=2.5s", ">10s"]);
    }

    #[test]
    fn pods_are_added_bucket_by_bucket() {
        let single_pod = counts(&Traffic::read(&scrape(10, 0, 10, 10)));
        let mut both = counts(&Traffic::read(&scrape(10, 0, 0, 10)));
        both.add(&single_pod);
        assert_eq!((both.requests, both.quantile(0.5)), (20.0, Some(Quantile::AtMost(0.025))));
        assert_eq!(both.quantile(0.51), Some(Quantile::AtMost(10.0)));
    }
}
