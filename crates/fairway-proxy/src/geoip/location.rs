//! GeoIP data of a client: looked up once per request, for its guards, headers and access log line.

use std::io::Write;

use fairway_model::{CountryCode, GeoField, GeoFields, GeoKind};
use fairway_routing::GeoLookup;

use super::database::{GeoRecord, Value};

/// Byte limit of a value; longer ones are left out.
const MAX_VALUE_BYTES: usize = 256;

/// GeoIP data of a client. Its memory stays with the exchange's buffers.
#[derive(Clone, Debug, Default)]
pub struct Location {
    looked_up: GeoFields,
    /// Whether there was a database of each kind that covers such addresses.
    has_places: bool,
    has_networks: bool,
    text: Vec<u8>,
    /// By field number: the range of its value in `text`.
    values: [ValueRange; GeoField::ALL.len()],
}

/// Empty without a value.
#[derive(Clone, Copy, Debug, Default)]
struct ValueRange {
    start: u16,
    end: u16,
}

impl Location {
    /// The value of a field, if there is one.
    #[must_use]
    pub fn value(&self, field: GeoField) -> Option<&[u8]> {
        let ValueRange { start, end } = self.values[field as usize];
        self.text.get(usize::from(start)..usize::from(end)).filter(|value| !value.is_empty())
    }

    pub(crate) fn country(&self) -> GeoLookup<CountryCode> {
        self.locate(GeoField::CountryCode)
    }

    pub(crate) fn asn(&self) -> GeoLookup<u32> {
        self.locate(GeoField::Asn)
    }

    fn locate<T: std::str::FromStr>(&self, field: GeoField) -> GeoLookup<T> {
        let has_database = match field.kind() {
            GeoKind::Places => self.has_places,
            GeoKind::Networks => self.has_networks,
        };
        let value = || std::str::from_utf8(self.value(field)?).ok()?.parse().ok();
        match has_database {
            true => value().map_or(GeoLookup::Nowhere, GeoLookup::In),
            false => GeoLookup::Unknown,
        }
    }

    /// Fields looked up so far.
    pub(super) fn looked_up(&self) -> GeoFields {
        self.looked_up
    }

    /// Adds fields of this kind from a record; `None` if no database covers the address.
    pub(super) fn add(&mut self, kind: GeoKind, fields: GeoFields, found: Option<&GeoRecord<'_>>) {
        self.looked_up = self.looked_up.and(fields);
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
        // All values together have at most 16 times the limit of one.
        let end = |at: usize| u16::try_from(at).unwrap_or_default();
        self.values[field as usize] = ValueRange { start: end(start), end: end(self.text.len()) };
    }

    /// Clears all data.
    pub(crate) fn clear(&mut self) {
        let text = std::mem::take(&mut self.text);
        *self = Self { text, ..Self::default() };
        self.text.clear();
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        size_of::<Self>() + self.text.capacity()
    }
}

/// Control characters could end a header.
fn is_control(byte: u8) -> bool {
    byte < b' ' || byte == 0x7f
}
