//! Changes of headers that a service asks for: which are allowed, and how they are applied to a head. Never knows which protocol
//! asked.

use fairway_http::bytes::{is_plain_name, is_token, is_value_byte, trimmed};
use fairway_http::{Head, Known, hyphenated};

use crate::generated::header_value_option::HeaderAppendAction;
use crate::generated::{HeaderValue, HeaderValueOption};

/// The longest name or value of a header that a service may give, in bytes: what the published definitions allow.
pub const MAX_HEADER_PART: usize = 16 * 1024;

/// The most changes of headers that one message may ask for.
pub const MAX_CHANGES: usize = 256;

/// The most bytes that the names and values of one message may have together.
pub const MAX_CHANGE_BYTES: usize = 64 * 1024;

/// What becomes of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderAction {
    /// Another header of this name is added.
    Append,
    /// It is added where there is none of this name.
    AddIfAbsent,
    /// It replaces all headers of this name, or is added.
    Overwrite,
    /// It replaces all headers of this name where there are some.
    OverwriteIfPresent,
    /// All headers of this name are removed.
    Remove,
}

/// A change of one header. Its name is a token in lower case, its value has no control character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderChange {
    /// The name, in lower case.
    pub name: Box<str>,
    /// The value; empty for [`HeaderAction::Remove`].
    pub value: Box<[u8]>,
    /// What becomes of the header.
    pub action: HeaderAction,
}

impl HeaderChange {
    /// The removal of a header.
    pub(crate) fn remove(name: Box<str>) -> Self {
        HeaderChange { name, value: Box::default(), action: HeaderAction::Remove }
    }
}

/// A name or a value that cannot be one of a header, or more of them than the limits allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name or a value that no header can have, or too many of them")]
pub struct InvalidChange;

/// Applies changes to a head in their order.
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

/// Whether a name may never be changed: those of one hop, those that say where the message goes, and pseudo-headers. Names that
/// programs read like one of them count as well.
#[must_use]
pub fn is_never_changed(name: &str) -> bool {
    const NEVER: u64 = Known::HOP_BY_HOP | Known::Host.bit() | Known::ContentLength.bit();
    name.starts_with(':') || known(name).bit() & NEVER != 0
}

/// Which known name it is, or is read as.
pub(crate) fn known(name: &str) -> Known {
    match Known::of(name.as_bytes()) {
        Known::Other if !is_plain_name(name.as_bytes()) => Known::of(&hyphenated(name.as_bytes())),
        known => known,
    }
}

/// The name in lower case, of a header or, behind a colon, of a pseudo-header.
pub(crate) fn read_name(name: &str) -> Result<Box<str>, InvalidChange> {
    let token = name.strip_prefix(':').unwrap_or(name);
    let is_name = name.len() <= MAX_HEADER_PART && is_token(token.as_bytes());
    is_name.then(|| name.to_ascii_lowercase().into()).ok_or(InvalidChange)
}

fn read_value(header: HeaderValue) -> Result<Box<[u8]>, InvalidChange> {
    let value = match (header.value.is_empty(), header.raw_value.is_empty()) {
        (false, false) => return Err(InvalidChange),
        (_, false) => header.raw_value,
        _ => header.value.into_bytes(),
    };
    let value = trimmed(&value);
    let is_value = value.len() <= MAX_HEADER_PART && value.iter().all(|byte| is_value_byte(*byte));
    is_value.then(|| value.into()).ok_or(InvalidChange)
}

/// What a service gives for a header; `None` without a header. `unsaid` is the action where it does not say one.
pub(crate) fn read(
    option: HeaderValueOption,
    unsaid: HeaderAction,
) -> Result<Option<HeaderChange>, InvalidChange> {
    let said = HeaderAppendAction::try_from(option.append_action).map_err(|_| InvalidChange)?;
    // "append_action" came after "append", and its default cannot be told from an absent one.
    let action = match (said, option.append) {
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

/// The limits of one message, counted down.
pub(crate) struct Allowance {
    changes: usize,
    bytes: usize,
}

impl Allowance {
    pub(crate) fn new() -> Self {
        Allowance { changes: MAX_CHANGES, bytes: MAX_CHANGE_BYTES }
    }

    /// Takes a change of so many bytes.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), InvalidChange> {
        self.changes = self.changes.checked_sub(1).ok_or(InvalidChange)?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(InvalidChange)?;
        Ok(())
    }
}
