//! Header changes requested by a service: which are valid and allowed, and how they are applied to a head. Shared by both
//! protocols.

use fairway_http::bytes::{is_plain_name, is_token, is_value_byte, trimmed};
use fairway_http::{Head, Known, hyphenated};

use crate::generated::header_value_option::HeaderAppendAction;
use crate::generated::{HeaderValue, HeaderValueOption};

/// The maximum length of a header name or value from a service, in bytes, as in the published definitions.
pub const MAX_NAME_OR_VALUE_BYTES: usize = 16 * 1024;

/// The maximum number of header changes in one message.
pub const MAX_CHANGES: usize = 256;

/// The maximum total size of the names and values in one message, in bytes.
pub const MAX_CHANGE_BYTES: usize = 64 * 1024;

/// How a header changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderAction {
    /// Adds another header of this name.
    Append,
    /// Adds the header if there is none of this name.
    AddIfAbsent,
    /// Replaces all headers of this name, or adds it.
    Overwrite,
    /// Replaces all headers of this name, if there are any.
    OverwriteIfPresent,
    /// Removes all headers of this name.
    Remove,
}

/// A change of one header. The name is a token in lower case, the value has no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderChange {
    /// The name, in lower case.
    pub name: Box<str>,
    /// The value; empty for [`HeaderAction::Remove`].
    pub value: Box<[u8]>,
    /// How the header changes.
    pub action: HeaderAction,
}

impl HeaderChange {
    /// Removes a header.
    pub(crate) fn remove(name: Box<str>) -> Self {
        HeaderChange { name, value: Box::default(), action: HeaderAction::Remove }
    }
}

/// A name or value that is invalid for a header, or more of them than the limits allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an invalid header name or value, or too many of them")]
pub struct InvalidChange;

/// Applies changes to a head, in order.
pub fn apply(changes: &[HeaderChange], head: &mut Head) {
    for HeaderChange { name, value, action } in changes {
        let name = name.as_bytes();
        match action {
            HeaderAction::Append => head.append(name, value),
            HeaderAction::Overwrite => head.set(name, value),
            HeaderAction::AddIfAbsent if head.named(name).is_none() => head.append(name, value),
            HeaderAction::OverwriteIfPresent if head.named(name).is_some() => head.set(name, value),
            HeaderAction::AddIfAbsent | HeaderAction::OverwriteIfPresent => {}
            HeaderAction::Remove => head.remove(name),
        }
    }
}

/// Whether a name must never be changed: hop-by-hop headers, headers that determine the target or length of a message, and
/// pseudo-headers. Names that some programs treat as equal to one of them count as well.
#[must_use]
pub fn is_never_changed(name: &str) -> bool {
    const NEVER_CHANGED: u64 = Known::HOP_BY_HOP | Known::Host.bit() | Known::ContentLength.bit();
    name.starts_with(':') || known_name(name).bit() & NEVER_CHANGED != 0
}

/// The known name that it is or may be read as.
pub(crate) fn known_name(name: &str) -> Known {
    match Known::from_name(name.as_bytes()) {
        Known::Other if !is_plain_name(name.as_bytes()) => Known::from_name(&hyphenated(name.as_bytes())),
        known => known,
    }
}

/// Validates the name of a header or, after a colon, of a pseudo-header; returns it in lower case.
pub(crate) fn read_name(name: &str) -> Result<Box<str>, InvalidChange> {
    let token = name.strip_prefix(':').unwrap_or(name);
    let is_name = name.len() <= MAX_NAME_OR_VALUE_BYTES && is_token(token.as_bytes());
    is_name.then(|| name.to_ascii_lowercase().into()).ok_or(InvalidChange)
}

fn read_value(header: HeaderValue) -> Result<Box<[u8]>, InvalidChange> {
    let value = match (header.value.is_empty(), header.raw_value.is_empty()) {
        (false, false) => return Err(InvalidChange),
        (_, false) => header.raw_value,
        _ => header.value.into_bytes(),
    };
    let value = trimmed(&value);
    let is_value = value.len() <= MAX_NAME_OR_VALUE_BYTES && value.iter().all(|byte| is_value_byte(*byte));
    is_value.then(|| value.into()).ok_or(InvalidChange)
}

/// Reads a header change; `None` if it contains no header. `unsaid` is the action where it gives none.
pub(crate) fn read_change(
    option: HeaderValueOption,
    unsaid: HeaderAction,
) -> Result<Option<HeaderChange>, InvalidChange> {
    let append_action = HeaderAppendAction::try_from(option.append_action).map_err(|_| InvalidChange)?;
    // "append_action" was introduced after "append", and its default is indistinguishable from an absent value.
    let action = match (append_action, option.append) {
        (HeaderAppendAction::AddIfAbsent, _) => HeaderAction::AddIfAbsent,
        (HeaderAppendAction::OverwriteIfExistsOrAdd, _) => HeaderAction::Overwrite,
        (HeaderAppendAction::OverwriteIfExists, _) => HeaderAction::OverwriteIfPresent,
        (HeaderAppendAction::AppendIfExistsOrAdd, Some(append)) if append.value => HeaderAction::Append,
        (HeaderAppendAction::AppendIfExistsOrAdd, Some(_)) => HeaderAction::Overwrite,
        (HeaderAppendAction::AppendIfExistsOrAdd, None) => unsaid,
    };
    let Some(mut header) = option.header else { return Ok(None) };
    let name = read_name(&std::mem::take(&mut header.key))?;
    Ok(Some(HeaderChange { name, value: read_value(header)?, action }))
}

/// The remaining limits of one message.
pub(crate) struct ChangeLimits {
    changes: usize,
    bytes: usize,
}

impl ChangeLimits {
    pub(crate) fn new() -> Self {
        ChangeLimits { changes: MAX_CHANGES, bytes: MAX_CHANGE_BYTES }
    }

    /// Counts a change of this size.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), InvalidChange> {
        self.changes = self.changes.checked_sub(1).ok_or(InvalidChange)?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(InvalidChange)?;
        Ok(())
    }
}
