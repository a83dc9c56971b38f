//! Reads `buffering` of BackendTrafficPolicies: which bodies of a Service are buffered, and where.

use fairway_model::{BodyBuffer, Buffering};
use fairway_objects::buffering::{
    MAX_MEMORY, REQUEST_DISK, REQUEST_MEMORY, RESPONSE_BUFFER, RESPONSE_BUFFERS, RESPONSE_DISK,
};
use fairway_objects::policies::{BodyBufferSize, BodyBuffering, Size};

use crate::policies::reading::PolicyError;
use crate::policies::value::{bytes, positive_bytes};

/// Body buffering, with request bodies limited to `max_request`.
pub(crate) fn read(spec: &BodyBuffering, max_request: Option<u64>) -> Result<Buffering, PolicyError> {
    let requests = spec.requests.as_ref().map(|settings| {
        let disk = |memory: u32| max_request.map_or(REQUEST_DISK, |most| most.saturating_sub(memory.into()));
        buffer("spec.buffering.requests", settings, REQUEST_MEMORY, disk)
    });
    let responses = spec.responses.as_ref().map(|settings| {
        let memory = u64::from(RESPONSE_BUFFERS) * RESPONSE_BUFFER;
        buffer("spec.buffering.responses", settings, memory, |_| RESPONSE_DISK)
    });
    Ok(Buffering { requests: requests.transpose()?, responses: responses.transpose()? })
}

fn buffer(
    field: &str,
    size: &BodyBufferSize,
    memory: u64,
    disk: impl FnOnce(u32) -> u64,
) -> Result<BodyBuffer, PolicyError> {
    let of_memory = format!("{field}.memory");
    let memory = positive_bytes(&of_memory, size.memory.as_ref())?.unwrap_or(memory);
    let memory = u32::try_from(memory).ok().filter(|memory| u64::from(*memory) <= MAX_MEMORY);
    let memory = memory.ok_or_else(|| {
        let limit = Size::from_bytes(MAX_MEMORY).0;
        PolicyError::new(of_memory, format!("it is more than {limit}, which a body may have in memory"))
    })?;
    let on_disk = bytes(&format!("{field}.disk"), size.disk.as_ref())?;
    Ok(BodyBuffer { memory, disk: on_disk.unwrap_or_else(|| disk(memory)) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse_value(value: Value, max_request: Option<u64>) -> Result<Buffering, PolicyError> {
        read(&serde_json::from_value(value).expect("fields of the policy"), max_request)
    }

    fn buffer(memory: u32, disk: u64) -> Option<BodyBuffer> {
        Some(BodyBuffer { memory, disk })
    }

    #[test]
    fn named_bodies_are_buffered_with_the_annotation_defaults() {
        assert_eq!(parse_value(json!({}), None).unwrap(), Buffering::default());
        let both = parse_value(json!({"requests": {}, "responses": {}}), None).unwrap();
        assert_eq!(both.requests, buffer(8192, 1 << 30));
        assert_eq!(both.responses, buffer(16_384, 1 << 30));
    }

    #[test]
    fn a_request_has_no_more_room_on_disk_than_its_limit_leaves() {
        let requests =
            |value: Value, most| parse_value(json!({"requests": value}), Some(most)).unwrap().requests;
        assert_eq!(requests(json!({}), 10_000), buffer(8192, 1808));
        assert_eq!(requests(json!({}), 1000), buffer(8192, 0));
        assert_eq!(requests(json!({"memory": "64Ki", "disk": 0}), 10_000), buffer(65_536, 0));
        assert_eq!(requests(json!({"disk": "1Mi"}), 10_000), buffer(8192, 1 << 20));
    }

    #[test]
    fn an_unusable_value_names_its_field() {
        for (value, field) in [
            (json!({"requests": {"memory": "2Mi"}}), "requests.memory"),
            (json!({"requests": {"memory": 0}}), "requests.memory"),
            (json!({"requests": {"disk": "1GB"}}), "requests.disk"),
            (json!({"responses": {"memory": "16k ", "disk": 1}}), "responses.memory"),
            (json!({"responses": {"disk": "-1"}}), "responses.disk"),
        ] {
            assert_eq!(
                parse_value(value.clone(), None).unwrap_err().field,
                format!("spec.buffering.{field}"),
                "{value}"
            );
        }
    }
}
