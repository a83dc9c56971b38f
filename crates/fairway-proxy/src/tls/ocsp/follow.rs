//! Keeps the response of one certificate fresh: asks at once, again when half of a response's time is over, and later and later
//! while nothing good comes.

use std::convert::Infallible;
use std::sync::Weak;
use std::time::Duration;

use fairway_model::CertificateKey;
use rustls_pki_types::UnixTime;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use super::counts::{Counts, Outcome};
use super::fetch::{AddressRule, FetchError, Times, fetch};
use super::inquiry::Inquiry;
use super::response::{Status, verify};
use super::staple::Staple;

/// How long is waited for a responder.
const TIMES: Times = Times { connect: Duration::from_secs(3), whole: Duration::from_secs(10) };
/// How many certificates are asked about at a time, and the same of those whose last attempt failed: responders that do not answer
/// delay no others for long.
const MAX_FETCHES: usize = 8;
/// Between two fetches that succeed.
const REFRESH: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(86_400)];
/// After the first attempt that fails, and after any number of them.
const RETRY: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(3_600)];

/// A certificate whose responder is asked until nobody uses it.
pub(super) struct Followed {
    pub(super) name: CertificateKey,
    pub(super) inquiry: Inquiry,
    pub(super) staple: Weak<Staple>,
    /// Ends when the certificate is dropped.
    pub(super) in_use: oneshot::Receiver<Infallible>,
}

/// What all of them share.
pub(super) struct Shared {
    pub(super) rule: AddressRule,
    pub(super) counts: Counts,
    first: Semaphore,
    after_failures: Semaphore,
}

/// What comes of an attempt.
struct Attempt {
    outcome: Outcome,
    /// When the next one is due.
    wait: Duration,
}

impl Shared {
    pub(super) fn new(rule: AddressRule) -> Self {
        let [first, after_failures] = [0, 1].map(|_| Semaphore::new(MAX_FETCHES));
        Self { rule, counts: Counts::default(), first, after_failures }
    }
}

impl Followed {
    pub(super) async fn run(self, shared: &Shared) {
        let Self { name, inquiry, staple, in_use } = self;
        let asking = async {
            let mut failures = 0;
            loop {
                let turn = if failures == 0 { &shared.first } else { &shared.after_failures };
                // It is never closed.
                let turn = turn.acquire().await;
                let attempt = attempt(&name, &inquiry, &staple, failures, shared).await;
                drop(turn);
                shared.counts.add(attempt.outcome);
                failures = if attempt.outcome == Outcome::Good { 0 } else { failures + 1 };
                sleep(attempt.wait).await;
            }
        };
        tokio::select! {
            _ = in_use => {}
            () = asking => {}
        }
    }
}

/// Asks once, and staples what is good.
async fn attempt(
    name: &CertificateKey,
    inquiry: &Inquiry,
    staple: &Weak<Staple>,
    failures: u32,
    shared: &Shared,
) -> Attempt {
    let url = &inquiry.responder;
    let wait = retry_in(failures);
    let must =
        if inquiry.must_staple { "; the certificate demands one, so clients may refuse it" } else { "" };
    let remains = format!("the last good OCSP response is stapled until it expires, or none is{must}");
    let retried = |outcome| Attempt { outcome, wait };
    // In a box, since it is large and seldom there.
    let response = match Box::pin(fetch(inquiry, &shared.rule, TIMES)).await {
        Ok(response) => response,
        Err(error) => {
            tracing::warn!(certificate = %name, "the OCSP responder {url} {error}; {remains}");
            return retried(match error {
                FetchError::Refused(_) => Outcome::Refused,
                FetchError::Failed(_) => Outcome::Failed,
            });
        }
    };
    let now = UnixTime::now();
    let verdict = match verify(&response, inquiry, now) {
        Ok(verdict) => verdict,
        Err(error) => {
            tracing::warn!(certificate = %name, "what the OCSP responder {url} sent {error}; {remains}");
            return retried(Outcome::Unusable);
        }
    };
    // Without it nobody waits for an outcome.
    let Some(staple) = staple.upgrade() else { return retried(Outcome::Good) };
    match verdict.status {
        Status::Good => {
            staple.put(response.into(), verdict.next_update);
            let left = Duration::from_secs(verdict.next_update.saturating_sub(now.as_secs()));
            Attempt { outcome: Outcome::Good, wait: refresh_in(left) }
        }
        Status::Revoked => {
            staple.withdraw();
            tracing::error!(
                certificate = %name,
                "the certificate is revoked, says its OCSP responder {url}; no OCSP response is stapled: replace the certificate"
            );
            retried(Outcome::Revoked)
        }
        Status::Unknown => {
            tracing::warn!(certificate = %name, "the OCSP responder {url} does not know the certificate; {remains}");
            retried(Outcome::Unknown)
        }
    }
}

/// When a response is refreshed that has this time left: after half of it, less up to a tenth by chance, so that the replicas and
/// certificates of a rollout do not all ask at the same time.
fn refresh_in(left: Duration) -> Duration {
    let [least, most] = REFRESH;
    less_by_chance((left / 2).min(most)).clamp(least, most)
}

/// When a responder is asked again after this many failures before the last one.
fn retry_in(failures: u32) -> Duration {
    let [least, most] = RETRY;
    less_by_chance(least.saturating_mul(1 << failures.min(10)).min(most))
}

fn less_by_chance(wait: Duration) -> Duration {
    wait.mul_f64(1.0 - fastrand::f64() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn responses_are_refreshed_when_half_of_their_time_is_over_within_bounds() {
        for (left, least, most) in
            [(DAY, DAY * 45 / 100, DAY / 2), (7 * DAY, DAY * 9 / 10, DAY), (10, 60, 60), (0, 60, 60)]
        {
            let wait = refresh_in(Duration::from_secs(left)).as_secs();
            assert!((least..=most).contains(&wait), "{left} {wait}");
        }
        assert!(refresh_in(Duration::MAX) <= REFRESH[1]);
    }

    #[test]
    fn responders_that_fail_are_asked_less_and_less_often() {
        for (failures, most) in [(0, 30), (1, 60), (3, 240), (7, 3_600), (u32::MAX, 3_600)] {
            let wait = retry_in(failures);
            let most = Duration::from_secs(most);
            assert!(wait <= most && wait >= most.mul_f64(0.89), "{failures} {wait:?}");
        }
    }
}
