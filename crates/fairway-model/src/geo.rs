//! GeoIP data about a client address: location and network operator.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A country code: two capital letters (ISO 3166-1 alpha-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CountryCode([u8; 2]);

/// The text is not a country code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCountryCode;

impl FromStr for CountryCode {
    type Err = InvalidCountryCode;

    fn from_str(text: &str) -> Result<Self, InvalidCountryCode> {
        match *text.as_bytes() {
            [first, second] if first.is_ascii_uppercase() && second.is_ascii_uppercase() => {
                Ok(Self([first, second]))
            }
            _ => Err(InvalidCountryCode),
        }
    }
}

impl TryFrom<String> for CountryCode {
    type Error = InvalidCountryCode;

    fn try_from(text: String) -> Result<Self, InvalidCountryCode> {
        text.parse()
    }
}

impl From<CountryCode> for String {
    fn from(code: CountryCode) -> Self {
        code.to_string()
    }
}

impl fmt::Display for CountryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|letter| write!(f, "{}", char::from(*letter)))
    }
}

impl fmt::Display for InvalidCountryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not two capital letters")
    }
}

impl std::error::Error for InvalidCountryCode {}

/// All fields in one table, used to read records, parse variables and format values.
macro_rules! fields {
    ($($(#[$doc:meta])+ $field:ident at $database:ident: $name:literal $(or $other:literal)*;)+) => {
        /// A field of a GeoIP record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum GeoField {
            $($(#[$doc])+ $field,)+
        }

        impl GeoField {
            /// All fields, in numeric order.
            pub const ALL: &'static [Self] = &[$(Self::$field,)+];

            /// The field of an ingress-nginx variable, by its name without `$`.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name $(| $other)* => Some(Self::$field),)+
                    _ => None,
                }
            }

            /// The name of its variable, without `$`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)+
                }
            }

            /// The kind of database that contains it.
            #[must_use]
            pub fn kind(self) -> GeoKind {
                match self {
                    $(Self::$field => GeoKind::$database,)+
                }
            }
        }
    };
}

fields! {
    /// The code of the country.
    CountryCode at Places: "geoip2_country_code" or "geoip2_city_country_code";
    /// The country in English.
    CountryName at Places: "geoip2_country_name" or "geoip2_city_country_name";
    /// The code of the continent.
    ContinentCode at Places: "geoip2_continent_code" or "geoip2_city_continent_code";
    /// The continent in English.
    ContinentName at Places: "geoip2_continent_name" or "geoip2_city_continent_name";
    /// The code of the first-level subdivision.
    RegionCode at Places: "geoip2_region_code";
    /// The first-level subdivision in English.
    RegionName at Places: "geoip2_region_name";
    /// The code of the second-level subdivision.
    SubregionCode at Places: "geoip2_subregion_code";
    /// The second-level subdivision in English.
    SubregionName at Places: "geoip2_subregion_name";
    /// The city in English.
    City at Places: "geoip2_city";
    /// The postal code.
    PostalCode at Places: "geoip2_postal_code";
    /// The Designated Market Area code (USA).
    MetroCode at Places: "geoip2_dma_code";
    /// Degrees.
    Latitude at Places: "geoip2_latitude";
    /// Degrees.
    Longitude at Places: "geoip2_longitude";
    /// IANA time zone name.
    TimeZone at Places: "geoip2_time_zone";
    /// The autonomous system number.
    Asn at Networks: "geoip2_asn";
    /// The organization that operates it.
    Organization at Networks: "geoip2_org";
}

/// The kind of a database, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeoKind {
    /// Countries, and often cities.
    Places,
    /// Autonomous systems.
    Networks,
}

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GeoFields(u16);

impl GeoFields {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The union of both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The fields that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The fields in numeric order.
    pub fn iter(self) -> impl Iterator<Item = GeoField> {
        GeoField::ALL.iter().copied().filter(move |field| self.0 & (1 << *field as u16) != 0)
    }
}

impl FromIterator<GeoField> for GeoFields {
    fn from_iter<I: IntoIterator<Item = GeoField>>(fields: I) -> Self {
        Self(fields.into_iter().fold(0, |all, field| all | (1 << field as u16)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_two_capital_letters() {
        assert_eq!("DE".parse::<CountryCode>().unwrap().to_string(), "DE");
        for wrong in ["", "D", "de", "DEU", "D1", "ÄA", "ß"] {
            assert_eq!(wrong.parse::<CountryCode>(), Err(InvalidCountryCode), "{wrong}");
        }
        let read: CountryCode = serde_json::from_str("\"FR\"").unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"FR\"");
        assert!(serde_json::from_str::<CountryCode>("\"fr\"").is_err());
    }

    #[test]
    fn fields_have_unique_numbers_and_parse_by_name() {
        assert!(GeoField::ALL.len() <= 16, "each field is a bit of a u16");
        for (number, field) in GeoField::ALL.iter().enumerate() {
            assert_eq!(*field as usize, number);
            assert_eq!(GeoField::named(field.name()), Some(*field));
            assert_eq!(GeoFields::from_iter([*field]).iter().collect::<Vec<_>>(), [*field]);
        }
        assert_eq!(GeoField::named("geoip2_city_country_code"), Some(GeoField::CountryCode));
        assert_eq!(GeoField::named("geoip_city"), None);
    }

    #[test]
    fn sets_support_union_and_difference() {
        let (one, other) = (GeoFields::from_iter([GeoField::Asn]), GeoFields::from_iter([GeoField::City]));
        let both = one.and(other);
        assert_eq!(both.iter().collect::<Vec<_>>(), [GeoField::City, GeoField::Asn]);
        assert_eq!(both.without(one), other);
        assert!(one.without(both).is_empty() && !one.is_empty());
    }
}
