//! Threads that keep a rate go before everything else, where that is allowed: what they do late is counted as latency of
//! whatever is measured. Under SCHED_OTHER a thread that wakes up waits until another has used up its slice, some
//! milliseconds; under SCHED_FIFO it does not (sched(7)).

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use super::plan::{Pace, Plan};

/// Requests a second of one thread up to which it needs a small part of a CPU, so that it starves nobody. Above them, and
/// in a closed loop, it would take a CPU from what it measures.
const GENTLE: f64 = 20_000.0;

/// Puts the calling thread before others if its plan is gentle. The kernel leaves the others 5% of the time in any case
/// (sched_rt_runtime_us). Who may not do this is as late as the report says.
pub(super) fn raise(plan: &Plan) {
    if !is_gentle(plan) {
        return;
    }
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    if let Err(error) = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy) {
        tracing::debug!(%error, "the generator runs at the usual priority");
    }
}

fn is_gentle(plan: &Plan) -> bool {
    match plan.pace {
        Pace::Open { rate, .. } => rate / plan.shape.threads.max(1) as f64 <= GENTLE,
        Pace::Closed => false,
    }
}

#[cfg(test)]
mod tests {
    use thread_priority::thread_schedule_policy;

    use super::*;

    /// The policy that a thread with this plan runs under.
    fn policy_of(pace: Pace) -> ThreadSchedulePolicy {
        let mut plan = Plan::to("http://127.0.0.1:1/").unwrap();
        plan.pace = pace;
        std::thread::spawn(move || {
            raise(&plan);
            thread_schedule_policy().unwrap()
        })
        .join()
        .unwrap()
    }

    #[test]
    fn only_a_thread_that_keeps_a_modest_rate_goes_first() {
        let usual = std::thread::spawn(|| thread_schedule_policy().unwrap()).join().unwrap();
        assert_eq!(policy_of(Pace::Closed), usual);
        assert_eq!(policy_of(Pace::Open { rate: 100_000.0, poisson: false }), usual);
        let first = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
        // Not everybody may.
        let may = std::thread::spawn(move || {
            set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, first).is_ok()
        });
        let wanted = if may.join().unwrap() { first } else { usual };
        assert_eq!(policy_of(Pace::Open { rate: 5_000.0, poisson: false }), wanted);
    }
}
