//! The directives of a snippet, as the parser that serves snippets reads them, without their lines. Owns no meaning of one.

use fairway_snippet::Problem;

/// One directive of nginx with its words, and those of the block behind it.
#[derive(Debug)]
pub(super) struct Directive {
    pub(super) words: Vec<String>,
    pub(super) block: Vec<Directive>,
    /// On one line, as it was written.
    pub(super) text: String,
}

/// The directives of a configuration of nginx, one level of blocks below another.
///
/// # Errors
/// The first thing that is no directive.
pub(super) fn directives(text: &str) -> Result<Vec<Directive>, Problem> {
    let read = fairway_snippet::parse_directives("snippet", text)?;
    Ok(read.into_iter().map(Directive::from).collect())
}

impl From<fairway_snippet::Directive> for Directive {
    fn from(read: fairway_snippet::Directive) -> Self {
        let block: Vec<Self> = read.block.unwrap_or_default().into_iter().map(Self::from).collect();
        let words: Vec<_> = std::iter::once(read.name).chain(read.words).collect();
        let mut text = words.join(" ");
        if !block.is_empty() {
            let within: Vec<_> = block.iter().map(|directive| directive.text.as_str()).collect();
            text += &format!(" {{ {} }}", within.join("; "));
        }
        Self { words, block, text }
    }
}
