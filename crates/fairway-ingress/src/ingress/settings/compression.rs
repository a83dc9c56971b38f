//! The keys of the settings ConfigMap about compressed responses, with the defaults of ingress-nginx; those of Zstandard are
//! Fairway's own. Owns no coding.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use fairway_model::{CodingRule, Compression, ContentCoding};
use fairway_objects::annotations::text::switch;

use crate::ingress::settings::problem::KeyProblem;

/// nginx compresses it whatever its list says.
const ALWAYS: &str = "text/html";

/// Of `gzip-types`; `brotli-types` and `zstd-types` have one more.
const TYPES: &str = "application/atom+xml application/javascript application/x-javascript application/json \
                     application/rss+xml application/vnd.ms-fontobject application/x-font-ttf \
                     application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype \
                     image/svg+xml image/x-icon text/css text/javascript text/plain text/x-component";

const MORE_OF_OTHERS: &str = "application/xml+rss";

const NOT_A_LENGTH: KeyProblem = KeyProblem::NotA("a whole number of bytes");
const NOT_ALL_TYPES: KeyProblem = KeyProblem::Partly(
    "a list of media types, separated by spaces",
    "only responses of the types that can be read, and of text/html, are compressed",
);

/// What a key for a level may say.
struct Levels {
    range: RangeInclusive<u8>,
    what: &'static str,
    /// The highest that Fairway compresses with, and what a key says of a higher one.
    limit: Option<(u8, KeyProblem)>,
}

const GZIP_LEVELS: Levels = Levels { range: 1..=9, what: "a whole number from 1 to 9", limit: None };

const BROTLI_LEVELS: Levels = Levels {
    range: 0..=11,
    what: "a whole number from 0 to 11",
    limit: Some((
        6,
        KeyProblem::Lost(
            "the highest level is 6, because all other requests of a worker would wait for one that compresses harder",
            "level 6 is used",
        ),
    )),
};

const ZSTD_LEVELS: Levels = Levels {
    range: 1..=22,
    what: "a whole number from 1 to 22",
    limit: Some((
        9,
        KeyProblem::Lost(
            "the highest level is 9, because all other requests of a worker would wait for one that compresses harder",
            "level 9 is used",
        ),
    )),
};

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
        let keys = |coding, level, min_length, types: &str| CodingKeys {
            is_on: false,
            rule: CodingRule { coding, level, min_length, types: media_types(types).0 },
        };
        let types_of_others = format!("{MORE_OF_OTHERS} {TYPES}");
        Self {
            zstd: keys(ContentCoding::Zstd, 3, 256, &types_of_others),
            brotli: keys(ContentCoding::Brotli, 4, 20, &types_of_others),
            gzip: keys(ContentCoding::Gzip, 1, 256, TYPES),
        }
    }
}

impl CompressionKeys {
    /// Reads one of these keys; `None` for any other.
    pub(super) fn read(&mut self, name: &str, value: &str) -> Option<Result<(), KeyProblem>> {
        Some(match name {
            "use-gzip" => self.gzip.enable(value),
            "enable-brotli" => self.brotli.enable(value),
            "enable-zstd" => self.zstd.enable(value),
            "gzip-level" => self.gzip.set_level(value, &GZIP_LEVELS),
            "brotli-level" => self.brotli.set_level(value, &BROTLI_LEVELS),
            "zstd-level" => self.zstd.set_level(value, &ZSTD_LEVELS),
            "gzip-min-length" => self.gzip.set_min_length(value),
            "brotli-min-length" => self.brotli.set_min_length(value),
            "zstd-min-length" => self.zstd.set_min_length(value),
            "gzip-types" => self.gzip.set_types(value),
            "brotli-types" => self.brotli.set_types(value),
            "zstd-types" => self.zstd.set_types(value),
            _ => return None,
        })
    }

    /// What the keys say together. As in nginx, Brotli comes before gzip; Zstandard comes before both because it takes the least time for
    /// what it saves.
    pub(super) fn settle(self) -> Option<Arc<Compression>> {
        let on = [self.zstd, self.brotli, self.gzip].into_iter().filter(|keys| keys.is_on);
        let codings: Vec<_> = on.map(|keys| keys.rule).collect();
        (!codings.is_empty()).then(|| Arc::new(Compression { codings }))
    }
}

impl CodingKeys {
    fn enable(&mut self, value: &str) -> Result<(), KeyProblem> {
        self.is_on = switch(value).ok_or(KeyProblem::NotA("true or false"))?;
        Ok(())
    }

    fn set_level(&mut self, value: &str, levels: &Levels) -> Result<(), KeyProblem> {
        let level = value.parse().ok().filter(|level| levels.range.contains(level));
        self.rule.level = level.ok_or(KeyProblem::NotA(levels.what))?;
        match levels.limit {
            Some((highest, problem)) if self.rule.level > highest => {
                self.rule.level = highest;
                Err(problem)
            }
            _ => Ok(()),
        }
    }

    fn set_min_length(&mut self, value: &str) -> Result<(), KeyProblem> {
        self.rule.min_length = value.parse().map_err(|_| NOT_A_LENGTH)?;
        Ok(())
    }

    fn set_types(&mut self, value: &str) -> Result<(), KeyProblem> {
        let (types, is_whole) = media_types(value);
        self.rule.types = types;
        if is_whole { Ok(()) } else { Err(NOT_ALL_TYPES) }
    }
}

/// The media types of a list, and whether all of it could be read.
fn media_types(list: &str) -> (Arc<[Arc<str>]>, bool) {
    let words = list.split_whitespace().map(str::to_ascii_lowercase);
    let (good, wrong): (Vec<_>, Vec<_>) = words.partition(|word| is_media_type(word));
    let types: BTreeSet<_> = good.into_iter().chain([ALWAYS.to_owned()]).collect();
    let is_whole = wrong.is_empty() && !list.trim().is_empty();
    (types.into_iter().map(Arc::from).collect(), is_whole)
}

/// `type "/" subtype` without parameters (RFC 9110 §8.3.1), or any.
fn is_media_type(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    word == "*" || word.split_once('/').is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(keys: &[(&str, &str)]) -> Vec<CodingRule> {
        let mut read = CompressionKeys::default();
        for (name, value) in keys {
            _ = read.read(name, value).expect("one of these keys");
        }
        read.settle().map(|compression| compression.codings.clone()).unwrap_or_default()
    }

    #[test]
    fn nothing_is_compressed_without_a_switch_and_the_defaults_are_those_of_ingress_nginx() {
        assert_eq!(settled(&[]), []);
        assert_eq!(settled(&[("gzip-level", "5"), ("use-gzip", "false")]), []);
        let all = [("use-gzip", "true"), ("enable-brotli", "true"), ("enable-zstd", "true")];
        let [zstd, brotli, gzip] = &*settled(&all) else { panic!("three codings") };
        assert_eq!((zstd.coding, zstd.level, zstd.min_length), (ContentCoding::Zstd, 3, 256));
        assert_eq!((brotli.coding, brotli.level, brotli.min_length), (ContentCoding::Brotli, 4, 20));
        assert_eq!((gzip.coding, gzip.level, gzip.min_length), (ContentCoding::Gzip, 1, 256));
        assert_eq!((&zstd.types, brotli.types.len(), gzip.types.len()), (&brotli.types, 19, 18));
        for rule in [zstd, brotli, gzip] {
            assert!(rule.has_type(Some(b"text/html")) && rule.has_type(Some(b"application/json")));
            assert!(!rule.has_type(Some(b"image/png")) && !rule.has_type(None));
        }
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
    fn what_can_be_read_of_a_list_of_types_counts() {
        let types = |value: &str| settled(&[("use-gzip", "true"), ("gzip-types", value)])[0].types.join(" ");
        for (value, expected, is_whole) in [
            ("text/plain  Application/JSON", "application/json text/html text/plain", true),
            ("*", "* text/html", true),
            ("text/html text/html", "text/html", true),
            ("text/plain, a/b", "a/b text/html", false),
            ("text/plain; a/b", "a/b text/html", false),
            ("text/ /a text a/b/c text/*", "text/html", false),
            ("", "text/html", false),
        ] {
            assert_eq!(types(value), expected, "{value}");
            let read = CompressionKeys::default().read("gzip-types", value);
            assert_eq!(matches!(read, Some(Ok(()))), is_whole, "{value}");
        }
    }
}
