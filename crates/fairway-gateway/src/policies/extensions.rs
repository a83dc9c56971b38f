//! ExtensionPolicies: services that see requests and responses, in the order in which requests meet them. Each service that cannot be
//! used closes or opens what it is for, as its own `failureMode` says; the others are used all the same.

use std::sync::Arc;

use fairway_model::Extension;
use fairway_objects::external_processor::{self, InvalidField};
use fairway_objects::object::ObjectKey;
use fairway_objects::policies as types;
use fairway_objects::policies::ExtensionPolicySpec;

use crate::policies::reading::Wrong;

/// How many services a policy may have.
const MAX_SERVICES: usize = 4;

/// A service of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Service {
    /// What it sees and may do, or why it cannot be used. Its backend has no name before it was looked for.
    pub(crate) extension: Result<Arc<Extension>, Wrong>,
    /// Whether requests go on without it.
    pub(crate) is_open: bool,
}

/// Reads the services of the policy `policy`. A policy that cannot be used as a whole has one, which cannot be used either.
pub(crate) fn read(policy: &ObjectKey, spec: &ExtensionPolicySpec) -> Vec<Service> {
    if let Some(wrong) = unusable(spec) {
        let is_open = !spec.ext_proc.is_empty() && spec.ext_proc.iter().all(may_be_left_out);
        return vec![Service { extension: Err(wrong), is_open }];
    }
    let read = |(index, of): (usize, &types::ExternalProcessor)| Service {
        extension: extension(policy, &format!("spec.extProc[{index}]"), of).map(Arc::new),
        is_open: may_be_left_out(of),
    };
    spec.ext_proc.iter().enumerate().map(read).collect()
}

/// The Services that are asked, in the order of what [`read`] gives.
pub(crate) fn asked(spec: &ExtensionPolicySpec) -> &[types::ExternalProcessor] {
    if unusable(spec).is_some() { &[] } else { &spec.ext_proc }
}

fn unusable(spec: &ExtensionPolicySpec) -> Option<Wrong> {
    match (&spec.refused, spec.ext_proc.len()) {
        (Some(refused), _) => Some(Wrong::new(&refused.field, &refused.problem)),
        (None, 0) => Some(Wrong::new("spec.extProc", "it has no service")),
        (None, 1..=MAX_SERVICES) => None,
        _ => Some(Wrong::new("spec.extProc", format!("it has more than {MAX_SERVICES} services"))),
    }
}

/// A mode that cannot be read closes.
fn may_be_left_out(of: &types::ExternalProcessor) -> bool {
    external_processor::fails_open(of).unwrap_or_default()
}

fn extension(policy: &ObjectKey, at: &str, of: &types::ExternalProcessor) -> Result<Extension, Wrong> {
    let name = format!("ExtensionPolicy/{policy}").into();
    external_processor::read(of, name, &policy.namespace).map_err(|invalid| {
        let InvalidField { field, value, problem } = invalid;
        let subject = value.map_or_else(|| "it".to_owned(), |value| format!("\"{value}\""));
        Wrong::new(format!("{at}.{field}"), format!("{subject} {problem}"))
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

    fn services(spec: Value) -> Vec<Service> {
        read(&ObjectKey::new("shop", "waf"), &serde_json::from_value(spec).expect("a spec"))
    }

    /// The one service of a policy, with these fields besides its Service.
    fn service(more: &Value) -> Service {
        let mut of = json!({"backendRef": {"name": "waf", "port": 9000}});
        of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        services(json!({"extProc": [of]})).remove(0)
    }

    #[test]
    fn a_service_sees_the_headers_of_both_messages_unless_it_is_said_otherwise() {
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
        let Service { extension, is_open: true } = read else { panic!("{read:?}") };
        let read = extension.unwrap();
        let phases = |headers, body, trailers| ProcessingPhases { headers, body, trailers };
        assert_eq!(read.request, phases(false, BodyMode::FullDuplexStreamed, true));
        assert_eq!(read.response, phases(true, BodyMode::BufferedPartial, false));
        assert_eq!((read.message_timeout, read.max_buffered_body), (MAX_MESSAGE_TIMEOUT, 8 << 20));
        let attributes: Vec<_> = read.attributes.iter().map(|(name, of)| format!("{name} {of}")).collect();
        assert_eq!(attributes, ["request.path $request_uri", "source.address $remote_addr"]);
        assert_eq!(read.metadata, [("a.test".into(), r#"{"rule":[1,{"x":null}]}"#.into())]);
        let rules = &read.mutation_rules;
        assert!(rules.allow_path_and_method && rules.allow_forwarded && rules.error_on_denied);
        assert_eq!(rules.denied, ["x-user".into()]);
        assert!(read.failure_mode_allow && read.allow_mode_override);
    }

    #[test]
    fn what_cannot_be_read_closes_or_opens_as_it_says() {
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
                let mut more = more.clone();
                more["failureMode"] = json!(mode);
                let read = service(&more);
                let wrong = read.extension.unwrap_err();
                assert_eq!(wrong.field, format!("spec.extProc[0].{field}"), "{more}");
                assert_eq!(read.is_open, mode == "Open", "{more}");
            }
        }
        let read = service(&json!({"failureMode": "Ajar"}));
        assert_eq!(
            (read.extension.unwrap_err().field, read.is_open),
            ("spec.extProc[0].failureMode".into(), false)
        );
    }

    #[test]
    fn a_policy_that_cannot_be_used_as_a_whole_is_open_only_where_all_its_services_are() {
        let of = |mode: &str| json!({"backendRef": {"name": "waf", "port": 9000}, "failureMode": mode});
        for (spec, is_open) in [
            (json!({}), false),
            (json!({"extProc": vec![of("Open"); 5]}), true),
            (json!({"extProc": [of("Open"), of("Open"), of("Open"), of("Closed"), of("Open")]}), false),
        ] {
            let read = services(spec.clone());
            assert_eq!((read.len(), read[0].is_open), (1, is_open), "{spec}");
            assert_eq!(read[0].extension.as_ref().unwrap_err().field, "spec.extProc", "{spec}");
        }
        let refused = types::RefusedField { field: "spec.extproc".into(), problem: "is unknown".into() };
        let spec = ExtensionPolicySpec { refused: Some(refused), ..ExtensionPolicySpec::default() };
        let read = read(&ObjectKey::new("shop", "waf"), &spec).remove(0);
        assert_eq!((read.extension, read.is_open), (Err(Wrong::new("spec.extproc", "is unknown")), false));
    }
}
