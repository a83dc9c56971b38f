//! Runs reviews one at a time, off the thread that serves connections. A caller that waits too long gets no verdict, so a slow
//! review delays neither the API server nor other connections.

use std::sync::Arc;
use std::time::Duration;

use fairway_control::clock;
use fairway_control::dry_run::Verdict;
use fairway_control::input::Inlet;
use fairway_objects::object::ObjectKey;
use k8s_openapi::api::networking::v1::Ingress;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::reviews::Reviews;

/// Concurrent reviews: they compete with the workers for CPU.
const MAX_CONCURRENT_REVIEWS: usize = 1;
/// How long a caller waits for a verdict: the API server, and a user behind it, are waiting.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(2);

/// Reviews Ingresses by the configuration behind an inlet. Clones share the limit.
#[derive(Clone, Debug)]
pub(crate) struct IngressReviewer {
    pub(super) reviews: Reviews,
    inlet: Inlet,
    permits: Arc<Semaphore>,
}

impl IngressReviewer {
    pub(crate) fn new(inlet: Inlet, reviews: Reviews) -> Self {
        Self { reviews, inlet, permits: Arc::new(Semaphore::new(MAX_CONCURRENT_REVIEWS)) }
    }

    /// The verdict; `None` if there is none in time, because there is no configuration yet or other reviews are running.
    pub(crate) async fn review(&self, ingress: Ingress) -> Option<Verdict> {
        let began = Instant::now();
        let name = |name: &Option<String>| name.as_deref().unwrap_or_default().into();
        let metadata = &ingress.metadata;
        let key = ObjectKey { namespace: name(&metadata.namespace), name: name(&metadata.name) };
        let verdict = self.verdict(ingress).await;
        self.reviews.record_verdict(key, verdict.as_ref(), began.elapsed());
        verdict
    }

    async fn verdict(&self, ingress: Ingress) -> Option<Verdict> {
        let inlet = self.inlet.clone();
        self.run_in_turn(async move {
            let trial = inlet.trial().await?;
            // A review that has started runs to its end, even if the caller is gone: it keeps its permit until then.
            spawn_blocking(move || trial.evaluate(ingress, clock::unix_seconds())).await.ok()
        })
        .await
    }

    async fn run_in_turn<T: Send + 'static>(
        &self,
        judged: impl Future<Output = Option<T>> + Send + 'static,
    ) -> Option<T> {
        let turns = self.permits.clone();
        let review = async move {
            let turn = turns.acquire_owned().await.ok()?;
            let judged = tokio::spawn(async move {
                let judged = judged.await;
                drop(turn);
                judged
            });
            judged.await.ok().flatten()
        };
        timeout(REVIEW_TIMEOUT, review).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;
    use fairway_control::input::pipe;

    #[tokio::test(start_paused = true)]
    async fn reviews_run_one_at_a_time_and_a_long_wait_yields_no_verdict() {
        let judge = IngressReviewer::new(pipe().0, Reviews::default());
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (judge, now, most) = (judge.clone(), now.clone(), most.clone());
            waiting.spawn(async move {
                let work = async move {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(Duration::from_millis(700)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Some(())
                };
                judge.run_in_turn(work).await
            });
        }
        let verdicts = waiting.join_all().await;
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert_eq!(verdicts.iter().flatten().count(), 2, "two are judged within the two seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_review_keeps_its_permit_until_it_ends() {
        let judge = IngressReviewer::new(pipe().0, Reviews::default());
        let long = async {
            sleep(Duration::from_secs(5)).await;
            Some(())
        };
        assert_eq!(judge.run_in_turn(long).await, None);
        assert_eq!(judge.permits.available_permits(), 0);
        sleep(Duration::from_secs(4)).await;
        assert_eq!(judge.run_in_turn(async { Some(()) }).await, Some(()));
    }
}
