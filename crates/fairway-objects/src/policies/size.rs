//! Sizes in bytes, as Kubernetes quantities: `8Mi`, `500k`, `1048576`.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A size as written, as a text or as a number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Size(pub String);

const SUFFIXES: [(&str, u64); 9] = [
    ("", 1),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
];

impl Size {
    /// The number of bytes. `None` if it is not a whole number with one of the suffixes, or too large.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let end = self.0.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(self.0.len());
        let (number, suffix) = self.0.split_at(end);
        let (_, factor) = SUFFIXES.iter().find(|(known, _)| *known == suffix)?;
        number.parse::<u64>().ok()?.checked_mul(*factor)
    }

    /// This number of bytes, with the largest exact binary suffix.
    #[must_use]
    pub fn from_bytes(bytes: u64) -> Self {
        let exact = |(_, factor): &&(&str, u64)| bytes != 0 && bytes.is_multiple_of(*factor);
        let binary = SUFFIXES[5..].iter().rev().find(exact);
        let (suffix, factor) = binary.copied().unwrap_or(("", 1));
        Self(format!("{}{suffix}", bytes / factor))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;

        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a size such as 8Mi")
            }

            fn visit_u64<E: Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes.to_string()))
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
                Ok(Size(bytes.to_string()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                Ok(Size(text.to_owned()))
            }
        }

        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn size(value: Value) -> Size {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn sizes_have_the_suffixes_of_kubernetes() {
        for (written, bytes) in [
            (json!(1_048_576), Some(1_048_576)),
            (json!("1048576"), Some(1_048_576)),
            (json!("8Mi"), Some(8 << 20)),
            (json!("500k"), Some(500_000)),
            (json!("2G"), Some(2_000_000_000)),
            (json!("1Ti"), Some(1 << 40)),
            (json!(0), Some(0)),
            (json!(-1), None),
            (json!("8m"), None),
            (json!("8MiB"), None),
            (json!("8 Mi"), None),
            (json!("1.5Mi"), None),
            (json!("Mi"), None),
            (json!(""), None),
            (json!("+1"), None),
            (json!("18446744073709551616"), None),
            (json!("99999999Ti"), None),
        ] {
            assert_eq!(size(written.clone()).bytes(), bytes, "{written}");
        }
        assert!(serde_json::from_value::<Size>(json!(true)).is_err());
        assert!(serde_json::from_value::<Size>(json!(1.5)).is_err());
    }

    #[test]
    fn bytes_are_written_with_the_largest_exact_suffix() {
        for (bytes, written) in
            [(0, "0"), (1, "1"), (1000, "1000"), (1024, "1Ki"), (8 << 20, "8Mi"), (1536 << 10, "1536Ki")]
        {
            assert_eq!(Size::from_bytes(bytes).0, written);
            assert_eq!(Size::from_bytes(bytes).bytes(), Some(bytes));
        }
    }
}
