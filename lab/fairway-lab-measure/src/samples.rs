//! The usage of pods according to counters sampled by their kubelets. Samples are seconds old and seconds apart, and only
//! their own timestamps define the covered time. Queries and estimates nothing: too few samples give no figure.

use std::collections::BTreeMap;

use crate::measured_usage::{Coverage, Spent};

/// One sample of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The pod's name.
    pub pod: String,
    /// When it was taken, by the sampler's clock, seconds.
    pub at_s: f64,
    /// CPU time since the pod began, seconds.
    pub cpu_s: f64,
    /// Its working set, bytes.
    pub memory_bytes: Option<u64>,
}

/// Adds samples as they arrive.
pub struct SampledUsage {
    begun_s: f64,
    read_s: f64,
    /// The last sample of each pod, and whether it was known before this time began.
    known_usage: BTreeMap<String, (Sample, bool)>,
    coverage: Coverage,
}

impl SampledUsage {
    /// Starts with the known samples: they were taken earlier, however late they arrived.
    #[must_use]
    pub fn start(now_s: f64, samples: &[Sample]) -> Self {
        let carried = |sample: &Sample| (sample.pod.clone(), (sample.clone(), true));
        let known = samples.iter().map(carried).collect();
        Self { begun_s: now_s, read_s: now_s, known_usage: known, coverage: Coverage::default() }
    }

    /// Adds samples of the current pods; others are ignored.
    pub fn read(&mut self, now_s: f64, pods: &[String], samples: &[Sample]) {
        self.coverage.present_s += (now_s - self.read_s).max(0.0) * pods.len() as f64;
        self.read_s = now_s;
        for sample in samples.iter().filter(|sample| pods.contains(&sample.pod)) {
            self.add_sample(sample);
        }
        self.known_usage.retain(|pod, _| pods.contains(pod));
    }

    fn add_sample(&mut self, sample: &Sample) {
        match self.known_usage.get(&sample.pod) {
            Some((known, _)) if known.at_s >= sample.at_s => return,
            Some((known, is_carried)) if sample.cpu_s >= known.cpu_s => {
                let sum = if *is_carried { &mut self.coverage.bridge } else { &mut self.coverage.covered };
                sum.cpu_s += sample.cpu_s - known.cpu_s;
                sum.seconds += sample.at_s - known.at_s;
            }
            // The first sample, or a counter that was reset: its earlier count is unknown.
            _ => {}
        }
        self.known_usage.insert(sample.pod.clone(), (sample.clone(), false));
    }

    /// The usage up to the last reading. Memory is from samples of this period, if each pod has one.
    #[must_use]
    pub fn spent(&self) -> Spent {
        let memory = |(sample, is_carried): &(Sample, bool)| sample.memory_bytes.filter(|_| !is_carried);
        Spent {
            cpu_s: self.coverage.cpu_s(),
            user_s: None,
            memory_bytes: self.known_usage.values().map(memory).sum(),
            switches: None,
            seconds: self.read_s - self.begun_s,
            coverage: Some(self.coverage),
        }
    }

    /// Ends this period and starts the next one.
    pub fn cut(&mut self) {
        self.begun_s = self.read_s;
        self.coverage = Coverage::default();
        self.known_usage.values_mut().for_each(|(_, is_carried)| *is_carried = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(pod: &str, at_s: f64, cpu_s: f64) -> Sample {
        Sample { pod: pod.to_owned(), at_s, cpu_s, memory_bytes: Some(1 << 20) }
    }

    fn a() -> Vec<String> {
        vec!["a".to_owned()]
    }

    #[test]
    fn counters_give_the_usage_between_samples_at_their_own_times() {
        // Idle before 100; half a CPU from then on. The node's clock is 50 s ahead, which must not matter.
        let mut sampled = SampledUsage::start(100.0, &[counter("a", 142.0, 7.0)]);
        for (now, at, cpu) in [(105.0, 142.0, 7.0), (110.0, 152.0, 8.0), (130.0, 172.0, 18.0)] {
            sampled.read(now, &a(), &[counter("a", at, cpu)]);
        }
        let spent = sampled.spent();
        // From 152 to 172: 10 s of CPU in 20 s, extrapolated to 30 s.
        assert!((spent.cpu_s - 15.0).abs() < 1e-9, "{spent:?}");
        assert_eq!((spent.memory_bytes, spent.switches), (Some(1 << 20), None));
        let cost = spent.cost(1500, "kubelet", "1 pod").expect("two thirds are covered");
        assert!((cost.us_per_request - 10_000.0).abs() < 1e-6, "{cost:?}");
        assert!((cost.covered.expect("samples cover a part") - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn an_interval_with_too_few_samples_has_no_cost_and_a_reason() {
        let mut sampled = SampledUsage::start(0.0, &[counter("a", 0.0, 1.0)]);
        for (now, at, cpu) in [(4.0, 3.0, 1.5), (9.0, 8.0, 2.0)] {
            sampled.read(now, &a(), &[counter("a", at, cpu)]);
        }
        let reason = sampled.spent().cost(100, "kubelet", "1 pod").expect_err("5 s are covered");
        assert!(reason.contains("cover 5 s of 9 s"), "{reason}");
    }

    #[test]
    fn a_pod_that_began_again_does_not_count_backwards() {
        let mut sampled = SampledUsage::start(0.0, &[]);
        for (now, cpu) in [(1.0, 50.0), (21.0, 60.0), (41.0, 1.0), (61.0, 11.0)] {
            sampled.read(now, &a(), &[counter("a", now, cpu)]);
        }
        let spent = sampled.spent();
        assert!((spent.cpu_s - 61.0 * 0.5).abs() < 1e-9, "{spent:?}");
    }

    #[test]
    fn phases_that_are_too_short_alone_are_enough_together() {
        let mut sampled = SampledUsage::start(0.0, &[counter("a", 0.0, 0.0)]);
        let mut sum = Spent::default();
        for phase in 1..=6 {
            let now = f64::from(phase) * 8.0;
            sampled.read(now, &a(), &[counter("a", now - 1.0, (now - 1.0) * 0.25)]);
            let spent = sampled.spent();
            assert!(spent.cost(10, "kubelet", "1 pod").is_err(), "one sample covers nothing: {spent:?}");
            sum = sum.and(&spent);
            sampled.cut();
        }
        // From the first phase's sample, at 7, to the last one's, at 47: 40 s of 48 s at a quarter of a CPU.
        let cost = sum.cost(12, "kubelet", "1 pod").expect("they follow one another");
        assert!((cost.cpu_s - 12.0).abs() < 1e-9, "{cost:?}");
    }

    #[test]
    fn pods_of_others_do_not_count() {
        let mut sampled = SampledUsage::start(0.0, &[]);
        for now in [0.5, 20.5] {
            sampled.read(now, &a(), &[counter("a", now, now), counter("b", now, now * 9.0)]);
        }
        assert!((sampled.spent().cpu_s - 20.5).abs() < 1e-9);
    }
}
