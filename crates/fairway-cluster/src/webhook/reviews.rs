//! What the webhook has judged, counted for the metrics. Decides nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairway_control::exposition::{escaped, head, line, single};
use fairway_control::trial::Verdict;
use fairway_objects::object::ObjectKey;

/// Ingresses that are counted by their names; what comes beyond is counted together, without a name.
const MOST: usize = 1_000;

/// The counts. A clone counts together with it.
#[derive(Clone, Debug, Default)]
pub struct Reviews(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// By Ingress: how often nothing was wrong with it, and how often something was.
    judged: BTreeMap<ObjectKey, [u64; 2]>,
    not_ours: u64,
    /// Nobody had time to judge them.
    unjudged: u64,
    /// What the last one took to judge.
    tested: Duration,
    /// What the last one took in all.
    answered: Duration,
}

impl Reviews {
    /// An Ingress was judged in `took`; no verdict means that there was none in time.
    pub(super) fn judged(&self, ingress: ObjectKey, verdict: Option<&Verdict>, took: Duration) {
        let mut counts = self.lock();
        counts.tested = took;
        match verdict {
            None => counts.unjudged += 1,
            Some(Verdict::NotOurs) => counts.not_ours += 1,
            Some(Verdict::Ours { errors, .. }) => {
                let known = counts.judged.len() < MOST || counts.judged.contains_key(&ingress);
                let place = if known { ingress } else { ObjectKey::default() };
                counts.judged.entry(place).or_default()[usize::from(!errors.is_empty())] += 1;
            }
        }
    }

    /// A question was answered in `took`.
    pub(super) fn answered(&self, took: Duration) {
        self.lock().answered = took;
    }

    /// The metrics of the webhook in the Prometheus text format; `identity` are the labels that those of ingress-nginx
    /// all have.
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
        // Numbers alone: a panic elsewhere leaves them usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Verdict = Verdict::Ours { errors: Vec::new(), warnings: Vec::new() };

    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }

    #[test]
    fn each_verdict_is_counted_once() {
        let reviews = Reviews::default();
        let key = ObjectKey::new("a", "web");
        for verdict in [Some(&GOOD), Some(&GOOD), Some(&Verdict::NotOurs), None] {
            reviews.judged(key.clone(), verdict, Duration::from_millis(1));
        }
        reviews.answered(Duration::from_millis(250));
        let text = reviews.metrics_text("pod=\"p\"");
        has(&text, "fairway_webhook_reviews_total{verdict=\"good\"} 2");
        has(&text, "fairway_webhook_reviews_total{verdict=\"bad\"} 0");
        has(&text, "fairway_webhook_reviews_total{verdict=\"not_ours\"} 1");
        has(&text, "fairway_webhook_reviews_total{verdict=\"unjudged\"} 1");
        has(&text, "nginx_ingress_controller_check_success{pod=\"p\",namespace=\"a\",ingress=\"web\"} 2");
        has(&text, "nginx_ingress_controller_admission_roundtrip_duration{pod=\"p\"} 0.25");
        assert!(!text.contains("check_errors{"));
    }

    #[test]
    fn names_are_bounded_and_nothing_is_lost() {
        let reviews = Reviews::default();
        for number in 0..2 * MOST {
            reviews.judged(ObjectKey::new("a", &number.to_string()), Some(&GOOD), Duration::ZERO);
        }
        let text = reviews.metrics_text("pod=\"p\"");
        let series = text.lines().filter(|line| line.starts_with("nginx_ingress_controller_check_success{"));
        assert_eq!(series.count(), MOST + 1);
        has(
            &text,
            &format!(
                "nginx_ingress_controller_check_success{{pod=\"p\",namespace=\"\",ingress=\"\"}} {MOST}"
            ),
        );
        has(&text, &format!("fairway_webhook_reviews_total{{verdict=\"good\"}} {}", 2 * MOST));
    }
}
