//! What is known of an annotation by its name alone. Owns the classes and the search for a misspelt name; the table
//! itself is in [`super::known`].

use super::known::KNOWN;

/// An annotation of ingress-nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name without prefix.
    pub name: &'static str,
    /// What becomes of it.
    pub support: Support,
}

/// What becomes of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It works.
    Done,
    /// It does not work yet.
    Missing {
        /// What kind of thing is lost.
        class: Class,
        /// What is lost, as the end of a sentence.
        effect: &'static str,
        /// Values that ask for nothing, with which nothing is lost.
        inert: &'static [&'static str],
    },
}

/// What kind of thing an annotation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It keeps somebody or something out: without it the paths answer 503.
    Protection,
    /// It changes how requests are served: without it they are served otherwise.
    Feature,
}

/// All annotations of ingress-nginx, sorted by name.
#[must_use]
pub fn known_annotations() -> &'static [Known] {
    KNOWN
}

pub(super) const fn done(name: &'static str) -> Known {
    Known { name, support: Support::Done }
}

pub(super) const fn guards(
    name: &'static str,
    effect: &'static str,
    inert: &'static [&'static str],
) -> Known {
    Known { name, support: Support::Missing { class: Class::Protection, effect, inert } }
}

pub(super) const fn offers(
    name: &'static str,
    effect: &'static str,
    inert: &'static [&'static str],
) -> Known {
    Known { name, support: Support::Missing { class: Class::Feature, effect, inert } }
}

/// The annotation of that name.
pub(crate) fn find(name: &str) -> Option<Known> {
    KNOWN.binary_search_by(|known| known.name.cmp(name)).ok().map(|at| KNOWN[at])
}

/// The known name that `name` was probably meant to be.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let distance = |known: &Known| (edit_distance(name, known.name), known.name);
    let (edits, nearest) = KNOWN.iter().map(distance).min()?;
    (edits <= 1 + name.len() / 5).then_some(nearest)
}

/// How many characters must be put in, taken out or replaced (Levenshtein).
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_annotation_is_found_by_its_name() {
        assert!(KNOWN.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(KNOWN.len(), 136 + 2);
        assert!(KNOWN.iter().all(|known| find(known.name) == Some(*known)));
        assert_eq!(find("no-such-thing"), None);
    }

    #[test]
    fn a_misspelt_name_finds_the_right_one() {
        assert_eq!(nearest("rewrite-traget"), Some("rewrite-target"));
        assert_eq!(nearest("cors-allowed-origin"), Some("cors-allow-origin"));
        assert_eq!(nearest("something-else-entirely"), None);
    }

    #[test]
    fn what_lets_nobody_in_is_a_protection() {
        for name in ["auth-type", "auth-url", "auth-tls-secret", "limit-rps", "enable-modsecurity", "satisfy"]
        {
            let known = find(name).unwrap();
            assert!(matches!(known.support, Support::Missing { class: Class::Protection, .. }), "{name}");
        }
    }
}
