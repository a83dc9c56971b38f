//! A case-insensitive search: every word must be found.

use super::query::Query;

/// The words of a search.
pub(super) struct Search(Vec<String>);

impl Search {
    /// From the parameter `q`.
    pub(super) fn from_query(query: &Query) -> Self {
        let text = query.value("q").unwrap_or_default();
        Self(text.split_whitespace().map(str::to_ascii_lowercase).collect())
    }

    /// Whether the search is empty, so that everything matches.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a text contains every word. Folds the text to lower case.
    pub(super) fn finds(&self, text: &mut str) -> bool {
        text.make_ascii_lowercase();
        self.0.iter().all(|word| text.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_must_be_found_in_any_case() {
        let search = Search::from_query(&Query::parse(Some("q=Shop+%2Fcart")));
        assert!(search.finds(&mut "Ingress SHOP/web a.test /Cart/x".to_owned()));
        assert!(!search.finds(&mut "Ingress shop/web a.test /".to_owned()));
        let all = Search::from_query(&Query::parse(None));
        assert!(all.is_empty() && all.finds(&mut String::new()));
    }
}
