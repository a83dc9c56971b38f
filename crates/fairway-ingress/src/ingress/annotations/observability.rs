//! What is logged and traced: `enable-access-log`; tracing does not work yet.

use fairway_model::Phases;

use crate::ingress::annotations::family::{Family, Known, done, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    if !reader.switch("enable-access-log", true) {
        contributions.added.add(Phases { unlogged: true, ..Phases::default() });
    }
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    done("enable-access-log"),
    offers("enable-opentelemetry", "no traces are sent", &["false"]),
    offers("opentelemetry-operation-name", "no traces are sent", &[]),
    offers("opentelemetry-trust-incoming-span", "no traces are sent", &[]),
];
