//! What both formats say in the same words.

use crate::fault::Fault;
use crate::record::Record;

/// Why an answer is not the endpoint's, as both formats flag it; `-` when it is.
pub(super) fn flag(record: &Record<'_>) -> &'static str {
    record.fault.map_or("-", Fault::label)
}

/// `namespace-service-port`, as ingress-nginx names upstreams.
pub(super) fn upstream_name(record: &Record<'_>, out: &mut Vec<u8>) {
    let Some(rule) = record.rule else { return };
    let labels = &rule.rule().labels;
    if !labels.service.is_empty() {
        for part in [&*labels.namespace, "-", &*labels.service, "-", &*labels.service_port] {
            out.extend_from_slice(part.as_bytes());
        }
    }
}
