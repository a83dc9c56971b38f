//! Timeouts and body size: `proxy-connect-timeout`, `proxy-send-timeout`, `proxy-read-timeout`, `proxy-body-size`.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::Timeouts;
use fairway_objects::annotations::text::parse_size;

use crate::ingress::annotations::family::{Family, KnownAnnotation, supported};
use crate::ingress::reader::Reader;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let timeouts = timeouts(reader, context.defaults.forwarding.timeouts);
    let max_body = max_body(reader, context.defaults.forwarding.max_body);
    contributions.policy = Arc::new(context.defaults.policy(timeouts, max_body));
    Ok(())
});

const ANNOTATIONS: &[KnownAnnotation] = &[
    supported("proxy-body-size"),
    supported("proxy-connect-timeout"),
    supported("proxy-read-timeout"),
    supported("proxy-send-timeout"),
];

fn timeouts(reader: &mut Reader<'_>, defaults: Timeouts) -> Timeouts {
    let mut seconds = |name: &str, default: Duration| {
        reader.number(name, 1..=u64::from(u32::MAX)).map_or(default, Duration::from_secs)
    };
    Timeouts {
        connect: seconds("proxy-connect-timeout", defaults.connect),
        send: seconds("proxy-send-timeout", defaults.send),
        read: seconds("proxy-read-timeout", defaults.read),
        ..defaults
    }
}

fn max_body(reader: &mut Reader<'_>, default: Option<u64>) -> Option<u64> {
    let name = "proxy-body-size";
    let Some(value) = reader.value(name) else { return default };
    match parse_size(value) {
        Some(size) => (size > 0).then_some(size),
        None => {
            let limit = default.map_or("no limit".to_owned(), |size| format!("a limit of {size} bytes"));
            reader.invalid(
                name,
                format!("\"{value}\" is no size (8, 8k, 8m, 8g)"),
                format!("{limit} applies"),
            );
            default
        }
    }
}
