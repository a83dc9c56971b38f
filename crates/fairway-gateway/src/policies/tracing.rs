//! Reads `tracing` of ClientTrafficPolicies.

use std::sync::Arc;

use fairway_model::{Propagation, SampleRatio, Tracing};
use fairway_objects::policies::{ClientTracing, SamplingRate};

use crate::policies::reading::PolicyError;
use crate::policies::value::{enum_value, number};

const MODES: [(&str, bool); 2] = [("Enabled", true), ("Disabled", false)];

const CONTEXTS: [(&str, bool); 2] = [("Restart", false), ("Continue", true)];

const PROPAGATIONS: [(&str, Propagation); 2] =
    [("W3C", Propagation::W3c), ("W3CAndB3", Propagation::W3cAndB3)];

/// Reads the tracing settings.
///
/// # Errors
/// The first unusable value.
pub(crate) fn read(spec: &ClientTracing) -> Result<Arc<Tracing>, PolicyError> {
    let Some(rate) = &spec.sampling_rate else {
        return Err(PolicyError::new("spec.tracing.samplingRate", "it is missing"));
    };
    let ratio = ratio(rate)?;
    let context = enum_value("spec.tracing.incomingContext", spec.incoming_context.as_deref(), &CONTEXTS)?;
    let trust_incoming = context.unwrap_or_default();
    let propagation = enum_value("spec.tracing.propagation", spec.propagation.as_deref(), &PROPAGATIONS)?;
    Ok(Arc::new(Tracing {
        ratio,
        parent_based: parent_based(spec, trust_incoming)?,
        trust_incoming,
        propagation: propagation.unwrap_or_default(),
        span_name: None,
    }))
}

/// Whether the client's sampling decision counts. Traces that start here have none.
fn parent_based(spec: &ClientTracing, trust_incoming: bool) -> Result<bool, PolicyError> {
    let field = "spec.tracing.parentBasedSampling";
    match &spec.parent_based_sampling {
        None => Ok(trust_incoming),
        Some(_) if !trust_incoming => Err(PolicyError::new(field, "it needs incomingContext Continue")),
        Some(it) => Ok(enum_value(&format!("{field}.mode"), it.mode.as_deref(), &MODES)?.unwrap_or(true)),
    }
}

fn ratio(rate: &SamplingRate) -> Result<SampleRatio, PolicyError> {
    let field = "spec.tracing.samplingRate";
    let at = format!("{field}.numerator");
    let Some(numerator) = number::<u32>(&at, rate.numerator, 0)? else {
        return Err(PolicyError::new(at, "it is missing"));
    };
    let denominator = number::<u32>(&format!("{field}.denominator"), rate.denominator, 1)?.unwrap_or(100);
    SampleRatio::new(f64::from(numerator) / f64::from(denominator))
        .ok_or_else(|| PolicyError::new(field, format!("{numerator} is more than {denominator}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse_tracing(tracing: Value) -> Result<Tracing, PolicyError> {
        let read = read(&serde_json::from_value(tracing).expect("tracing of a policy"))?;
        Ok(Tracing::clone(&read))
    }

    #[test]
    fn a_rate_alone_starts_traces_and_trusts_no_client() {
        let tracing = parse_tracing(json!({"samplingRate": {"numerator": 5}})).unwrap();
        assert_eq!(tracing, Tracing { ratio: SampleRatio::new(0.05).unwrap(), ..Tracing::default() });
        assert!(parse_tracing(json!({"samplingRate": {"numerator": 0}})).unwrap().is_off());
        let all = parse_tracing(json!({"samplingRate": {"numerator": 7, "denominator": 7}})).unwrap();
        assert_eq!(all.ratio, SampleRatio::ALL);
    }

    #[test]
    fn a_continued_trace_keeps_its_sampling_unless_the_policy_overrides_it() {
        let sampling_for = |parent: Value| {
            let mut tracing = json!({"samplingRate": {"numerator": 0}, "incomingContext": "Continue"});
            if !parent.is_null() {
                tracing["parentBasedSampling"] = parent;
            }
            let tracing = parse_tracing(tracing).unwrap();
            assert!(tracing.trust_incoming);
            tracing.parent_based
        };
        assert!(
            sampling_for(Value::Null) && sampling_for(json!({})) && sampling_for(json!({"mode": "Enabled"}))
        );
        assert!(!sampling_for(json!({"mode": "Disabled"})));
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named() {
        let rate = json!({"numerator": 1});
        for (tracing, field) in [
            (json!({}), "samplingRate"),
            (json!({"samplingRate": {}}), "samplingRate.numerator"),
            (json!({"samplingRate": {"numerator": -1}}), "samplingRate.numerator"),
            (json!({"samplingRate": {"numerator": 1, "denominator": 0}}), "samplingRate.denominator"),
            (json!({"samplingRate": {"numerator": 101}}), "samplingRate"),
            (json!({"samplingRate": rate, "incomingContext": "Trust"}), "incomingContext"),
            (json!({"samplingRate": rate, "propagation": "B3"}), "propagation"),
            (
                json!({"samplingRate": rate, "parentBasedSampling": {"mode": "Enabled"}}),
                "parentBasedSampling",
            ),
            (
                json!({"samplingRate": rate, "incomingContext": "Continue", "parentBasedSampling": {"mode": "On"}}),
                "parentBasedSampling.mode",
            ),
        ] {
            assert_eq!(
                parse_tracing(tracing.clone()).unwrap_err().field,
                format!("spec.tracing.{field}"),
                "{tracing}"
            );
        }
    }
}
