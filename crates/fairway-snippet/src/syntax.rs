//! Parses the syntax of nginx's configuration (`ngx_conf_read_token`): words, quotes, escapes, comments and blocks.
//! Directives are interpreted elsewhere. Every text yields directives or a problem with its line, in time bounded by
//! its length.

use std::sync::Arc;

use crate::problem::Problem;

/// Maximum bytes of a snippet.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum nesting of blocks.
const MAX_DEPTH: usize = 4;
/// Maximum number of directives, including those in blocks.
const MAX_DIRECTIVES: usize = 1000;
/// Maximum words of a directive.
const MAX_WORDS: usize = 64;
/// Maximum bytes of a word with its quotes and escapes: nginx rejects words that exceed its buffer
/// (`NGX_CONF_BUFFER`, 4,096).
const MAX_WORD: usize = 4000;

/// A directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The annotation or key that contains it.
    pub key: Arc<str>,
    /// The line where it begins, starting at 1.
    pub line: u32,
    /// Its name.
    pub name: String,
    /// Its words, without quotes and escapes.
    pub words: Vec<String>,
    /// The directives of its block, if any.
    pub block: Option<Vec<Directive>>,
}

impl Directive {
    /// Its location, for messages.
    pub(crate) fn origin(&self) -> Arc<str> {
        format!("{} line {}: {}", self.key, self.line, crate::problem::shortened(&self.text())).into()
    }

    /// The form in messages: its name and its first word up to a colon. Further words may be passwords.
    #[must_use]
    pub fn text(&self) -> String {
        let shown = if self.name == "location" { 2 } else { 1 };
        let mut text = self.name.clone();
        for word in self.words.iter().take(shown) {
            text.push(' ');
            text.push_str(word.split(':').next().unwrap_or_default());
        }
        text
    }
}

/// Parses the directives of a snippet, the value of `key`.
///
/// # Errors
/// The first syntax error.
pub fn parse_directives(key: &str, text: &str) -> Result<Vec<Directive>, Problem> {
    if text.len() > MAX_BYTES {
        let reason = format!("it has {} bytes, and {MAX_BYTES} are read", text.len());
        return Err(Problem::new(1, "", reason));
    }
    let mut reader = Reader { key: key.into(), text, at: 0, line: 1, directives: 0 };
    reader.block(0)
}

struct Reader<'t> {
    key: Arc<str>,
    text: &'t str,
    at: usize,
    line: u32,
    directives: usize,
}

/// A word or delimiter.
enum Token {
    Word(String),
    Semicolon,
    Open,
    Close,
    End,
}

impl Reader<'_> {
    /// Directives up to the end of the block or, at the top level, of the text.
    fn block(&mut self, depth: usize) -> Result<Vec<Directive>, Problem> {
        let mut all = Vec::new();
        loop {
            let token = self.token()?;
            let line = self.line;
            let name = match token {
                Token::Word(name) => name,
                Token::End if depth == 0 => return Ok(all),
                Token::End => return Err(Problem::new(line, "", "a block is not closed with \"}\"")),
                Token::Close if depth > 0 => return Ok(all),
                Token::Close => return Err(Problem::new(line, "}", "it closes no block of the snippet")),
                Token::Semicolon => return Err(Problem::new(line, ";", "no directive stands before it")),
                Token::Open => return Err(Problem::new(line, "{", "no directive stands before it")),
            };
            self.directives += 1;
            if self.directives > MAX_DIRECTIVES {
                return Err(Problem::new(
                    line,
                    &name,
                    format!("a snippet may have {MAX_DIRECTIVES} directives"),
                ));
            }
            all.push(self.directive(line, name, depth)?);
        }
    }

    fn directive(&mut self, line: u32, name: String, depth: usize) -> Result<Directive, Problem> {
        let mut directive = Directive { key: self.key.clone(), line, name, words: Vec::new(), block: None };
        loop {
            match self.token()? {
                Token::Word(_) if directive.words.len() == MAX_WORDS => {
                    let reason = format!("a directive may have {MAX_WORDS} words");
                    return Err(Problem::new(line, &directive.text(), reason));
                }
                Token::Word(word) => directive.words.push(word),
                Token::Semicolon => return Ok(directive),
                Token::Open if directive.name.ends_with("_by_lua_block") => {
                    return Err(Problem::new(line, &directive.name, "Lua is not run"));
                }
                Token::Open if depth == MAX_DEPTH => {
                    let reason = format!("blocks may be {MAX_DEPTH} deep");
                    return Err(Problem::new(line, &directive.text(), reason));
                }
                Token::Open => {
                    directive.block = Some(self.block(depth + 1)?);
                    return Ok(directive);
                }
                Token::Close | Token::End => {
                    return Err(Problem::new(line, &directive.text(), "it does not end with \";\""));
                }
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += u32::from(c == '\n');
        Some(c)
    }

    fn token(&mut self) -> Result<Token, Problem> {
        let line = self.line;
        let (begin, token) = self.read_token()?;
        match self.at - begin > MAX_WORD {
            true => Err(Problem::new(line, "", format!("a word may have {MAX_WORD} bytes"))),
            false => Ok(token),
        }
    }

    /// A token and its start.
    fn read_token(&mut self) -> Result<(usize, Token), Problem> {
        loop {
            let begin = self.at;
            let token = match self.peek() {
                None => Token::End,
                Some(' ' | '\t' | '\r' | '\n') => {
                    self.next();
                    continue;
                }
                Some('#') => {
                    while self.next().is_some_and(|c| c != '\n') {}
                    continue;
                }
                Some(';') => self.consume(Token::Semicolon),
                Some('{') => self.consume(Token::Open),
                Some('}') => self.consume(Token::Close),
                Some(quote @ ('"' | '\'')) => self.read_quoted(quote)?,
                Some(_) => self.read_plain(),
            };
            return Ok((begin, token));
        }
    }

    fn consume(&mut self, token: Token) -> Token {
        self.next();
        token
    }

    /// A quoted word, which must be followed by a space or a delimiter.
    fn read_quoted(&mut self, quote: char) -> Result<Token, Problem> {
        let line = self.line;
        self.next();
        let mut word = String::new();
        loop {
            match self.next() {
                None => {
                    return Err(Problem::new(line, "", format!("the quote {quote} is not closed")));
                }
                Some('\\') => self.read_escape(&mut word),
                Some(c) if c == quote => break,
                Some(c) => word.push(c),
            }
        }
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | ';' | '{' | ')') => Ok(Token::Word(word)),
            Some(_) => Err(Problem::new(self.line, "", "something follows a quote without a space")),
        }
    }

    /// A word up to a space or delimiter; `${` does not open a block.
    fn read_plain(&mut self) -> Token {
        let mut word = String::new();
        let mut variable = false;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' => break,
                '{' if !variable => break,
                _ => {}
            }
            self.next();
            variable = c == '$';
            match c {
                '\\' => self.read_escape(&mut word),
                c => word.push(c),
            }
        }
        Token::Word(word)
    }

    /// An escape sequence. The backslash stays before unknown characters.
    fn read_escape(&mut self, word: &mut String) {
        match self.next() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => word.extend(['\\', c]),
            None => word.push('\\'),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let all = parse_directives("k", text).unwrap();
        all.into_iter().map(|it| [vec![it.name], it.words].concat()).collect()
    }

    #[test]
    fn words_end_at_spaces_semicolons_and_braces_and_quotes_keep_them() {
        let text = "a b;c 'd e' \"f;g\"{h ${i}j;}\n# k l;\nm\\ n o\\\"p '\\'' \"q\\.r\\n\";";
        let all = parse_directives("k", text).unwrap();
        assert_eq!(all[1].words, ["d e", "f;g"]);
        assert_eq!(all[1].block.as_ref().unwrap()[0].words, ["${i}j"]);
        assert_eq!((all[2].name.as_str(), all[2].line), ("m\\ n", 3));
        assert_eq!(all[2].words, ["o\"p", "'", "q\\.r\n"]);
        assert_eq!(words("if ( $a ~ \"^b\" ) {}"), [["if", "(", "$a", "~", "^b", ")"]]);
        assert_eq!(words("if ($a ~ \"^b\"){}"), [["if", "($a", "~", "^b", ")"]]);
    }

    #[test]
    fn syntax_errors_have_a_line() {
        for (text, line, reason) in [
            ("a b", 1, "does not end"),
            ("a;\n}", 2, "closes no block"),
            ("a {\nb;\n", 3, "not closed"),
            ("a 'b;\n", 1, "quote ' is not closed"),
            ("\na \"b\"c;", 2, "follows a quote"),
            (";", 1, "no directive"),
            ("{", 1, "no directive"),
            ("a;\nrewrite_by_lua_block { ngx.exit(1) }", 2, "Lua"),
            ("a{b{c{d{e{f;}}}}}", 1, "deep"),
        ] {
            let problem = parse_directives("k", text).unwrap_err();
            assert_eq!(problem.line, line, "{text}: {problem}");
            assert!(problem.reason.contains(reason), "{text}: {problem}");
        }
    }

    #[test]
    fn a_snippet_is_bounded() {
        for text in
            ["a;".repeat(2000), "x".repeat(1 << 20), format!("a {};", "b ".repeat(100)), "a{".repeat(9000)]
        {
            assert!(parse_directives("k", &text).is_err());
        }
    }

    proptest! {
        #[test]
        fn parsing_terminates(text in "[ -~\n]{0,60}") {
            _ = parse_directives("k", &text);
        }

        #[test]
        fn quoted_words_round_trip(word in "[ -~é]{0,20}") {
            let quoted = format!("a \"{}\";", word.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(&parse_directives("k", &quoted).unwrap()[0].words[0], &word);
        }
    }
}
