//! The effect of events on latency: the highest value in the second after each, and how long it stayed up, compared with a
//! stream that did not go through the proxy. Pure.

use fairway_lab_measure::results::{Bucket, Event, Measure, Spike};

/// Seconds after an event in which a spike may begin.
const AFTER_S: f64 = 1.0;

/// The spikes of a stream. Quiet is the time before the first event, without its first half second, in which connections
/// are made; events and streams are on one clock.
pub(super) fn spikes(
    through: &Measure,
    straight: Option<&Measure>,
    events: &[Event],
    phase_s: f64,
) -> Vec<Spike> {
    let Some(first) = events.first() else { return Vec::new() };
    let limit = |stream: &Measure| 2.0 * quiet_p99(stream, first.at_s);
    let ends =
        events.iter().skip(1).map(|event| event.at_s).chain(events.last().map(|last| last.at_s + phase_s));
    let spike = |(event, end): (&Event, f64)| {
        let highest = |stream: &Measure| highest(stream, event.at_s, event.at_s + AFTER_S);
        let lasted = |stream: &Measure| spike_duration(stream, event.at_s, end, limit(stream));
        Spike {
            peer: through.peer.clone(),
            settings: through.settings,
            case: through.case.clone(),
            event: event.label.clone(),
            at_s: event.at_s,
            highest_ms: highest(through),
            direct_ms: straight.map(highest),
            lasted_s: (lasted(through) - straight.map_or(0.0, lasted)).max(0.0),
            errors: within(through, event.at_s, end).map(|bucket| bucket.errors).sum(),
            beside: through.beside.clone(),
        }
    };
    events.iter().zip(ends).map(spike).collect()
}

/// Buckets that touch a span of the run's clock.
fn within(stream: &Measure, from_s: f64, to_s: f64) -> impl Iterator<Item = &Bucket> {
    let started = stream.begun_s;
    stream.load.over_time.series.iter().filter(move |bucket| {
        let at = started + bucket.at_s;
        at + bucket.seconds > from_s && at < to_s
    })
}

fn highest(stream: &Measure, from_s: f64, to_s: f64) -> f64 {
    within(stream, from_s, to_s).map(|bucket| bucket.max_ms).fold(0.0, f64::max)
}

/// The p99 of the quiet time, from the highest latency of each bucket: of `n` requests none is above the p99 in `0.99^n`
/// of all buckets, so that quantile of the highest is the p99. A bucket of ten requests has no p99 of its own, and one
/// hiccup of the machine before the first event is one bucket.
fn quiet_p99(stream: &Measure, until_s: f64) -> f64 {
    let settled = (stream.begun_s + 0.5).min(until_s / 2.0);
    let quiet: Vec<&Bucket> =
        within(stream, settled, until_s).filter(|bucket| bucket.requests > bucket.errors).collect();
    let requests: u64 = quiet.iter().map(|bucket| bucket.requests).sum();
    let mut highest: Vec<f64> = quiet.iter().map(|bucket| bucket.max_ms).collect();
    highest.sort_by(f64::total_cmp);
    let share = 0.99_f64.powf(requests as f64 / quiet.len().max(1) as f64);
    let rank = (share * highest.len() as f64).ceil() as usize;
    highest.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// From the first bucket above the limit, if it is in the second after the event, to the first that is not.
fn spike_duration(stream: &Measure, from_s: f64, to_s: f64, limit: f64) -> f64 {
    within(stream, from_s, to_s)
        .skip_while(|bucket| bucket.p99_ms <= limit && stream.begun_s + bucket.at_s < from_s + AFTER_S)
        .take_while(|bucket| bucket.p99_ms > limit)
        .map(|bucket| bucket.seconds)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_lab_measure::results::{Backstage, Load, OverTime, Settings};

    /// A stream whose buckets of 100 ms have this latency.
    fn stream(peer: &str, ms: impl Fn(f64) -> f64) -> Measure {
        let series = (0..60).map(|index| {
            let at_s = f64::from(index) / 10.0;
            Bucket {
                at_s,
                seconds: 0.1,
                requests: 10,
                errors: 0,
                p50_ms: 1.0,
                p99_ms: ms(at_s),
                max_ms: ms(at_s),
            }
        });
        Measure {
            peer: peer.to_owned(),
            settings: Settings::Recommended,
            case: "100/s".to_owned(),
            phase: "pooled".to_owned(),
            beside: None,
            begun_s: 0.0,
            load: Load { over_time: OverTime { series: series.collect() }, ..Load::default() },
            cost: None,
            backstage: Backstage::default(),
        }
    }

    fn event(at_s: f64, label: &str) -> Event {
        let text = |text: &str| text.to_owned();
        Event {
            peer: text("nginx-reload"),
            settings: Settings::Recommended,
            case: text("100/s"),
            at_s,
            label: text(label),
            kind: text("scale"),
        }
    }

    #[test]
    fn a_spike_has_the_height_and_length_of_its_buckets() {
        let through = stream("nginx-reload", |at| if (2.35..2.75).contains(&at) { 40.0 } else { 1.0 });
        let straight = stream("direct", |_| 0.5);
        let found = spikes(&through, Some(&straight), &[event(2.3, "up"), event(4.0, "down")], 2.0);
        assert_eq!((found[0].highest_ms, found[0].direct_ms), (40.0, Some(0.5)));
        assert!((found[0].lasted_s - 0.4).abs() < 1e-6, "{}", found[0].lasted_s);
        assert_eq!((found[1].highest_ms, found[1].lasted_s), (1.0, 0.0));
    }

    /// Of ten requests the highest is the p90.4 or so in the median bucket, and the p99 in one of ten.
    #[test]
    fn the_quiet_p99_is_that_of_the_requests_and_not_of_the_median_bucket() {
        let quiet = |at: f64| 1.0 + (at * 10.0).round() % 10.0;
        let through = stream("haproxy", |at| if at < 5.0 { quiet(at) } else { 19.0 });
        let found = spikes(&through, None, &[event(5.0, "up")], 0.9);
        assert_eq!(found[0].lasted_s, 0.0, "twice the p99 is 20 ms");
        let through = stream("haproxy", |at| if at < 5.0 { quiet(at) } else { 21.0 });
        assert!(spikes(&through, None, &[event(5.0, "up")], 0.9)[0].lasted_s > 0.8);
    }

    #[test]
    fn the_latency_of_the_direct_stream_is_subtracted() {
        let pause = |at: f64| if (2.35..2.65).contains(&at) { 40.0 } else { 1.0 };
        let found = spikes(&stream("envoy", pause), Some(&stream("direct", pause)), &[event(2.3, "up")], 2.0);
        assert_eq!(found[0].lasted_s, 0.0);
        assert_eq!((found[0].highest_ms, found[0].direct_ms), (40.0, Some(40.0)));
    }
}
