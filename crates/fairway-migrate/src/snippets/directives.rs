//! Reads the text of a configuration of nginx into directives. Owns no meaning of one.

/// One directive of nginx with its words, and those of the block behind it.
#[derive(Debug)]
pub(super) struct Directive {
    pub(super) words: Vec<String>,
    pub(super) block: Vec<Directive>,
    /// On one line, as it was written.
    pub(super) text: String,
}

/// The directives of a configuration of nginx, one level of blocks below another. What is cut off counts as if it were not.
pub(super) fn directives(text: &str) -> Vec<Directive> {
    let mut left = tokens(text).into_iter();
    let mut directives = Vec::new();
    // A brace that closes nothing is not the end.
    while left.len() > 0 {
        directives.extend(block(&mut left));
    }
    directives
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

fn block(tokens: &mut std::vec::IntoIter<Token>) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut words: Vec<String> = Vec::new();
    loop {
        let (inner, ends) = match tokens.next() {
            Some(Token::Word(word)) => {
                words.push(word);
                continue;
            }
            None | Some(Token::Close) => (Vec::new(), true),
            Some(Token::End) => (Vec::new(), false),
            Some(Token::Open) => (block(tokens), false),
        };
        if !words.is_empty() {
            let mut text = words.join(" ");
            if !inner.is_empty() {
                let within: Vec<_> = inner.iter().map(|directive| directive.text.as_str()).collect();
                text += &format!(" {{ {} }}", within.join("; "));
            }
            directives.push(Directive { words: std::mem::take(&mut words), block: inner, text });
        }
        if ends {
            return directives;
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            _ if c.is_whitespace() => {}
            ';' => tokens.push(Token::End),
            '{' => tokens.push(Token::Open),
            '}' => tokens.push(Token::Close),
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' | '\'' => {
                let mut word = String::new();
                while let Some(inner) = chars.next().filter(|inner| *inner != c) {
                    let meant = chars.peek().copied().filter(|_| inner == '\\').and_then(escaped);
                    if meant.is_some() {
                        chars.next();
                    }
                    word.push(meant.unwrap_or(inner));
                }
                tokens.push(Token::Word(word));
            }
            _ => {
                let mut word = String::from(c);
                let mut variable = c == '$';
                while let Some(next) = chars.peek().copied() {
                    // `${name}` belongs to a word.
                    let opens = next == '{' && variable;
                    if next.is_whitespace()
                        || next == ';'
                        || (next == '{' && !opens)
                        || next == '}' && !word.contains("${")
                    {
                        break;
                    }
                    variable = next == '$';
                    word.push(next);
                    chars.next();
                }
                tokens.push(Token::Word(word));
            }
        }
    }
    tokens
}

/// What a backslash and this mean in quotes (`ngx_conf_read_token`). Before anything else, a backslash is itself.
fn escaped(next: char) -> Option<char> {
    Some(match next {
        '"' | '\'' | '\\' => next,
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        _ => return None,
    })
}
