//! What is logged and traced: `enable-access-log`, `enable-opentelemetry`, `opentelemetry-*`.

use std::sync::Arc;

use fairway_model::{Phases, Tracing};
use fairway_objects::annotations::text::switch;

use crate::ingress::annotations::family::{Family, Known, differs, done};
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

const ANNOTATIONS: &[Known] = &[
    done("enable-access-log"),
    done(ENABLE),
    differs(
        NAME,
        "the [variables](operate.md#traces) of the key work, where ingress-nginx refuses the Ingress; where the ConfigMap turns \
         tracing on, it works without `enable-opentelemetry`, too",
    ),
    differs(TRUST, "where the ConfigMap turns tracing on, it works without `enable-opentelemetry`, too"),
];

const ENABLE: &str = "enable-opentelemetry";
const NAME: &str = "opentelemetry-operation-name";
const TRUST: &str = "opentelemetry-trust-incoming-span";

/// How the requests of the Ingress are traced, where that differs from all Ingresses.
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

/// A switch that the settings ConfigMap has, too; `None` where it is absent or no switch.
fn own_switch(reader: &mut Reader<'_>, name: &str) -> Option<bool> {
    let value = reader.value(name)?;
    let read = switch(value);
    if read.is_none() {
        let problem = format!("\"{value}\" is neither true nor false");
        reader.invalid(name, problem, "the settings ConfigMap decides");
    }
    read
}
