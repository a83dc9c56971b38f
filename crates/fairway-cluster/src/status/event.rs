//! Formats a diagnostic as an Event of `events.k8s.io/v1` or of the core API. Pure.

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::kinds::{ApiResource, KINDS};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSeries, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::notices::event_namespace;

/// The value of `Event.reportingController`.
const REPORTING_CONTROLLER: &str = "fairway.dev/ingress-controller";
/// The limit of a note (Event API reference: 1 kB).
const MAX_NOTE_BYTES: usize = 1024;
/// The limit of an object's name, minus the dot and the digits of the hash.
const MAX_NAME_PREFIX_BYTES: usize = 253 - 17;

/// The Event for a diagnostic about the object with this uid. Its name is derived from its text, so that another replica or a
/// later process that reports the same finds the existing Event.
pub(crate) fn event(it: &Diagnostic, uid: &str, instance: &str, now: Timestamp) -> Event {
    let origin = &it.origin;
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let regarding = ObjectReference {
        api_version: Some(api_version(&origin.kind)),
        kind: Some(origin.kind.to_string()),
        namespace: filled(&origin.namespace),
        name: Some(origin.name.to_string()),
        field_path: filled(&origin.field),
        uid: filled(uid),
        resource_version: None,
    };
    Event {
        metadata: ObjectMeta {
            name: Some(event_name(it, uid)),
            namespace: Some(event_namespace(it).to_string()),
            ..ObjectMeta::default()
        },
        action: Some("Configure".to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(event_note(it)),
        reason: Some(event_reason(it.code)),
        regarding: Some(regarding),
        reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
        reporting_instance: Some(truncate(instance, 128).to_owned()),
        type_: Some(if it.severity == Severity::Note { "Normal" } else { "Warning" }.to_owned()),
        ..Event::default()
    }
}

/// The same Event in the fields of the core API. The API server stores one object for both.
pub(crate) fn core_event(event: Event) -> CoreEvent {
    let series = event.series.map(|series| EventSeries {
        count: Some(series.count),
        last_observed_time: Some(series.last_observed_time),
    });
    CoreEvent {
        metadata: event.metadata,
        action: event.action,
        event_time: event.event_time,
        involved_object: event.regarding.unwrap_or_default(),
        message: event.note,
        reason: event.reason,
        related: event.related,
        reporting_component: event.reporting_controller,
        reporting_instance: event.reporting_instance,
        series,
        type_: event.type_,
        ..CoreEvent::default()
    }
}

/// The text that `fairway check` prints.
fn event_note(it: &Diagnostic) -> String {
    let text = it.to_string();
    if text.len() <= MAX_NOTE_BYTES {
        return text;
    }
    format!("{}…", truncate(&text, MAX_NOTE_BYTES - '…'.len_utf8()))
}

/// The code in camel case, as Event reasons are written.
fn event_reason(code: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    code.split('-').map(word).collect()
}

fn event_name(it: &Diagnostic, uid: &str) -> String {
    let event_id = format!("{} {uid} {it}", it.origin.kind);
    format!("{}.{:016x}", truncate(&it.origin.name, MAX_NAME_PREFIX_BYTES), fnv1a(event_id.as_bytes()))
}

/// 64-bit FNV-1a: names must not change with a library version.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// A prefix that ends at a character boundary.
fn truncate(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

fn api_version(kind: &str) -> String {
    let known = KINDS.iter().find(|known| known.name == kind);
    let preferred = |known: &ApiResource| Some(known.api_version(known.versions.first()?));
    known.and_then(preferred).unwrap_or_else(|| "v1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_model::Origin;

    fn diagnostic(problem: &str) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            origin: Origin::object("Ingress", "a", "web").at("spec.tls[0]"),
            code: "missing-reference",
            problem: problem.into(),
            consequence: "the default certificate is shown".into(),
        }
    }

    #[test]
    fn an_event_has_the_text_of_check_for_the_object_and_field() {
        let it = diagnostic("Secret a/tls does not exist");
        let event = event(&it, "u-1", "pod", Timestamp::UNIX_EPOCH);
        assert_eq!(
            event.note.as_deref(),
            Some(
                "error[missing-reference]: Ingress a/web spec.tls[0]: Secret a/tls does not exist; the default certificate is shown"
            )
        );
        assert_eq!(event.reason.as_deref(), Some("MissingReference"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        let regarding = event.regarding.unwrap();
        assert_eq!(regarding.uid.as_deref(), Some("u-1"));
        assert_eq!(regarding.field_path.as_deref(), Some("spec.tls[0]"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("a"));
    }

    #[test]
    fn an_event_about_a_route_names_its_api() {
        let origin = Origin::object("HTTPRoute", "a", "web");
        let event = event(&Diagnostic { origin, ..diagnostic("x") }, "u", "pod", Timestamp::UNIX_EPOCH);
        let regarding = event.regarding.unwrap();
        assert_eq!(regarding.api_version.as_deref(), Some("gateway.networking.k8s.io/v1"));
        assert_eq!(regarding.kind.as_deref(), Some("HTTPRoute"));
    }

    #[test]
    fn the_core_api_gets_the_same_event_in_its_own_fields() {
        let event = event(&diagnostic("x"), "u-1", "pod", Timestamp::UNIX_EPOCH);
        let core = core_event(event.clone());
        assert_eq!(core.metadata, event.metadata);
        assert_eq!(Some(core.involved_object), event.regarding);
        let texts = [&core.message, &core.reason, &core.action, &core.type_];
        assert_eq!(texts, [&event.note, &event.reason, &event.action, &event.type_]);
        // Required if the time of the Event is set (ValidateEventCreate of the API server).
        assert_eq!(core.event_time, Some(MicroTime(Timestamp::UNIX_EPOCH)));
        assert_eq!(core.reporting_component.as_deref(), Some(REPORTING_CONTROLLER));
        assert_eq!(core.reporting_instance.as_deref(), Some("pod"));
    }

    #[test]
    fn each_text_and_object_has_its_own_name() {
        let named = |problem: &str, uid: &str| event_name(&diagnostic(problem), uid);
        assert_eq!(named("x", "1"), named("x", "1"));
        assert_ne!(named("x", "1"), named("y", "1"));
        assert_ne!(named("x", "1"), named("x", "2"));
        assert!(named("x", "1").starts_with("web."));
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let event = event(&diagnostic(&"ä".repeat(2_000)), "", "pod", Timestamp::UNIX_EPOCH);
        let note = event.note.unwrap();
        assert!(note.len() <= MAX_NOTE_BYTES && note.len() > MAX_NOTE_BYTES - 4 && note.ends_with('…'));
    }
}
