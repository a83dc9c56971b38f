//! When a request is tried again: `proxy-next-upstream*`. Where that is safe, Fairway tries again whatever they say.

use std::time::Duration;

use fairway_model::Filter;

use crate::ingress::annotations::family::{Family, Known, differs};
use crate::ingress::contributions::Phase;
use crate::ingress::reader::Reader;

/// The family. After `limits`, which makes the policy.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    let failures = failures(reader);
    let tries = reader.number("proxy-next-upstream-tries", 0..=u64::from(u32::MAX));
    let limit = reader.number("proxy-next-upstream-timeout", 0..=u64::from(u32::MAX));
    let retry = &mut contributions.policy.retry;
    match (&failures, tries) {
        (Failures::None, _) => retry.tries = 1,
        (_, Some(0)) => retry.tries = MOST,
        (_, Some(tries)) => retry.tries = u8::try_from(tries).unwrap_or(MOST).min(MOST),
        (_, None) => {}
    }
    let all = contributions.policy.timeouts.connect.saturating_mul(u32::from(retry.tries));
    let limit = limit.filter(|limit| *limit > 0).map_or(Duration::MAX, Duration::from_secs);
    retry.connect_total = all.min(limit);
    if let Failures::Statuses(statuses) = failures
        && !statuses.is_empty()
    {
        contributions.filters.push(Phase::Forward, Filter::RetryStatuses(statuses));
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

/// After what else than a failure to connect or to answer a request is tried elsewhere.
enum Failures {
    /// Not even after those.
    None,
    /// After these answers.
    Statuses(Vec<u16>),
}

/// Reads `proxy-next-upstream`.
fn failures(reader: &mut Reader<'_>) -> Failures {
    let name = "proxy-next-upstream";
    let mut statuses = Vec::new();
    let Some(value) = reader.value(name) else { return Failures::Statuses(statuses) };
    let mut none = false;
    for word in value.split_ascii_whitespace() {
        match word {
            "off" => none = true,
            "error" | "timeout" | "invalid_header" | "non_idempotent" => {}
            _ => match word.strip_prefix("http_").and_then(|status| status.parse().ok()) {
                Some(status @ (403 | 404 | 429 | 500 | 502 | 503 | 504)) => statuses.push(status),
                _ => {
                    reader.invalid(
                        name,
                        format!("\"{word}\" is no kind of failure"),
                        "it is as if it were absent",
                    );
                    return Failures::Statuses(Vec::new());
                }
            },
        }
    }
    if none { Failures::None } else { Failures::Statuses(statuses) }
}
