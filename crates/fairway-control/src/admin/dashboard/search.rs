//! What somebody searches for: every word must be there, in upper or lower case.

use super::query::Query;

/// What somebody searches for.
pub(super) struct Search(Vec<String>);

impl Search {
    /// Of the parameter `q`.
    pub(super) fn read(query: &Query) -> Self {
        let text = query.value("q").unwrap_or_default();
        Self(text.split_whitespace().map(str::to_ascii_lowercase).collect())
    }

    /// Whether nothing is asked for, so that everything is found.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it finds a text, which it folds to lower case.
    pub(super) fn finds(&self, text: &mut str) -> bool {
        text.make_ascii_lowercase();
        self.0.iter().all(|word| text.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_must_be_there_in_any_case() {
        let search = Search::read(&Query::read(Some("q=Shop+%2Fcart")));
        assert!(search.finds(&mut "Ingress SHOP/web a.test /Cart/x".to_owned()));
        assert!(!search.finds(&mut "Ingress shop/web a.test /".to_owned()));
        let all = Search::read(&Query::read(None));
        assert!(all.is_empty() && all.finds(&mut String::new()));
    }
}
