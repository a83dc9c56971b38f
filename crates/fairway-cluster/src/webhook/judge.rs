//! Lets objects be judged, one at a time, away from the thread that serves connections. Whoever waits too long is told
//! so: a judgement that takes long delays neither the API server nor the connections of others.

use std::sync::Arc;
use std::time::Duration;

use fairway_control::clock;
use fairway_control::inlet::Inlet;
use fairway_control::trial::Verdict;
use fairway_objects::object::ObjectKey;
use k8s_openapi::api::networking::v1::Ingress;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::reviews::Reviews;

/// Judgements at a time: they share the CPUs with the workers.
const AT_A_TIME: usize = 1;
/// Longer nobody waits for a verdict: the API server waits, and a user behind it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Judges by the configuration behind an inlet. A clone shares the bound.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    pub(super) reviews: Reviews,
    inlet: Inlet,
    turns: Arc<Semaphore>,
}

impl Judge {
    pub(crate) fn new(inlet: Inlet, reviews: Reviews) -> Self {
        Self { reviews, inlet, turns: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// The verdict; `None` when there is none in time, because nothing is read yet or too much is to be judged.
    pub(crate) async fn judge(&self, ingress: Ingress) -> Option<Verdict> {
        let began = Instant::now();
        let name = |name: &Option<String>| name.as_deref().unwrap_or_default().into();
        let metadata = &ingress.metadata;
        let key = ObjectKey { namespace: name(&metadata.namespace), name: name(&metadata.name) };
        let verdict = self.verdict(ingress).await;
        self.reviews.judged(key, verdict.as_ref(), began.elapsed());
        verdict
    }

    async fn verdict(&self, ingress: Ingress) -> Option<Verdict> {
        let inlet = self.inlet.clone();
        self.in_turn(async move {
            let trial = inlet.trial().await?;
            // What was begun is finished even if nobody waits for it any more: it keeps its turn until then.
            spawn_blocking(move || trial.judge(ingress, clock::unix_seconds())).await.ok()
        })
        .await
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        judged: impl Future<Output = Option<T>> + Send + 'static,
    ) -> Option<T> {
        let turns = self.turns.clone();
        let whole = async move {
            let turn = turns.acquire_owned().await.ok()?;
            let judged = tokio::spawn(async move {
                let judged = judged.await;
                drop(turn);
                judged
            });
            judged.await.ok().flatten()
        };
        timeout(PATIENCE, whole).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;
    use fairway_control::inlet::pipe;

    #[tokio::test(start_paused = true)]
    async fn one_is_judged_at_a_time_and_who_waits_too_long_gets_no_verdict() {
        let judge = Judge::new(pipe().0, Reviews::default());
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
                judge.in_turn(work).await
            });
        }
        let verdicts = waiting.join_all().await;
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert_eq!(verdicts.iter().flatten().count(), 2, "two are judged within the two seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_judgement_that_nobody_waits_for_any_more_keeps_its_turn_until_it_ends() {
        let judge = Judge::new(pipe().0, Reviews::default());
        let long = async {
            sleep(Duration::from_secs(5)).await;
            Some(())
        };
        assert_eq!(judge.in_turn(long).await, None);
        assert_eq!(judge.turns.available_permits(), 0);
        sleep(Duration::from_secs(4)).await;
        assert_eq!(judge.in_turn(async { Some(()) }).await, Some(()));
    }
}
