//! Runs threads that keep a rate with real-time priority where permitted, because their delay would count as latency of the
//! measured proxy. Under SCHED_OTHER a thread that wakes waits until another has used its slice, some milliseconds; under
//! SCHED_FIFO it does not (sched(7)).

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

use super::plan::{Pace, Plan};

/// Requests per second up to which a thread uses a small part of a CPU and starves no other. Above it, and in a closed
/// loop, it would take a CPU from the measured proxy.
const GENTLE: f64 = 20_000.0;

/// Raises the priority of the calling thread if its plan permits it. The kernel always leaves the others 5% of the time
/// (sched_rt_runtime_us). Without permission the thread is as late as the report states.
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

    /// The scheduling policy for a thread with this plan.
    fn policy_of(pace: Pace) -> ThreadSchedulePolicy {
        let mut plan = Plan::for_url("http://127.0.0.1:1/").unwrap();
        plan.pace = pace;
        std::thread::spawn(move || {
            raise(&plan);
            thread_schedule_policy().unwrap()
        })
        .join()
        .unwrap()
    }

    #[test]
    fn only_a_thread_with_a_modest_rate_gets_priority() {
        let usual = std::thread::spawn(|| thread_schedule_policy().unwrap()).join().unwrap();
        assert_eq!(policy_of(Pace::Closed), usual);
        assert_eq!(policy_of(Pace::Open { rate: 100_000.0, poisson: false }), usual);
        let first = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
        // Needs a privilege.
        let may = std::thread::spawn(move || {
            set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, first).is_ok()
        });
        let expected = if may.join().unwrap() { first } else { usual };
        assert_eq!(policy_of(Pace::Open { rate: 5_000.0, poisson: false }), expected);
    }
}
