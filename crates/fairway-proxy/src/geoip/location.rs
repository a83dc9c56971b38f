//! What was found out about a client: noted once per request, for its guards, its headers and its line of the access log.

use std::io::Write;

use fairway_model::{CountryCode, GeoField, GeoFields, GeoKind};
use fairway_routing::Located;

use super::database::{Found, Value};

/// The longest value, in bytes; a longer one is left out.
const MAX_VALUE_BYTES: usize = 256;

/// What databases say of a client. The room stays with the buffers of the exchange.
#[derive(Clone, Debug, Default)]
pub struct Location {
    asked: GeoFields,
    /// By kind of database, whether there was one that knows addresses like this one.
    has_places: bool,
    has_networks: bool,
    text: Vec<u8>,
    /// Of the fields, by number: where `text` has their values.
    values: [Span; GeoField::ALL.len()],
}

/// Empty where there is no value.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u16,
    end: u16,
}

impl Location {
    /// The value of a field, if there is one.
    #[must_use]
    pub fn value(&self, field: GeoField) -> Option<&[u8]> {
        let Span { start, end } = self.values[field as usize];
        self.text.get(usize::from(start)..usize::from(end)).filter(|value| !value.is_empty())
    }

    pub(crate) fn country(&self) -> Located<CountryCode> {
        self.located(GeoField::CountryCode)
    }

    pub(crate) fn asn(&self) -> Located<u32> {
        self.located(GeoField::Asn)
    }

    fn located<T: std::str::FromStr>(&self, field: GeoField) -> Located<T> {
        let has_database = match field.kind() {
            GeoKind::Places => self.has_places,
            GeoKind::Networks => self.has_networks,
        };
        let value = || std::str::from_utf8(self.value(field)?).ok()?.parse().ok();
        match has_database {
            true => value().map_or(Located::Nowhere, Located::In),
            false => Located::Unknown,
        }
    }

    /// The fields that were asked for.
    pub(super) fn asked(&self) -> GeoFields {
        self.asked
    }

    /// Notes fields of this kind of what was found; nothing where no database could know.
    pub(super) fn note(&mut self, kind: GeoKind, fields: GeoFields, found: Option<&Found<'_>>) {
        self.asked = self.asked.and(fields);
        let Some(found) = found else { return };
        match kind {
            GeoKind::Places => self.has_places = true,
            GeoKind::Networks => self.has_networks = true,
        }
        for field in fields.iter() {
            if let Some(value) = found.value(field) {
                self.write(field, &value);
            }
        }
    }

    fn write(&mut self, field: GeoField, value: &Value<'_>) {
        let start = self.text.len();
        let written = match value {
            Value::Text(text) if text.len() > MAX_VALUE_BYTES || text.bytes().any(is_control) => return,
            Value::Text(text) => self.text.write_all(text.as_bytes()),
            Value::Whole(number) => write!(self.text, "{number}"),
            Value::Fraction(number) => write!(self.text, "{number}"),
        };
        written.expect("a vector takes every write");
        // All values together have at most 16 times as many bytes as one may have.
        let end = |at: usize| u16::try_from(at).unwrap_or_default();
        self.values[field as usize] = Span { start: end(start), end: end(self.text.len()) };
    }

    /// Forgets the client.
    pub(crate) fn clear(&mut self) {
        let text = std::mem::take(&mut self.text);
        *self = Self { text, ..Self::default() };
        self.text.clear();
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        size_of::<Self>() + self.text.capacity()
    }
}

/// No value ends a header.
fn is_control(byte: u8) -> bool {
    byte < b' ' || byte == 0x7f
}
