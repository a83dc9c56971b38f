//! Logging and tracing: `enable-access-log`, `enable-opentelemetry`, `opentelemetry-*`.

use std::sync::Arc;

use fairway_model::{Phases, Tracing};
use fairway_objects::annotations::text::parse_bool;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, supported};
use crate::ingress::defaults::TracingDefaults;
use crate::ingress::reader::Reader;
use crate::ingress::span_name;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    if !reader.switch("enable-access-log", true) {
        contributions.added.add(Phases { unlogged: true, ..Phases::default() });
    }
    let tracing = tracing(reader, &context.defaults.tracing).map(Arc::new);
    contributions.added.add(Phases { tracing, ..Phases::default() });
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("enable-access-log"),
    supported(ENABLE),
    differs(NAME, "the key's [variables](operate.md#traces) work (ingress-nginx refuses the Ingress)"),
    differs(TRUST, "needs no `enable-opentelemetry` if the ConfigMap enables tracing"),
];

const ENABLE: &str = "enable-opentelemetry";
const NAME: &str = "opentelemetry-operation-name";
const TRUST: &str = "opentelemetry-trust-incoming-span";

/// Tracing of the Ingress, if it differs from the global setting.
fn tracing(reader: &mut Reader<'_>, defaults: &TracingDefaults) -> Option<Tracing> {
    let enabled = own_switch(reader, ENABLE);
    if enabled == Some(false) {
        return Some(Tracing::off());
    }
    if enabled.or(defaults.enabled) != Some(true) {
        let problem = "neither enable-opentelemetry nor the settings ConfigMap turns tracing on";
        for name in [NAME, TRUST] {
            if reader.value(name).is_some() {
                reader.invalid(name, problem, "it has no effect");
            }
        }
        return None;
    }
    let mut tracing = defaults.traced.clone();
    tracing.trust_incoming = own_switch(reader, TRUST).unwrap_or(tracing.trust_incoming);
    match reader.value(NAME).filter(|name| !name.is_empty()).map(span_name::read) {
        Some(Ok(name)) => tracing.span_name = Some(Arc::new(name)),
        Some(Err(problem)) => reader.invalid(NAME, problem, "spans are named as without it"),
        None => {}
    }
    let is_that_of_all = defaults.enabled == Some(true) && tracing == defaults.traced;
    (!is_that_of_all).then_some(tracing)
}

/// A switch that the settings ConfigMap also has; `None` if it is absent or invalid.
fn own_switch(reader: &mut Reader<'_>, name: &str) -> Option<bool> {
    let value = reader.value(name)?;
    let read = parse_bool(value);
    if read.is_none() {
        let problem = format!("\"{value}\" is neither true nor false");
        reader.invalid(name, problem, "the settings ConfigMap decides");
    }
    read
}
