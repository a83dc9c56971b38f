//! Compression settings for objects of any kind: limits and defaults of each coding, and media types. The defaults of gzip and
//! Brotli are those of ingress-nginx, which has no Zstandard.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use fairway_model::{CodingRule, ContentCoding};

/// All codings, in order of preference if the client has none. As in nginx, Brotli precedes gzip; Zstandard comes first because
/// it saves the most for its time.
pub const CODINGS: [ContentCoding; 3] = [ContentCoding::Zstd, ContentCoding::Brotli, ContentCoding::Gzip];

/// nginx compresses it whatever its list says.
const ALWAYS_COMPRESSED_TYPE: &str = "text/html";

/// The default of gzip; the others have one more.
const DEFAULT_TYPES: &str = "application/atom+xml application/javascript application/x-javascript application/json \
                     application/rss+xml application/vnd.ms-fontobject application/x-font-ttf \
                     application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype \
                     image/svg+xml image/x-icon text/css text/javascript text/plain text/x-component";

const EXTRA_TYPES_EXCEPT_GZIP: &str = "application/xml+rss";

/// The levels of a coding.
#[derive(Debug)]
pub struct Levels {
    /// The levels that an object may request.
    pub range: RangeInclusive<u8>,
    /// A description for messages.
    pub description: &'static str,
    /// The highest level that Fairway uses, if it is lower.
    pub limit: Option<LevelLimit>,
}

/// The highest level that Fairway uses.
#[derive(Debug)]
pub struct LevelLimit {
    /// Used in place of higher levels.
    pub highest: u8,
    /// The problem with a higher level.
    pub problem: &'static str,
    /// The consequence.
    pub consequence: &'static str,
}

static GZIP_LEVELS: Levels = Levels { range: 1..=9, description: "a whole number from 1 to 9", limit: None };

static BROTLI_LEVELS: Levels = Levels {
    range: 0..=11,
    description: "a whole number from 0 to 11",
    limit: Some(LevelLimit {
        highest: 6,
        problem: "the highest level is 6, because all other requests of a worker would wait for one that compresses harder",
        consequence: "level 6 is used",
    }),
};

static ZSTD_LEVELS: Levels = Levels {
    range: 1..=22,
    description: "a whole number from 1 to 22",
    limit: Some(LevelLimit {
        highest: 9,
        problem: "the highest level is 9, because all other requests of a worker would wait for one that compresses harder",
        consequence: "level 9 is used",
    }),
};

/// The levels of a coding.
#[must_use]
pub fn levels(coding: ContentCoding) -> &'static Levels {
    match coding {
        ContentCoding::Brotli => &BROTLI_LEVELS,
        ContentCoding::Gzip => &GZIP_LEVELS,
        ContentCoding::Zstd => &ZSTD_LEVELS,
    }
}

/// The level to use for a requested one, and the limit that it exceeds. `None` if it is no level of the coding.
#[must_use]
pub fn level(coding: ContentCoding, requested: i64) -> Option<(u8, Option<&'static LevelLimit>)> {
    let Levels { range, limit, .. } = levels(coding);
    let level = u8::try_from(requested).ok().filter(|level| range.contains(level))?;
    let limit = limit.as_ref().filter(|limit| level > limit.highest);
    Some((limit.map_or(level, |limit| limit.highest), limit))
}

/// The default rule of a coding.
#[must_use]
pub fn default_rule(coding: ContentCoding) -> CodingRule {
    let (level, min_length, more) = match coding {
        ContentCoding::Brotli => (4, 20, EXTRA_TYPES_EXCEPT_GZIP),
        ContentCoding::Gzip => (1, 256, ""),
        ContentCoding::Zstd => (3, 256, EXTRA_TYPES_EXCEPT_GZIP),
    };
    let types = [ALWAYS_COMPRESSED_TYPE, more, DEFAULT_TYPES].join(" ");
    CodingRule { coding, level, min_length, types: sorted(types.split_whitespace().map(str::to_owned)) }
}

/// The media types of a space-separated list, including the one that is always compressed, and whether all of it is valid.
#[must_use]
pub fn listed_types(list: &str) -> (Arc<[Arc<str>]>, bool) {
    let words = list.split_whitespace().map(str::to_ascii_lowercase);
    let (good, wrong): (Vec<_>, Vec<_>) = words.partition(|word| is_media_type(word));
    let is_whole = wrong.is_empty() && !list.trim().is_empty();
    (sorted(good.into_iter().chain([ALWAYS_COMPRESSED_TYPE.to_owned()])), is_whole)
}

/// Exactly these media types.
///
/// # Errors
/// The first invalid one.
pub fn exact_types(types: &[String]) -> Result<Arc<[Arc<str>]>, &str> {
    match types.iter().find(|text| !is_media_type(text)) {
        Some(wrong) => Err(wrong),
        None => Ok(sorted(types.iter().map(|text| text.to_ascii_lowercase()))),
    }
}

fn sorted(types: impl Iterator<Item = String>) -> Arc<[Arc<str>]> {
    let types: BTreeSet<_> = types.collect();
    types.into_iter().map(Arc::from).collect()
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

    #[test]
    fn the_defaults_are_those_of_ingress_nginx() {
        let [zstd, brotli, gzip] = CODINGS.map(default_rule);
        assert_eq!((zstd.coding, zstd.level, zstd.min_length), (ContentCoding::Zstd, 3, 256));
        assert_eq!((brotli.coding, brotli.level, brotli.min_length), (ContentCoding::Brotli, 4, 20));
        assert_eq!((gzip.coding, gzip.level, gzip.min_length), (ContentCoding::Gzip, 1, 256));
        assert_eq!((&zstd.types, brotli.types.len(), gzip.types.len()), (&brotli.types, 19, 18));
        for rule in [zstd, brotli, gzip] {
            assert!(rule.has_type(Some(b"text/html")) && rule.has_type(Some(b"application/json")));
            assert!(!rule.has_type(Some(b"image/png")) && !rule.has_type(None));
            assert!(levels(rule.coding).range.contains(&rule.level));
        }
    }

    #[test]
    fn levels_beyond_the_highest_are_lowered() {
        let level_of = |coding, asked| level(coding, asked).map(|(level, limit)| (level, limit.is_some()));
        for (asked, brotli, gzip, zstd) in [
            (-1, None, None, None),
            (0, Some((0, false)), None, None),
            (6, Some((6, false)), Some((6, false)), Some((6, false))),
            (9, Some((6, true)), Some((9, false)), Some((9, false))),
            (11, Some((6, true)), None, Some((9, true))),
            (22, None, None, Some((9, true))),
            (23, None, None, None),
            (256, None, None, None),
        ] {
            assert_eq!(level_of(ContentCoding::Zstd, asked), zstd, "{asked}");
            assert_eq!(level_of(ContentCoding::Brotli, asked), brotli, "{asked}");
            assert_eq!(level_of(ContentCoding::Gzip, asked), gzip, "{asked}");
        }
    }

    #[test]
    fn the_valid_part_of_a_list_of_types_is_used() {
        for (value, expected, is_whole) in [
            ("text/plain  Application/JSON", "application/json text/html text/plain", true),
            ("*", "* text/html", true),
            ("text/html text/html", "text/html", true),
            ("text/plain, a/b", "a/b text/html", false),
            ("text/plain; a/b", "a/b text/html", false),
            ("text/ /a text a/b/c text/*", "text/html", false),
            ("", "text/html", false),
        ] {
            let (types, whole) = listed_types(value);
            assert_eq!((&*types.join(" "), whole), (expected, is_whole), "{value}");
        }
        let exact = |types: [&str; 2]| {
            exact_types(&types.map(str::to_owned)).map(|it| it.join(" ")).map_err(str::to_owned)
        };
        assert_eq!(exact(["text/plain", "Text/CSS"]), Ok("text/css text/plain".to_owned()));
        assert_eq!(exact(["text/plain", "text/*"]), Err("text/*".to_owned()));
    }
}
