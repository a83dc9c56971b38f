//! A database in memory. Every record is verified on loading, so that no lookup meets a broken one.

use std::fmt;
use std::net::IpAddr;

use fairway_model::{GeoField, GeoKind};
use maxminddb::PathElement::{self, Index, Key};
use maxminddb::{LookupResult, Reader};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Bytes of a database type that are shown.
const MAX_TYPE_BYTES: usize = 64;

/// A GeoIP database.
pub(super) struct Database {
    reader: Reader<Vec<u8>>,
    kind: GeoKind,
    type_name: String,
    size_bytes: usize,
}

/// The record of an address, possibly empty.
pub(super) struct GeoRecord<'d>(LookupResult<'d, Vec<u8>>);

/// A value in a record.
pub(super) enum Value<'d> {
    Text(&'d str),
    Whole(u64),
    Fraction(f64),
}

impl Database {
    /// Parses and verifies the content of a file.
    ///
    /// # Errors
    /// Why it is unusable, as a predicate for the file.
    pub(super) fn read(bytes: Vec<u8>) -> Result<Self, String> {
        let size = bytes.len();
        let reader =
            Reader::from_source(bytes).map_err(|why| format!("is torn or not an MMDB file: {why}"))?;
        let type_name = sanitize_type_name(&reader.metadata().database_type);
        let kind =
            kind_of_type(&type_name).ok_or_else(|| format!("has the unsupported type \"{type_name}\""))?;
        reader.verify().map_err(|why| format!("is torn: {why}"))?;
        Ok(Self { reader, kind, type_name, size_bytes: size })
    }

    pub(super) fn kind(&self) -> GeoKind {
        self.kind
    }

    /// Its declared type, such as `GeoLite2-City`, without quotes and control characters.
    pub(super) fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Build time in seconds since 1970.
    pub(super) fn built(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    pub(super) fn bytes(&self) -> usize {
        self.size_bytes
    }

    /// Looks up an address; `None` for an IPv6 address in an IPv4-only database.
    pub(super) fn look_up(&self, address: IpAddr) -> Option<GeoRecord<'_>> {
        if address.is_ipv6() && self.reader.metadata().ip_version == 4 {
            return None;
        }
        self.reader.lookup(address).ok().map(GeoRecord)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.type_name)
    }
}

impl<'d> GeoRecord<'d> {
    /// The value of a field, if the record has it.
    pub(super) fn value(&self, field: GeoField) -> Option<Value<'d>> {
        self.0.decode_path(field_path(field)).ok().flatten()
    }
}

/// The kind by type name, as used by MaxMind and compatible vendors.
fn kind_of_type(type_name: &str) -> Option<GeoKind> {
    let contains_any = |words: &[&str]| words.iter().any(|word| type_name.contains(word));
    match () {
        () if contains_any(&["Country", "City", "Enterprise"]) => Some(GeoKind::Places),
        () if contains_any(&["ASN", "ISP"]) => Some(GeoKind::Networks),
        () => None,
    }
}

/// Restricts a type name to characters safe in messages and metric labels.
fn sanitize_type_name(type_name: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || " -_.()=".contains(c) { c } else { '_' };
    type_name.chars().take(MAX_TYPE_BYTES).map(good).collect()
}

/// Path of a field in a record.
fn field_path(field: GeoField) -> &'static [PathElement<'static>] {
    match field {
        GeoField::CountryCode => &[Key("country"), Key("iso_code")],
        GeoField::CountryName => &[Key("country"), Key("names"), Key("en")],
        GeoField::ContinentCode => &[Key("continent"), Key("code")],
        GeoField::ContinentName => &[Key("continent"), Key("names"), Key("en")],
        GeoField::RegionCode => &[Key("subdivisions"), Index(0), Key("iso_code")],
        GeoField::RegionName => &[Key("subdivisions"), Index(0), Key("names"), Key("en")],
        GeoField::SubregionCode => &[Key("subdivisions"), Index(1), Key("iso_code")],
        GeoField::SubregionName => &[Key("subdivisions"), Index(1), Key("names"), Key("en")],
        GeoField::City => &[Key("city"), Key("names"), Key("en")],
        GeoField::PostalCode => &[Key("postal"), Key("code")],
        GeoField::MetroCode => &[Key("location"), Key("metro_code")],
        GeoField::Latitude => &[Key("location"), Key("latitude")],
        GeoField::Longitude => &[Key("location"), Key("longitude")],
        GeoField::TimeZone => &[Key("location"), Key("time_zone")],
        GeoField::Asn => &[Key("autonomous_system_number")],
        GeoField::Organization => &[Key("autonomous_system_organization")],
    }
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Value::Text(text))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Value::Whole(number))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Value::Fraction(number))
            }
        }
        from.deserialize_any(Any)
    }
}
