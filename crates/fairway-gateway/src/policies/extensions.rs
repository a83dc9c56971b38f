//! Reads ExtensionPolicies: services that see requests and responses, in order. Each unusable service closes or opens
//! its target, according to its `failureMode`; the others are still used.

use std::sync::Arc;

use fairway_model::Extension;
use fairway_objects::external_processor::{self, InvalidField};
use fairway_objects::object::ObjectKey;
use fairway_objects::policies as types;
use fairway_objects::policies::ExtensionPolicySpec;

use crate::policies::reading::PolicyError;

/// Maximum number of services per policy.
const MAX_SERVICES: usize = 4;

/// A service of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExtensionService {
    /// Its settings, or why it is unusable. The backend key is empty until the reference is resolved.
    pub(crate) extension: Result<Arc<Extension>, PolicyError>,
    /// Whether requests continue without it.
    pub(crate) fails_open: bool,
}

/// Reads the services of a policy. A policy that is unusable as a whole yields one unusable service.
pub(crate) fn read(policy: &ObjectKey, spec: &ExtensionPolicySpec) -> Vec<ExtensionService> {
    if let Some(wrong) = unusable(spec) {
        let fails_open = !spec.ext_proc.is_empty() && spec.ext_proc.iter().all(fails_open);
        return vec![ExtensionService { extension: Err(wrong), fails_open }];
    }
    let read = |(index, processor): (usize, &types::ExternalProcessor)| ExtensionService {
        extension: extension(policy, &format!("spec.extProc[{index}]"), processor).map(Arc::new),
        fails_open: fails_open(processor),
    };
    spec.ext_proc.iter().enumerate().map(read).collect()
}

/// The referenced Services, in the order of the result of [`read`].
pub(crate) fn processors(spec: &ExtensionPolicySpec) -> &[types::ExternalProcessor] {
    if unusable(spec).is_some() { &[] } else { &spec.ext_proc }
}

fn unusable(spec: &ExtensionPolicySpec) -> Option<PolicyError> {
    match (&spec.refused, spec.ext_proc.len()) {
        (Some(refused), _) => Some(PolicyError::new(&refused.field, &refused.problem)),
        (None, 0) => Some(PolicyError::new("spec.extProc", "it has no service")),
        (None, 1..=MAX_SERVICES) => None,
        _ => Some(PolicyError::new("spec.extProc", format!("it has more than {MAX_SERVICES} services"))),
    }
}

/// An unreadable mode fails closed.
fn fails_open(spec: &types::ExternalProcessor) -> bool {
    external_processor::fails_open(spec).unwrap_or_default()
}

fn extension(
    policy: &ObjectKey,
    at: &str,
    spec: &types::ExternalProcessor,
) -> Result<Extension, PolicyError> {
    let name = format!("ExtensionPolicy/{policy}").into();
    external_processor::read(spec, name, &policy.namespace).map_err(|invalid| {
        let InvalidField { field, value, problem } = invalid;
        let subject = value.map_or_else(|| "it".to_owned(), |value| format!("\"{value}\""));
        PolicyError::new(format!("{at}.{field}"), format!("{subject} {problem}"))
    })
}

#[cfg(test)]
mod tests {
    use fairway_model::{BodyMode, MutationRules, ProcessingPhases};
    use fairway_objects::external_processor::{
        DEFAULT_BUFFERED_BYTES, DEFAULT_MESSAGE_TIMEOUT, MAX_MESSAGE_TIMEOUT,
    };
    use serde_json::{Value, json};

    use super::*;

    fn services(spec: Value) -> Vec<ExtensionService> {
        read(&ObjectKey::new("shop", "waf"), &serde_json::from_value(spec).expect("a spec"))
    }

    /// The only service of a policy, with these fields in addition to its Service.
    fn service(fields: &Value) -> ExtensionService {
        let mut filter = json!({"backendRef": {"name": "waf", "port": 9000}});
        filter.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        services(json!({"extProc": [filter]})).remove(0)
    }

    #[test]
    fn a_service_sees_headers_of_both_messages_by_default() {
        let read = service(&json!({})).extension.unwrap();
        let headers = ProcessingPhases { headers: true, ..ProcessingPhases::default() };
        assert_eq!((read.request, read.response), (headers, headers));
        assert_eq!((&*read.name, &*read.service.authority), ("ExtensionPolicy/shop/waf", "waf.shop.svc"));
        assert_eq!(
            (read.message_timeout, read.max_buffered_body),
            (DEFAULT_MESSAGE_TIMEOUT, DEFAULT_BUFFERED_BYTES)
        );
        assert_eq!(read.service.timeouts.connect, DEFAULT_MESSAGE_TIMEOUT);
        assert!(!read.failure_mode_allow && read.mutation_rules == MutationRules::default());
    }

    #[test]
    fn all_fields_are_read() {
        let duplex = json!({"headers": "Skip", "body": "FullDuplexStreamed", "trailers": "Send"});
        let read = service(&json!({
            "host": "waf.test",
            "messageTimeout": "1h",
            "failureMode": "Open",
            "processingMode": {"request": duplex, "response": {"body": "BufferedPartial"}},
            "allowModeOverride": true,
            "mutationRules": {"allowPathAndMethod": true, "allowForwarded": true, "denied": ["X-User"],
                              "errorOnDenied": true},
            "maxBufferedBytes": "8Mi",
            "attributes": ["request.path", "source.address", "request.path"],
            "metadata": {"a.test": {"rule": [1, {"x": null}]}},
        }));
        let ExtensionService { extension, fails_open: true } = read else { panic!("{read:?}") };
        let read = extension.unwrap();
        let phases = |headers, body, trailers| ProcessingPhases { headers, body, trailers };
        assert_eq!(read.request, phases(false, BodyMode::FullDuplexStreamed, true));
        assert_eq!(read.response, phases(true, BodyMode::BufferedPartial, false));
        assert_eq!((read.message_timeout, read.max_buffered_body), (MAX_MESSAGE_TIMEOUT, 8 << 20));
        let attributes: Vec<_> =
            read.attributes.iter().map(|(name, expression)| format!("{name} {expression}")).collect();
        assert_eq!(attributes, ["request.path $request_uri", "source.address $remote_addr"]);
        assert_eq!(read.metadata, [("a.test".into(), r#"{"rule":[1,{"x":null}]}"#.into())]);
        let rules = &read.mutation_rules;
        assert!(rules.allow_path_and_method && rules.allow_forwarded && rules.error_on_denied);
        assert_eq!(rules.denied, ["x-user".into()]);
        assert!(read.failure_mode_allow && read.allow_mode_override);
    }

    #[test]
    fn unreadable_services_follow_their_failure_mode() {
        for (more, field) in [
            (json!({"host": "a b"}), "host"),
            (json!({"messageTimeout": "0s"}), "messageTimeout"),
            (json!({"messageTimeout": "1h1ms"}), "messageTimeout"),
            (json!({"processingMode": {"request": {"headers": "Yes"}}}), "processingMode.request.headers"),
            (json!({"processingMode": {"response": {"body": "All"}}}), "processingMode.response.body"),
            (
                json!({"processingMode": {"request": {"body": "FullDuplexStreamed"}}}),
                "processingMode.request.trailers",
            ),
            (json!({"mutationRules": {"denied": ["a b"]}}), "mutationRules.denied"),
            (json!({"maxBufferedBytes": "9Mi"}), "maxBufferedBytes"),
            (json!({"maxBufferedBytes": 0}), "maxBufferedBytes"),
            (json!({"attributes": ["request.headers"]}), "attributes"),
            (json!({"metadata": {"a": {"b": "x".repeat(4096)}}}), "metadata"),
        ] {
            for mode in ["Closed", "Open"] {
                let mut service_fields = more.clone();
                service_fields["failureMode"] = json!(mode);
                let read = service(&service_fields);
                let wrong = read.extension.unwrap_err();
                assert_eq!(wrong.field, format!("spec.extProc[0].{field}"), "{service_fields}");
                assert_eq!(read.fails_open, mode == "Open", "{service_fields}");
            }
        }
        let read = service(&json!({"failureMode": "Ajar"}));
        assert_eq!(
            (read.extension.unwrap_err().field, read.fails_open),
            ("spec.extProc[0].failureMode".into(), false)
        );
    }

    #[test]
    fn a_policy_that_cannot_be_used_as_a_whole_is_open_only_where_all_its_services_are() {
        let filter_with =
            |mode: &str| json!({"backendRef": {"name": "waf", "port": 9000}, "failureMode": mode});
        for (spec, is_open) in [
            (json!({}), false),
            (json!({"extProc": vec![filter_with("Open"); 5]}), true),
            (
                json!({"extProc": [filter_with("Open"), filter_with("Open"), filter_with("Open"), filter_with("Closed"), filter_with("Open")]}),
                false,
            ),
        ] {
            let read = services(spec.clone());
            assert_eq!((read.len(), read[0].fails_open), (1, is_open), "{spec}");
            assert_eq!(read[0].extension.as_ref().unwrap_err().field, "spec.extProc", "{spec}");
        }
        let refused = types::RefusedField { field: "spec.extproc".into(), problem: "is unknown".into() };
        let spec = ExtensionPolicySpec { refused: Some(refused), ..ExtensionPolicySpec::default() };
        let read = read(&ObjectKey::new("shop", "waf"), &spec).remove(0);
        assert_eq!(
            (read.extension, read.fails_open),
            (Err(PolicyError::new("spec.extproc", "is unknown")), false)
        );
    }
}
