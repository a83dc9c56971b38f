//! Validates the header changes that a service sends, and drops those that `mutation_rules` or the protocol deny. The
//! processor applies the rest.

use std::borrow::Cow;

use fairway_http::bytes::{is_plain_name, is_token, is_visible};
use fairway_http::{Known, hyphenated};
use fairway_model::MutationRules;

use super::failure::Failure;
use super::head::HeadChange;
use crate::change::{self, ChangeLimits, HeaderAction, HeaderChange, InvalidChange, is_never_changed};
use crate::generated::HeaderMutation;

/// The part of an exchange that a service changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangedPart {
    RequestHead,
    ResponseHead,
    Trailers,
    /// The headers of an immediate response. A denied change is dropped and never an error.
    Immediate,
}

impl From<InvalidChange> for Failure {
    fn from(_: InvalidChange) -> Self {
        Failure::Malformed
    }
}

/// Reads the allowed changes, removals first, and adds the number of denied changes to `denials`.
///
/// # Errors
/// A change is malformed or exceeds the limits of a message, or it is denied and `error_on_denied` is set.
pub(super) fn read_changes(
    mutation: Option<HeaderMutation>,
    rules: &MutationRules,
    part: ChangedPart,
    denials: &mut u64,
) -> Result<HeadChange, Failure> {
    let Some(mutation) = mutation else { return Ok(HeadChange::default()) };
    let mut reader = Reader { rules, part, denials, change: HeadChange::default() };
    let mut limits = ChangeLimits::new();
    for name in mutation.remove_headers {
        let name = change::read_name(&name)?;
        limits.take(name.len())?;
        if reader.may_change(&name)? {
            reader.change.changes.push(HeaderChange::remove(name));
        }
    }
    for option in mutation.set_headers {
        let Some(change) = change::read_change(option, HeaderAction::Overwrite)? else { continue };
        limits.take(change.name.len() + change.value.len())?;
        reader.set(change)?;
    }
    Ok(reader.change)
}

struct Reader<'a> {
    rules: &'a MutationRules,
    part: ChangedPart,
    denials: &'a mut u64,
    change: HeadChange,
}

impl Reader<'_> {
    fn set(&mut self, change: HeaderChange) -> Result<(), Failure> {
        let is_target_allowed = self.part == ChangedPart::RequestHead && self.rules.allow_path_and_method;
        match &*change.name {
            ":path" if is_target_allowed => {
                let is_path = change.value.first() == Some(&b'/') && is_visible(&change.value);
                self.change.path = Some(check_value(is_path, change.value)?);
            }
            ":method" if is_target_allowed => {
                // CONNECT has no path and asks for a tunnel (RFC 9110 §9.3.6), so it cannot replace another method.
                let is_method = is_token(&change.value) && *change.value != *b"CONNECT";
                self.change.method = Some(check_value(is_method, change.value)?);
            }
            ":status" if self.part == ChangedPart::ResponseHead => self.set_status(&change.value)?,
            name if self.may_change(name)? => self.change.changes.push(change),
            _ => {}
        }
        Ok(())
    }

    fn set_status(&mut self, value: &[u8]) -> Result<(), Failure> {
        let status = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
        match status {
            // These statuses exclude a body, but the original status has already decided whether there is one.
            Some(204 | 205 | 304) => self.deny()?,
            Some(status @ 200..=599) if value.len() == 3 => self.change.status = Some(status),
            _ => return Err(Failure::Malformed),
        }
        Ok(())
    }

    /// Returns whether the header of this name may change, and counts a denied change. A `content-length` is dropped
    /// without being denied: Envoy expects services to send it with each buffered body, but the proxy computes the
    /// length from the body.
    fn may_change(&mut self, name: &str) -> Result<bool, Failure> {
        if name == "content-length" {
            return Ok(false);
        }
        let is_denied = self.is_denied(name);
        if is_denied {
            self.deny()?;
        }
        Ok(!is_denied)
    }

    fn is_denied(&self, name: &str) -> bool {
        let known = change::known_name(name);
        // Some endpoints treat `_` in names like `-`, so a name with `_` is denied where its form with `-` is.
        let normalized: Cow<'_, [u8]> = match is_plain_name(name.as_bytes()) {
            true => name.as_bytes().into(),
            false => hyphenated(name.as_bytes()).into(),
        };
        let is_forwarded =
            known.is_of_the_client() || known == Known::Forwarded || normalized.starts_with(b"x-envoy-");
        is_never_changed(name)
            || (is_forwarded && !self.rules.allow_forwarded)
            || (self.part == ChangedPart::Trailers && !known.may_be_trailer())
            || self.rules.denied.iter().any(|denied| **denied == *name || *denied.as_bytes() == *normalized)
    }

    /// Counts a denied change.
    ///
    /// # Errors
    /// The rules make a denied change an error.
    fn deny(&mut self) -> Result<(), Failure> {
        *self.denials += 1;
        let is_error = self.rules.error_on_denied && self.part != ChangedPart::Immediate;
        if is_error { Err(Failure::NotAllowed) } else { Ok(()) }
    }
}

fn check_value(is_valid: bool, value: Box<[u8]>) -> Result<Vec<u8>, Failure> {
    is_valid.then(|| value.into_vec()).ok_or(Failure::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::{HeaderValue, HeaderValueOption};

    fn mutation(set: &[(&str, &str)], remove: &[&str]) -> Option<HeaderMutation> {
        let option = |(key, value): &(&str, &str)| {
            let raw_value = value.as_bytes().to_vec();
            let header = HeaderValue { key: (*key).to_owned(), value: String::new(), raw_value };
            HeaderValueOption { header: Some(header), ..HeaderValueOption::default() }
        };
        let set_headers = set.iter().map(option).collect();
        let remove_headers = remove.iter().map(|name| (*name).to_owned()).collect();
        Some(HeaderMutation { set_headers, remove_headers })
    }

    fn names(change: &HeadChange) -> Vec<&str> {
        change.headers().iter().map(|change| &*change.name).collect()
    }

    #[test]
    fn denied_changes_are_dropped_and_counted_in_every_part() {
        let names = [
            ":authority",
            ":scheme",
            ":path",
            ":method",
            "Host",
            "connection",
            "keep-alive",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "transfer_encoding",
            "proxy",
            "x-envoy-a",
            "x_envoy_a",
            "x-forwarded-for",
            "forwarded",
        ];
        let set: Vec<_> = names.iter().map(|name| (*name, "v")).collect();
        for part in [
            ChangedPart::RequestHead,
            ChangedPart::ResponseHead,
            ChangedPart::Trailers,
            ChangedPart::Immediate,
        ] {
            let mut denials = 0;
            let change =
                read_changes(mutation(&set, &names), &MutationRules::default(), part, &mut denials).unwrap();
            // The service sets and removes each of the 18 names.
            assert_eq!((change, denials), (HeadChange::default(), 36), "{part:?}");
        }
    }

    #[test]
    fn rules_can_allow_some_changes() {
        let rules = MutationRules {
            allow_path_and_method: true,
            allow_forwarded: true,
            denied: vec!["x-secret".into()],
            error_on_denied: false,
        };
        let set = [
            (":path", "/a?b"),
            (":method", "POST"),
            ("X-Forwarded-For", "192.0.2.1"),
            ("x-envoy-a", "1"),
            ("X-Secret", "1"),
            ("x_secret", "1"),
            ("Content-Length", "7"),
        ];
        let mut denials = 0;
        let change =
            read_changes(mutation(&set, &["a"]), &rules, ChangedPart::RequestHead, &mut denials).unwrap();
        assert_eq!(
            (change.path.as_deref(), change.method.as_deref()),
            (Some(&b"/a?b"[..]), Some(&b"POST"[..]))
        );
        assert_eq!((names(&change), denials), (vec!["a", "x-forwarded-for", "x-envoy-a"], 2));
        let mut denials = 0;
        let change =
            read_changes(mutation(&set[..2], &[]), &rules, ChangedPart::ResponseHead, &mut denials).unwrap();
        assert_eq!((change, denials), (HeadChange::default(), 2));
    }

    #[test]
    fn a_denied_change_can_be_an_error_except_in_an_immediate_response() {
        let rules = MutationRules { error_on_denied: true, ..MutationRules::default() };
        let read = |name, part| read_changes(mutation(&[(name, "v")], &[]), &rules, part, &mut 0);
        assert_eq!(read("host", ChangedPart::RequestHead), Err(Failure::NotAllowed));
        assert_eq!(read("x-checksum", ChangedPart::Trailers).map(|_| ()), Ok(()));
        assert_eq!(read("host", ChangedPart::Immediate), Ok(HeadChange::default()));
        assert_eq!(read("content-length", ChangedPart::RequestHead), Ok(HeadChange::default()));
    }

    #[test]
    fn a_status_must_be_final_and_allow_a_body() {
        let status = |value| {
            let mut denials = 0;
            let set = [(":status", value)];
            let change = read_changes(
                mutation(&set, &[]),
                &MutationRules::default(),
                ChangedPart::ResponseHead,
                &mut denials,
            );
            change.map(|change| (change.status, denials))
        };
        assert_eq!(status("201"), Ok((Some(201), 0)));
        assert_eq!(status("304"), Ok((None, 1)));
        for invalid in ["100", "600", "+200", "2000", "0200", "ok", "-1", "", "65736"] {
            assert_eq!(status(invalid), Err(Failure::Malformed), "{invalid}");
        }
    }

    #[test]
    fn invalid_paths_methods_names_and_values_are_malformed() {
        let rules = MutationRules { allow_path_and_method: true, ..MutationRules::default() };
        for set in [
            (":path", "a"),
            (":path", "/a b"),
            (":path", ""),
            (":method", "A B"),
            (":method", "CONNECT"),
            ("a b", ""),
            ("a", "b\nc"),
        ] {
            let change = read_changes(mutation(&[set], &[]), &rules, ChangedPart::RequestHead, &mut 0);
            assert_eq!(change, Err(Failure::Malformed), "{set:?}");
        }
    }
}
