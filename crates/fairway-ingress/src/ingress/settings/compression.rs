//! Keys for response compression.

use std::sync::Arc;

use fairway_model::{CodingRule, Compression};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::compression::{self, default_rule, listed_types};

use crate::ingress::defaults::CompressionDefaults;
use crate::ingress::settings::problem::KeyProblem;

const NOT_A_LENGTH: KeyProblem = KeyProblem::NotA("a whole number of bytes");
const NOT_ALL_TYPES: KeyProblem = KeyProblem::Partly(
    "a list of media types, separated by spaces",
    "only responses of the types that can be read, and of text/html, are compressed",
);

/// The keys of all codings.
#[derive(Debug)]
pub(super) struct CompressionKeys {
    zstd: CodingKeys,
    brotli: CodingKeys,
    gzip: CodingKeys,
}

/// The keys of one coding.
#[derive(Debug)]
struct CodingKeys {
    is_on: bool,
    rule: CodingRule,
}

impl Default for CompressionKeys {
    fn default() -> Self {
        let keys = |coding| CodingKeys { is_on: false, rule: default_rule(coding) };
        let [zstd, brotli, gzip] = compression::CODINGS.map(keys);
        Self { zstd, brotli, gzip }
    }
}

impl CompressionKeys {
    /// Reads one of these keys; `None` for any other.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Option<Result<(), KeyProblem>> {
        Some(match name {
            "use-gzip" => self.gzip.enable(value),
            "enable-brotli" => self.brotli.enable(value),
            "enable-zstd" => self.zstd.enable(value),
            "gzip-level" => self.gzip.set_level(value),
            "brotli-level" => self.brotli.set_level(value),
            "zstd-level" => self.zstd.set_level(value),
            "gzip-min-length" => self.gzip.set_min_length(value),
            "brotli-min-length" => self.brotli.set_min_length(value),
            "zstd-min-length" => self.zstd.set_min_length(value),
            "gzip-types" => self.gzip.set_types(value),
            "brotli-types" => self.brotli.set_types(value),
            "zstd-types" => self.zstd.set_types(value),
            _ => return None,
        })
    }

    /// The resulting defaults.
    pub(super) fn resolve(self) -> CompressionDefaults {
        // In order of preference.
        let keys = [self.zstd, self.brotli, self.gzip];
        let codings: Vec<_> = keys.iter().filter(|keys| keys.is_on).map(|keys| keys.rule.clone()).collect();
        CompressionDefaults {
            of_all: (!codings.is_empty()).then(|| Arc::new(Compression { codings })),
            codings: keys.into_iter().map(|keys| keys.rule).collect(),
        }
    }
}

impl CodingKeys {
    fn enable(&mut self, value: &str) -> Result<(), KeyProblem> {
        self.is_on = parse_bool(value).ok_or(KeyProblem::NotA("true or false"))?;
        Ok(())
    }

    fn set_level(&mut self, value: &str) -> Result<(), KeyProblem> {
        let coding = self.rule.coding;
        let level = value.parse().ok().and_then(|asked| compression::level(coding, asked));
        let (level, limit) = level.ok_or(KeyProblem::NotA(compression::levels(coding).description))?;
        self.rule.level = level;
        match limit {
            Some(limit) => Err(KeyProblem::Lost(limit.problem, limit.consequence)),
            None => Ok(()),
        }
    }

    fn set_min_length(&mut self, value: &str) -> Result<(), KeyProblem> {
        self.rule.min_length = value.parse().map_err(|_| NOT_A_LENGTH)?;
        Ok(())
    }

    fn set_types(&mut self, value: &str) -> Result<(), KeyProblem> {
        let (types, is_whole) = listed_types(value);
        self.rule.types = types;
        if is_whole { Ok(()) } else { Err(NOT_ALL_TYPES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(keys: &[(&str, &str)]) -> Vec<CodingRule> {
        let mut read = CompressionKeys::default();
        for (name, value) in keys {
            _ = read.read(name, value).expect("one of these keys");
        }
        read.resolve().of_all.map(|compression| compression.codings.clone()).unwrap_or_default()
    }

    #[test]
    fn compression_is_off_by_default() {
        assert_eq!(settled(&[]), []);
        assert_eq!(settled(&[("gzip-level", "5"), ("use-gzip", "false")]), []);
        let all = settled(&[("use-gzip", "true"), ("enable-brotli", "true"), ("enable-zstd", "true")]);
        assert_eq!(all, compression::CODINGS.map(default_rule));
        assert_eq!(CompressionKeys::default().resolve(), CompressionDefaults::default());
    }

    #[test]
    fn a_value_that_cannot_be_read_leaves_the_default() {
        for (name, value) in [
            ("use-gzip", "maybe"),
            ("gzip-level", "0"),
            ("gzip-level", "10"),
            ("gzip-level", "fast"),
            ("brotli-level", "12"),
            ("brotli-level", "-1"),
            ("gzip-min-length", "1k"),
            ("brotli-min-length", ""),
            ("enable-zstd", "maybe"),
            ("zstd-level", "0"),
            ("zstd-level", "23"),
            ("zstd-level", "-1"),
            ("zstd-min-length", "1.5"),
        ] {
            let mut keys = CompressionKeys::default();
            assert!(matches!(keys.read(name, value), Some(Err(KeyProblem::NotA(_)))), "{name}: {value}");
            let all = [("use-gzip", "true"), ("enable-brotli", "true"), ("enable-zstd", "true")];
            assert_eq!(settled(&all), settled(&[&[(name, value)], &all[..]].concat()), "{name}: {value}");
        }
        assert!(CompressionKeys::default().read("gzip-disable", "msie6").is_none());
    }

    #[test]
    fn levels_beyond_the_highest_are_lowered() {
        for (switch, name, highest, higher) in [
            ("enable-brotli", "brotli-level", 6, ["7", "11"]),
            ("enable-zstd", "zstd-level", 9, ["10", "22"]),
        ] {
            let mut keys = CompressionKeys::default();
            assert!(matches!(keys.read(name, &highest.to_string()), Some(Ok(()))), "{name}");
            for value in higher {
                assert!(matches!(keys.read(name, value), Some(Err(KeyProblem::Lost(..)))), "{name}: {value}");
                assert_eq!(settled(&[(switch, "true"), (name, value)])[0].level, highest, "{name}: {value}");
            }
        }
    }

    #[test]
    fn valid_entries_of_a_type_list_count() {
        for (value, is_whole) in [("text/plain", true), ("text/plain, a/b", false), ("", false)] {
            let read = CompressionKeys::default().read("gzip-types", value);
            assert_eq!(matches!(read, Some(Ok(()))), is_whole, "{value}");
        }
        let types = &settled(&[("use-gzip", "true"), ("gzip-types", "text/plain; a/b")])[0].types;
        assert_eq!(types.join(" "), "a/b text/html");
    }
}
