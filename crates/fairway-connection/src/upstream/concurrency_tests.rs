//! How the limit moves for simulated backends that process a fixed number of requests at a time and queue the rest.

use std::num::NonZeroU32;

use super::*;

const TICK: Duration = Duration::from_millis(10);

fn bounds(minimum: u32, maximum: u32) -> AdaptiveConcurrency {
    let number = |number| NonZeroU32::new(number).unwrap();
    AdaptiveConcurrency { minimum: number(minimum), maximum: number(maximum) }
}

/// An overloaded backend and its limit.
struct Simulated {
    gradient: Gradient,
    bounds: AdaptiveConcurrency,
    now: Instant,
    /// Requests it processes at a time, and the time for one, in milliseconds.
    capacity: f64,
    millis: f64,
    /// Concurrent requests of clients.
    demand: f64,
    /// The fraction of a response left over from earlier ticks.
    remaining_work: f64,
}

impl Simulated {
    fn new(capacity: f64, millis: f64, minimum: u32) -> Self {
        let (now, bounds) = (Instant::now(), bounds(minimum, 100_000));
        let gradient = Gradient::new(bounds, now);
        Self { gradient, bounds, now, capacity, millis, demand: 1e9, remaining_work: 0.0 }
    }

    fn in_flight(&self) -> f64 {
        self.demand.min(self.gradient.limit().into())
    }

    /// The current response time, in milliseconds.
    fn time(&self) -> f64 {
        self.millis * (self.in_flight() / self.capacity).max(1.0)
    }

    /// Advances by `seconds`. Returns the responses, and the minimum and maximum of the limit.
    fn pass(&mut self, seconds: u32) -> (f64, u32, u32) {
        let (mut responses, mut least, mut most) = (0.0, u32::MAX, 0);
        for _ in 0..seconds * 100 {
            self.now += TICK;
            let time = self.time();
            self.remaining_work += self.in_flight() / time * 10.0;
            let mut tally = Tally::default();
            while self.remaining_work >= 1.0 {
                tally.record(Duration::from_secs_f64(time / 1e3), true, self.in_flight() as u32);
                self.remaining_work -= 1.0;
                responses += 1.0;
            }
            self.gradient.add(tally, self.bounds, self.now);
            least = least.min(self.gradient.limit());
            most = most.max(self.gradient.limit());
        }
        (responses, least, most)
    }

    /// The limit relative to the capacity.
    fn relative(&self) -> f64 {
        f64::from(self.gradient.limit()) / self.capacity
    }

    /// The fraction of its capacity that it used in these seconds.
    fn used(&mut self, seconds: u32) -> f64 {
        self.pass(seconds).0 / (self.capacity / self.millis * 1e3 * f64::from(seconds))
    }
}

#[test]
fn under_load_the_limit_is_one_to_two_times_the_capacity_and_no_response_is_lost() {
    for capacity in [8.0, 100.0, 1000.0] {
        for millis in [5.0, 50.0, 500.0] {
            let mut simulated = Simulated::new(capacity, millis, 2);
            simulated.pass(10 + millis as u32 / 10);
            let used = simulated.used(120);
            let relative = simulated.relative();
            assert!((1.2..2.0).contains(&relative), "{capacity} of {millis} ms: {relative}");
            assert!((0.96..1.01).contains(&used), "{capacity} of {millis} ms: {used}");
        }
    }
}

#[test]
fn a_new_limit_reaches_the_capacity_of_a_fast_backend_within_a_second() {
    let mut simulated = Simulated::new(1000.0, 20.0, 20);
    simulated.pass(1);
    assert!(simulated.relative() > 1.0, "{}", simulated.relative());
}

#[test]
fn the_limit_follows_a_falling_and_recovering_capacity() {
    let mut simulated = Simulated::new(100.0, 20.0, 5);
    simulated.pass(20);
    simulated.capacity = 20.0;
    simulated.pass(3);
    assert!((1.0..2.0).contains(&simulated.relative()), "{}", simulated.relative());
    assert!(simulated.used(60) > 0.98);
    simulated.capacity = 100.0;
    simulated.pass(5);
    assert!((1.0..2.0).contains(&simulated.relative()), "{}", simulated.relative());
}

#[test]
fn a_permanently_slower_backend_regains_its_limit_within_seconds() {
    for factor in [1.3, 2.0, 3.0, 10.0] {
        let mut simulated = Simulated::new(100.0, 20.0, 5);
        simulated.pass(20);
        simulated.millis *= factor;
        let (_, least, _) = simulated.pass(8);
        assert!(factor < 1.5 || least <= 80, "{factor}: the limit fell to {least} first");
        assert!(simulated.relative() > 1.0, "{factor}: {}", simulated.relative());
        assert!(simulated.used(60) > 0.97, "{factor}");
        // Once it is as fast as before, the limit is too high until a probe or a pause.
        simulated.millis /= factor;
        simulated.pass(200);
        assert!((1.0..2.0).contains(&simulated.relative()), "{factor}: {}", simulated.relative());
    }
}

#[test]
fn a_backend_that_was_overloaded_when_its_limit_began_is_found_out_by_probes() {
    let mut simulated = Simulated::new(10.0, 20.0, 40);
    simulated.pass(60);
    assert!((40..70).contains(&simulated.gradient.limit()), "{}", simulated.gradient.limit());
    simulated.bounds = bounds(2, 1000);
    simulated.pass(200);
    assert!((1.0..2.0).contains(&simulated.relative()), "{}", simulated.relative());
}

#[test]
fn a_limit_that_few_requests_come_near_stays() {
    let mut simulated = Simulated::new(100.0, 20.0, 5);
    simulated.pass(10);
    simulated.demand = 20.0;
    simulated.pass(1);
    let limit = simulated.gradient.limit();
    simulated.demand = f64::from(limit / 2 - 1);
    for millis in [5.0, 20.0, 900.0] {
        simulated.millis = millis;
        let (_, least, most) = simulated.pass(60);
        assert_eq!((least, most), (limit, limit), "{millis} ms");
    }
}

#[test]
fn a_limit_close_to_its_load_grows_up_to_its_maximum() {
    let mut simulated = Simulated::new(1e6, 20.0, 10);
    simulated.demand = 300.0;
    simulated.pass(20);
    assert!((600..1000).contains(&simulated.gradient.limit()), "{}", simulated.gradient.limit());
    simulated.bounds = bounds(10, 350);
    simulated.pass(1);
    let (_, least, most) = simulated.pass(100);
    assert!(most == 350 && least >= 300, "{least} to {most}");
    simulated.bounds = bounds(400, 500);
    simulated.pass(1);
    assert!(simulated.gradient.limit() >= 400);
}

/// `count` requests wait for a response this long, in vain.
fn hang(simulated: &mut Simulated, count: u32, seconds: u64) {
    let mut tally = Tally::default();
    let limit = simulated.gradient.limit();
    (0..count).for_each(|_| tally.record(Duration::from_secs(seconds), false, limit));
    simulated.now += Duration::from_secs(20);
    simulated.gradient.add(tally, simulated.bounds, simulated.now);
}

#[test]
fn timeouts_lower_the_limit_and_do_not_count_as_response_times() {
    let mut simulated = Simulated::new(100.0, 20.0, 5);
    simulated.pass(10);
    let (limit, tolerated) = (simulated.gradient.limit(), simulated.gradient.tolerated_seconds());
    hang(&mut simulated, MIN_RESPONSES, 60);
    assert_eq!(simulated.gradient.limit(), (f64::from(limit) / 2.0).round() as u32);
    (0..9).for_each(|_| hang(&mut simulated, MIN_RESPONSES, 60));
    assert_eq!(simulated.gradient.limit(), 5);
    assert_eq!(simulated.gradient.tolerated_seconds(), tolerated);
    simulated.now += UPDATE_INTERVAL_RANGE[1];
    simulated.pass(5);
    assert!((1.0..2.0).contains(&simulated.relative()), "{}", simulated.relative());
}

#[test]
fn too_few_responses_do_not_change_the_limit() {
    let mut simulated = Simulated::new(100.0, 20.0, 5);
    simulated.pass(10);
    let limit = simulated.gradient.limit();
    simulated.gradient.interval = Tally::default();
    hang(&mut simulated, MIN_RESPONSES - 1, 60);
    assert_eq!(simulated.gradient.limit(), limit);
    hang(&mut simulated, 1, 60);
    assert!(simulated.gradient.limit() < limit);
}

#[test]
fn a_few_slow_responses_weigh_little() {
    let mut tally = Tally::default();
    for millis in [10; 98].into_iter().chain([10_000; 2]) {
        tally.record(Duration::from_millis(millis), true, 1);
    }
    assert!((0.010..0.012).contains(&tally.mean()), "{}", tally.mean());
}

#[test]
fn changes_of_a_limit_in_use_are_reported_at_once_and_then_periodically() {
    let now = Instant::now();
    let within = bounds(10, 100);
    let concurrency = Concurrency::new(within, now);
    let limit_after = |awaiting| {
        let mut tally = Tally::default();
        tally.record(Duration::from_millis(20), true, awaiting);
        concurrency.report(tally, within, now)
    };
    assert_eq!(limit_after(2), now + REPORT_INTERVAL, "it is hardly in use");
    assert_eq!((limit_after(5), limit_after(5)), (now, now));
    assert!(!concurrency.is_slow(Duration::from_secs(99)), "nothing is known yet");
    (0..MIN_RESPONSES).for_each(|_| _ = limit_after(10));
    assert_eq!(concurrency.limit(), 15);
    assert!(
        concurrency.is_slow(Duration::from_millis(33)) && !concurrency.is_slow(Duration::from_millis(31))
    );
    assert_eq!(concurrency.limit_within(bounds(20, 30)), 20);
}
