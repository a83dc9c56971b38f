//! What is logged and traced: `enable-access-log`; tracing does not work yet.

use fairway_model::Filter;

use crate::ingress::annotations::family::{Family, Known, done, offers};
use crate::ingress::contributions::Phase;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    if !reader.switch("enable-access-log", true) {
        contributions.filters.push(Phase::AnswerHead, Filter::Unlogged);
    }
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    done("enable-access-log"),
    offers("enable-opentelemetry", "no traces are sent", &["false"]),
    offers("opentelemetry-operation-name", "no traces are sent", &[]),
    offers("opentelemetry-trust-incoming-span", "no traces are sent", &[]),
];
