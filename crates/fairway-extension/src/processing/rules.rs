//! Which changes of a service are made: those that `mutation_rules` allow, of what may be changed at all. Never touches a head.

use std::borrow::Cow;

use fairway_http::bytes::{is_plain_name, is_token, is_visible};
use fairway_http::{Known, hyphenated};
use fairway_model::MutationRules;

use super::failure::Failure;
use super::head::HeadChange;
use crate::change::{self, Allowance, HeaderAction, HeaderChange, InvalidChange, is_never_changed};
use crate::generated::HeaderMutation;

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    RequestHead,
    ResponseHead,
    Trailers,
    /// The headers of an immediate response, which is given whatever is left out of them.
    Immediate,
}

impl From<InvalidChange> for Failure {
    fn from(_: InvalidChange) -> Self {
        Failure::Malformed
    }
}

/// Reads the changes that are made, removals first, and counts those that are left out.
pub(super) fn read(
    mutation: Option<HeaderMutation>,
    rules: &MutationRules,
    part: Part,
    refused: &mut u64,
) -> Result<HeadChange, Failure> {
    let Some(mutation) = mutation else { return Ok(HeadChange::default()) };
    let mut reader = Reader { rules, part, refused, change: HeadChange::default() };
    let mut allowance = Allowance::new();
    for name in mutation.remove_headers {
        let name = change::read_name(&name)?;
        allowance.take(name.len())?;
        if reader.may_change(&name)? {
            reader.change.changes.push(HeaderChange::remove(name));
        }
    }
    for option in mutation.set_headers {
        let Some(change) = change::read(option, HeaderAction::Overwrite)? else { continue };
        allowance.take(change.name.len() + change.value.len())?;
        reader.set(change)?;
    }
    Ok(reader.change)
}

struct Reader<'a> {
    rules: &'a MutationRules,
    part: Part,
    refused: &'a mut u64,
    change: HeadChange,
}

impl Reader<'_> {
    fn set(&mut self, change: HeaderChange) -> Result<(), Failure> {
        let is_target_allowed = self.part == Part::RequestHead && self.rules.allow_path_and_method;
        match &*change.name {
            ":path" if is_target_allowed => {
                let is_path = change.value.first() == Some(&b'/') && is_visible(&change.value);
                self.change.path = Some(valid(is_path, change.value)?);
            }
            ":method" if is_target_allowed => {
                // CONNECT has no path: it would be another kind of request.
                let is_method = is_token(&change.value) && *change.value != *b"CONNECT";
                self.change.method = Some(valid(is_method, change.value)?);
            }
            ":status" if self.part == Part::ResponseHead => self.set_status(&change.value)?,
            name if self.may_change(name)? => self.change.changes.push(change),
            _ => {}
        }
        Ok(())
    }

    fn set_status(&mut self, value: &[u8]) -> Result<(), Failure> {
        let status = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
        match status {
            // Whether a message has a body was settled by its own status.
            Some(204 | 205 | 304) => self.refuse()?,
            Some(status @ 200..=599) if value.len() == 3 => self.change.status = Some(status),
            _ => return Err(Failure::Malformed),
        }
        Ok(())
    }

    /// Whether the change of this name is made. The length of a body follows from the body: what a service says of it is no change,
    /// and asking for it no offence, as Envoy wants it with each buffered body.
    fn may_change(&mut self, name: &str) -> Result<bool, Failure> {
        if name == "content-length" {
            return Ok(false);
        }
        let is_denied = self.is_denied(name);
        if is_denied {
            self.refuse()?;
        }
        Ok(!is_denied)
    }

    fn is_denied(&self, name: &str) -> bool {
        let known = change::known(name);
        // Programs that read `_` like `-` must not be told by one what the other is denied.
        let read_as: Cow<'_, [u8]> = match is_plain_name(name.as_bytes()) {
            true => name.as_bytes().into(),
            false => hyphenated(name.as_bytes()).into(),
        };
        let is_forwarded =
            known.is_of_the_client() || known == Known::Forwarded || read_as.starts_with(b"x-envoy-");
        is_never_changed(name)
            || (is_forwarded && !self.rules.allow_forwarded)
            || (self.part == Part::Trailers && !known.may_be_trailer())
            || self.rules.denied.iter().any(|denied| **denied == *name || *denied.as_bytes() == *read_as)
    }

    fn refuse(&mut self) -> Result<(), Failure> {
        *self.refused += 1;
        let is_error = self.rules.error_on_denied && self.part != Part::Immediate;
        if is_error { Err(Failure::NotAllowed) } else { Ok(()) }
    }
}

fn valid(is_valid: bool, value: Box<[u8]>) -> Result<Vec<u8>, Failure> {
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
    fn what_is_never_changed_is_left_out_and_counted_in_every_part() {
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
        for part in [Part::RequestHead, Part::ResponseHead, Part::Trailers, Part::Immediate] {
            let mut refused = 0;
            let change = read(mutation(&set, &names), &MutationRules::default(), part, &mut refused).unwrap();
            assert_eq!((change, refused), (HeadChange::default(), 36), "{part:?}");
        }
    }

    #[test]
    fn rules_open_what_may_be_opened() {
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
        let mut refused = 0;
        let change = read(mutation(&set, &["a"]), &rules, Part::RequestHead, &mut refused).unwrap();
        assert_eq!(
            (change.path.as_deref(), change.method.as_deref()),
            (Some(&b"/a?b"[..]), Some(&b"POST"[..]))
        );
        assert_eq!((names(&change), refused), (vec!["a", "x-forwarded-for", "x-envoy-a"], 2));
        let mut refused = 0;
        let change = read(mutation(&set[..2], &[]), &rules, Part::ResponseHead, &mut refused).unwrap();
        assert_eq!((change, refused), (HeadChange::default(), 2));
    }

    #[test]
    fn a_denied_change_is_an_error_on_request_except_in_an_immediate_response() {
        let rules = MutationRules { error_on_denied: true, ..MutationRules::default() };
        let read = |name, part| read(mutation(&[(name, "v")], &[]), &rules, part, &mut 0);
        assert_eq!(read("host", Part::RequestHead), Err(Failure::NotAllowed));
        assert_eq!(read("x-checksum", Part::Trailers).map(|_| ()), Ok(()));
        assert_eq!(read("host", Part::Immediate), Ok(HeadChange::default()));
        assert_eq!(read("content-length", Part::RequestHead), Ok(HeadChange::default()));
    }

    #[test]
    fn a_status_is_one_of_a_final_response_with_a_body() {
        let status = |value| {
            let mut refused = 0;
            let set = [(":status", value)];
            let change =
                read(mutation(&set, &[]), &MutationRules::default(), Part::ResponseHead, &mut refused);
            change.map(|change| (change.status, refused))
        };
        assert_eq!(status("201"), Ok((Some(201), 0)));
        assert_eq!(status("304"), Ok((None, 1)));
        for invalid in ["100", "600", "+200", "2000", "0200", "ok", "-1", "", "65736"] {
            assert_eq!(status(invalid), Err(Failure::Malformed), "{invalid}");
        }
    }

    #[test]
    fn paths_methods_names_and_values_that_cannot_be_are_malformed() {
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
            let change = read(mutation(&[set], &[]), &rules, Part::RequestHead, &mut 0);
            assert_eq!(change, Err(Failure::Malformed), "{set:?}");
        }
    }
}
