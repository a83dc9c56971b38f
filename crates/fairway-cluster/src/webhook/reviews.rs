//! Counts reviews for the metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairway_control::dry_run::Verdict;
use fairway_control::exposition::{escaped, head, line, single};
use fairway_objects::object::ObjectKey;

/// How many Ingresses get their own series; the rest share one without a name.
const MAX_NAMED_INGRESSES: usize = 1_000;

/// The counters. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Reviews(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// Reviews per Ingress: accepted and rejected.
    judged: BTreeMap<ObjectKey, [u64; 2]>,
    not_ours: u64,
    /// Reviews that were not finished in time.
    unjudged: u64,
    /// Duration of the last review.
    tested: Duration,
    /// Duration of the last response, review included.
    answered: Duration,
}

impl Reviews {
    /// Records a review that took `took`; `None` if there was no verdict in time.
    pub(super) fn record_verdict(&self, ingress: ObjectKey, verdict: Option<&Verdict>, took: Duration) {
        let mut counts = self.lock();
        counts.tested = took;
        match verdict {
            None => counts.unjudged += 1,
            Some(Verdict::NotOurs) => counts.not_ours += 1,
            Some(Verdict::Ours { errors, .. }) => {
                let known = counts.judged.len() < MAX_NAMED_INGRESSES || counts.judged.contains_key(&ingress);
                let object = if known { ingress } else { ObjectKey::default() };
                counts.judged.entry(object).or_default()[usize::from(!errors.is_empty())] += 1;
            }
        }
    }

    /// Records a response that took `took`.
    pub(super) fn record_response(&self, took: Duration) {
        self.lock().answered = took;
    }

    /// The webhook's metrics in the Prometheus text format. `identity` holds the labels that all metrics of ingress-nginx carry.
    #[must_use]
    pub fn metrics_text(&self, identity: &str) -> String {
        let counts = self.lock();
        let mut out = String::new();
        let name = "fairway_webhook_reviews_total";
        head(&mut out, name, "counter", "Ingresses that the webhook was asked about.");
        let sum = |index: usize| counts.judged.values().map(|judged| judged[index]).sum::<u64>();
        for (verdict, count) in
            [("good", sum(0)), ("bad", sum(1)), ("not_ours", counts.not_ours), ("unjudged", counts.unjudged)]
        {
            line(&mut out, name, &format!("verdict=\"{verdict}\""), count);
        }
        for (index, name, help) in [
            (0, "check_success", "Reviews that found no error in the Ingress."),
            (1, "check_errors", "Reviews that found an error in the Ingress."),
        ] {
            let name = format!("nginx_ingress_controller_{name}");
            head(&mut out, &name, "counter", help);
            for (key, judged) in counts.judged.iter().filter(|(_, judged)| judged[index] > 0) {
                let (namespace, ingress) = (escaped(&key.namespace), escaped(&key.name));
                let labels = format!("{identity},namespace=\"{namespace}\",ingress=\"{ingress}\"");
                line(&mut out, &name, &labels, judged[index]);
            }
        }
        for (name, help, value) in [
            ("roundtrip_duration", "Seconds that the last answer took.", counts.answered.as_secs_f64()),
            ("tested_duration", "Seconds that the last judgement took.", counts.tested.as_secs_f64()),
            ("tested_ingresses", "Ingresses that a review judges.", 1.0),
        ] {
            let name = format!("nginx_ingress_controller_admission_{name}");
            single(&mut out, &name, "gauge", help, identity, value);
        }
        out
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Plain numbers: they stay usable after a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: Verdict = Verdict::Ours { errors: Vec::new(), warnings: Vec::new() };

    fn assert_has_line(text: &str, line: &str) {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }

    #[test]
    fn each_verdict_is_counted_once() {
        let reviews = Reviews::default();
        let key = ObjectKey::new("a", "web");
        for verdict in [Some(&VALID), Some(&VALID), Some(&Verdict::NotOurs), None] {
            reviews.record_verdict(key.clone(), verdict, Duration::from_millis(1));
        }
        reviews.record_response(Duration::from_millis(250));
        let text = reviews.metrics_text("pod=\"p\"");
        assert_has_line(&text, "fairway_webhook_reviews_total{verdict=\"good\"} 2");
        assert_has_line(&text, "fairway_webhook_reviews_total{verdict=\"bad\"} 0");
        assert_has_line(&text, "fairway_webhook_reviews_total{verdict=\"not_ours\"} 1");
        assert_has_line(&text, "fairway_webhook_reviews_total{verdict=\"unjudged\"} 1");
        assert_has_line(
            &text,
            "nginx_ingress_controller_check_success{pod=\"p\",namespace=\"a\",ingress=\"web\"} 2",
        );
        assert_has_line(&text, "nginx_ingress_controller_admission_roundtrip_duration{pod=\"p\"} 0.25");
        assert!(!text.contains("check_errors{"));
    }

    #[test]
    fn names_are_bounded_and_nothing_is_lost() {
        let reviews = Reviews::default();
        for number in 0..2 * MAX_NAMED_INGRESSES {
            reviews.record_verdict(ObjectKey::new("a", &number.to_string()), Some(&VALID), Duration::ZERO);
        }
        let text = reviews.metrics_text("pod=\"p\"");
        let series = text.lines().filter(|line| line.starts_with("nginx_ingress_controller_check_success{"));
        assert_eq!(series.count(), MAX_NAMED_INGRESSES + 1);
        assert_has_line(
            &text,
            &format!(
                "nginx_ingress_controller_check_success{{pod=\"p\",namespace=\"\",ingress=\"\"}} {MAX_NAMED_INGRESSES}"
            ),
        );
        assert_has_line(
            &text,
            &format!("fairway_webhook_reviews_total{{verdict=\"good\"}} {}", 2 * MAX_NAMED_INGRESSES),
        );
    }
}
