//! `extension`: a service that receives the requests and responses of an Ingress, and may change them. The fields are those of an
//! entry of `spec.extProc` in an ExtensionPolicy.

use fairway_model::Extension;

use crate::annotations::value::parse_policy_field;
use crate::backend::BackendRef;
use crate::balance::Balance;
use crate::external_processor::{self, InvalidField};
use crate::object::ObjectKey;
use crate::policies::ExternalProcessor;
use crate::transport::Transport;

/// Parses the annotation of the Ingress `key`; the Service is in its namespace.
///
/// # Errors
/// What is wrong with it, without repeating any value.
pub fn extension(key: &ObjectKey, value: &str) -> Result<(Extension, BackendRef), String> {
    let processor: ExternalProcessor = parse_policy_field(value)?;
    let service = &processor.backend_ref;
    let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let port = u16::try_from(service.port).ok().filter(|port| *port > 0);
    let is_name = !service.name.is_empty() && service.name.chars().all(is_label);
    let Some(port) = port.filter(|_| is_name) else {
        return Err("backendRef has not the name of a Service and the number of its port".to_owned());
    };
    if service.namespace.is_some() {
        return Err(
            "backendRef.namespace is not allowed: the Service is in the namespace of the Ingress".to_owned()
        );
    }
    let name = format!("Ingress/{key}").into();
    let mut extension = external_processor::read(&processor, name, &key.namespace).map_err(|invalid| {
        let InvalidField { field, problem, .. } = invalid;
        format!("{field} {problem}")
    })?;
    let key = ObjectKey::new(&key.namespace, &service.name);
    let backend = BackendRef::new(key, port.to_string().into(), &Transport::H2c, &Balance::default());
    extension.service.backend = backend.key.clone();
    Ok((extension, backend))
}

#[cfg(test)]
mod tests {
    use fairway_model::{BodyMode, ProcessingPhases};

    use super::*;
    use crate::external_processor::DEFAULT_MESSAGE_TIMEOUT;

    fn read(value: &str) -> Result<(Extension, BackendRef), String> {
        extension(&ObjectKey::new("shop", "web"), value)
    }

    #[test]
    fn a_service_gets_headers_by_default() {
        let Ok((extension, backend)) = read(r#"{"backendRef": {"name": "filter", "port": 9000}}"#) else {
            panic!("it is read")
        };
        assert_eq!(
            (&*extension.name, &*extension.service.authority),
            ("Ingress/shop/web", "filter.shop.svc")
        );
        assert_eq!(
            (&*backend.key.0, extension.service.backend),
            ("shop/filter:9000;h2c", backend.key.clone())
        );
        let headers = ProcessingPhases { headers: true, ..ProcessingPhases::default() };
        assert_eq!(
            (extension.request, extension.response, extension.failure_mode_allow),
            (headers, headers, false)
        );
        assert_eq!(
            (extension.message_timeout, extension.max_buffered_body),
            (DEFAULT_MESSAGE_TIMEOUT, 1 << 20)
        );
    }

    #[test]
    fn every_field_is_read() {
        let Ok((extension, _)) = read(
            r#"{"backendRef": {"name": "filter", "port": 9000}, "host": "filter.test", "messageTimeout": "1s", "failureMode": "Open",
            "processingMode": {"request": {"headers": "Skip", "body": "Buffered"},
              "response": {"body": "FullDuplexStreamed", "trailers": "Send"}},
            "allowModeOverride": true, "mutationRules": {"allowForwarded": true, "denied": ["X-Team"], "errorOnDenied": true},
            "maxBufferedBytes": "64Ki", "attributes": ["request.path", "request.path"], "metadata": {"a": {"b": [1]}}}"#,
        ) else {
            panic!("it is read")
        };
        assert_eq!((&*extension.service.authority, extension.message_timeout.as_secs()), ("filter.test", 1));
        assert_eq!((extension.request.headers, extension.request.body), (false, BodyMode::Buffered));
        assert!(extension.response.trailers && extension.failure_mode_allow && extension.allow_mode_override);
        assert_eq!(extension.mutation_rules.denied, ["x-team".into()]);
        assert_eq!((extension.max_buffered_body, extension.attributes.len()), (64 << 10, 1));
        assert_eq!(extension.metadata, [("a".into(), r#"{"b":[1]}"#.into())]);
    }

    #[test]
    fn invalid_fields_are_named() {
        let service = r#""backendRef": {"name": "filter", "port": 9000}"#;
        for (value, problem) in [
            ("filter:9000".to_owned(), "JSON"),
            ("{}".to_owned(), "backendRef"),
            (r#"{"backendRef": {"name": "a/b", "port": 9000}}"#.to_owned(), "backendRef"),
            (r#"{"backendRef": {"name": "a", "port": 0}}"#.to_owned(), "backendRef"),
            (
                r#"{"backendRef": {"name": "a", "namespace": "b", "port": 1}}"#.to_owned(),
                "backendRef.namespace is not allowed",
            ),
            (format!(r#"{{{service}, "messageTimeout": "0s"}}"#), "messageTimeout"),
            (format!(r#"{{{service}, "failureMode": "open"}}"#), "failureMode is none of Closed, Open"),
            (format!(r#"{{{service}, "maxBufferedBytes": "9Mi"}}"#), "maxBufferedBytes"),
            (format!(r#"{{{service}, "attributes": ["request.headers"]}}"#), "attributes"),
            (format!(r#"{{{service}, "mutationRules": {{"denied": ["a b"]}}}}"#), "no name of a header"),
            (
                format!(
                    r#"{{{service}, "processingMode": {{"request": {{"body": "FullDuplexStreamed"}}}}}}"#
                ),
                "processingMode.request.trailers",
            ),
        ] {
            let found = read(&value).err().unwrap_or_default();
            assert!(found.contains(problem), "{value}: {found}");
        }
    }
}
