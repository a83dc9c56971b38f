//! The table of all known annotations, and the search for misspelt names.

use std::sync::LazyLock;

use crate::ingress::annotations::families::FAMILIES;
use crate::ingress::annotations::family::KnownAnnotation;

/// Sorted by name, without prefix.
static KNOWN_ANNOTATIONS: LazyLock<Vec<KnownAnnotation>> = LazyLock::new(|| {
    let mut all: Vec<_> = FAMILIES.iter().flat_map(|family| family.annotations).copied().collect();
    all.sort_by_key(|known| known.name);
    all
});

/// All annotations of ingress-nginx, sorted by name: the 136 of controller v1.15.1 and two older spellings.
#[must_use]
pub fn known_annotations() -> &'static [KnownAnnotation] {
    &KNOWN_ANNOTATIONS
}

/// The annotation with this name.
pub(crate) fn find(name: &str) -> Option<KnownAnnotation> {
    KNOWN_ANNOTATIONS.binary_search_by(|known| known.name.cmp(name)).ok().map(|at| KNOWN_ANNOTATIONS[at])
}

/// The known name closest to a misspelt one.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let distance = |known: &KnownAnnotation| (edit_distance(name, known.name), known.name);
    let (edits, nearest) = KNOWN_ANNOTATIONS.iter().map(distance).min()?;
    (edits <= 1 + name.len() / 5).then_some(nearest)
}

/// The Levenshtein distance.
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
        assert!(KNOWN_ANNOTATIONS.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(KNOWN_ANNOTATIONS.len(), 136 + 2);
        assert!(KNOWN_ANNOTATIONS.iter().all(|known| find(known.name) == Some(*known)));
        assert_eq!(find("no-such-thing"), None);
    }

    #[test]
    fn a_misspelt_name_finds_the_right_one() {
        assert_eq!(nearest("rewrite-traget"), Some("rewrite-target"));
        assert_eq!(nearest("cors-allowed-origin"), Some("cors-allow-origin"));
        assert_eq!(nearest("something-else-entirely"), None);
    }
}
