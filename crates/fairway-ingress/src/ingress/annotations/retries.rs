//! When a request is tried again: `proxy-next-upstream*`. Where that is safe, Fairway tries again whatever they say.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::Forwarding;

use crate::ingress::annotations::family::{Family, Known, differs};
use crate::ingress::values::{self, Failures, value};

/// The family. After `limits`, which makes the policy.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let defaults = &context.defaults.values;
    let failures = value(reader, defaults, "proxy-next-upstream", values::failures);
    let failures = failures.unwrap_or(Failures::Statuses(Vec::new()));
    let tries = value(reader, defaults, "proxy-next-upstream-tries", values::count);
    let limit = value(reader, defaults, "proxy-next-upstream-timeout", values::count);
    let policy = Arc::make_mut(&mut contributions.policy);
    let retry = &mut policy.retry;
    match (&failures, tries) {
        (Failures::None, _) => retry.tries = 1,
        (_, Some(0)) => retry.tries = MOST,
        (_, Some(tries)) => retry.tries = u8::try_from(tries).unwrap_or(MOST).min(MOST),
        (_, None) => {}
    }
    let all = policy.timeouts.connect.saturating_mul(u32::from(retry.tries));
    let limit =
        limit.filter(|limit| *limit > 0).map_or(Duration::MAX, |limit| Duration::from_secs(limit.into()));
    retry.connect_total = all.min(limit);
    if let Failures::Statuses(statuses) = failures
        && !statuses.is_empty()
    {
        contributions.added.add(Forwarding { retry_statuses: statuses, ..Forwarding::default() });
    }
    Ok(())
});

/// The most tries: one request must not use up what all others may retry, where no endpoint answers.
const MOST: u8 = 8;

const ANNOTATIONS: &[Known] = &[
    differs(
        "proxy-next-upstream",
        "an attempt that no endpoint has seen is always repeated, unless it is `off`; methods that are not idempotent are not, \
         where an endpoint may have seen them; after `http_*` an endpoint is asked that was not asked before",
    ),
    differs("proxy-next-upstream-timeout", "it bounds the first connect, too"),
    differs("proxy-next-upstream-tries", "there are 8 at most, also with `0`"),
];
