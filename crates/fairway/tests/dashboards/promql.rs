//! Parses PromQL expressions for the series that they select, with their matchers, and the labels that they group by. Supports the
//! parts of the language that dashboards and alerts use, and refuses the rest.

use std::ops::Range;

use crate::dashboards::scrape::Labels;

/// The selectors and groupings of an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) selectors: Vec<Selector>,
    /// Labels that an aggregation keeps, each with the indices of its selectors.
    pub(crate) groupings: Vec<(Vec<String>, Range<usize>)>,
}

/// Series of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) metric: String,
    pub(crate) matchers: Vec<Matcher>,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matcher {
    pub(crate) label: String,
    pub(crate) operator: String,
    /// A dashboard variable, which stands for all values.
    pub(crate) value: String,
}

const FUNCTIONS: [&str; 18] = [
    "sum",
    "min",
    "max",
    "avg",
    "count",
    "rate",
    "irate",
    "increase",
    "delta",
    "changes",
    "round",
    "absent",
    "time",
    "avg_over_time",
    "max_over_time",
    "histogram_quantile",
    "clamp_min",
    "label_values",
];
const WORDS: [&str; 3] = ["and", "or", "unless"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Number,
    Range,
    Mark(String),
}

impl Query {
    /// Parses an expression; the error says what is not supported.
    pub(crate) fn parse(expression: &str) -> Result<Self, String> {
        let tokens = tokens(expression)?;
        let mut parser = Parser { tokens: &tokens, at: 0, query: Self::default(), open: Vec::new() };
        parser.run().map_err(|problem| format!("{problem} in {expression}"))?;
        Ok(parser.query)
    }

    /// Parses the query of a dashboard variable: series, and the label whose values it lists.
    pub(crate) fn label_values(text: &str) -> Option<(Self, String)> {
        let inside = text.trim().strip_prefix("label_values(")?.strip_suffix(')')?;
        let (series, label) = inside.rsplit_once(',')?;
        Some((Self::parse(series).ok()?, label.trim().to_owned()))
    }
}

impl Matcher {
    /// Whether a series with these labels matches; an absent label is the same as an empty one.
    pub(crate) fn admits(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.label).map(String::as_str).unwrap_or_default();
        match self.operator.as_str() {
            "=" => value == self.value,
            "!=" => value != self.value,
            "=~" => matches(&self.value, value),
            _ => !matches(&self.value, value),
        }
    }
}

/// Whether a pattern of literals, `.`, `.*`, `.+`, `[a-b]` and alternatives matches all of `text`.
fn matches(pattern: &str, text: &str) -> bool {
    pattern.split('|').any(|alternative| fits(alternative.as_bytes(), text.as_bytes()))
}

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'.', b'*', rest @ ..] => (0..=text.len()).any(|count| fits(rest, &text[count..])),
        [b'.', b'+', rest @ ..] => (1..=text.len()).any(|count| fits(rest, &text[count..])),
        [b'[', low, b'-', high, b']', rest @ ..] => {
            text.first().is_some_and(|byte| (low..=high).contains(&byte)) && fits(rest, &text[1..])
        }
        [one, rest @ ..] => {
            text.first().is_some_and(|byte| *one == b'.' || byte == one) && fits(rest, &text[1..])
        }
    }
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    query: Query,
    /// For each open parenthesis, the number of selectors before it and the grouping in front of it.
    open: Vec<(usize, Option<Vec<String>>)>,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut closed = None;
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            let before = closed.take();
            match token {
                Token::Word(word) if word == "by" => self.grouping(before)?,
                Token::Word(word) if self.is_mark("(") || self.is_word("by") => {
                    if !FUNCTIONS.contains(&word.as_str()) && !WORDS.contains(&word.as_str()) {
                        return Err(format!("the function {word} is not known"));
                    }
                }
                Token::Word(word) if WORDS.contains(&word.as_str()) => {}
                Token::Word(metric) => self.selector(metric)?,
                Token::Mark(mark) if mark == "(" => self.open.push((self.query.selectors.len(), None)),
                Token::Mark(mark) if mark == ")" => closed = Some(self.close()?),
                Token::Mark(mark) if "+-*/<>,".contains(mark.as_str()) => {}
                Token::Mark(mark) if ["==", "!=", ">=", "<="].contains(&mark.as_str()) => {}
                Token::Number | Token::Range => {}
                other => return Err(format!("{other:?} is not expected")),
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err("a parenthesis is not closed".to_owned()) }
    }

    /// The operand that ends here.
    fn close(&mut self) -> Result<Range<usize>, String> {
        let (first, labels) = self.open.pop().ok_or("a parenthesis is closed too often")?;
        let operand = first..self.query.selectors.len();
        self.query.groupings.extend(labels.map(|labels| (labels, operand.clone())));
        Ok(operand)
    }

    /// The labels of a `by`, which is written before or after its operand.
    fn grouping(&mut self, before: Option<Range<usize>>) -> Result<(), String> {
        let mut labels = Vec::new();
        self.expect("(")?;
        loop {
            match self.next() {
                Some(Token::Word(label)) => labels.push(label),
                Some(Token::Mark(mark)) if mark == "," => {}
                Some(Token::Mark(mark)) if mark == ")" => break,
                other => return Err(format!("{other:?} is no label")),
            }
        }
        match before {
            Some(operand) => self.query.groupings.push((labels, operand)),
            None => {
                self.expect("(")?;
                self.open.push((self.query.selectors.len(), Some(labels)));
            }
        }
        Ok(())
    }

    fn selector(&mut self, metric: &str) -> Result<(), String> {
        let mut selector = Selector { metric: metric.to_owned(), matchers: Vec::new() };
        if self.is_mark("{") {
            self.at += 1;
            while !self.is_mark("}") {
                let parts = (self.next(), self.next(), self.next());
                let (Some(Token::Word(label)), Some(Token::Mark(operator)), Some(Token::Text(value))) =
                    parts.clone()
                else {
                    return Err(format!("{parts:?} is no matcher"));
                };
                let value = if value.starts_with('$') { ".*".to_owned() } else { value };
                selector.matchers.push(Matcher { label, operator, value });
                self.at += usize::from(self.is_mark(","));
            }
            self.at += 1;
        }
        self.query.selectors.push(selector);
        Ok(())
    }

    fn next(&mut self) -> Option<Token> {
        self.at += 1;
        self.tokens.get(self.at - 1).cloned()
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        match self.next() {
            Some(Token::Mark(found)) if found == mark => Ok(()),
            other => Err(format!("{other:?} instead of {mark}")),
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Word(found)) if found == word)
    }

    fn is_mark(&self, mark: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Mark(found)) if found == mark)
    }
}

fn tokens(expression: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let length =
                    rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                (Token::Word(rest[..length].to_owned()), length)
            }
            '0'..='9' | '.' => {
                let length = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
                (Token::Number, length)
            }
            '"' => {
                let length =
                    rest[1..].find('"').ok_or_else(|| format!("a text is not closed in {expression}"))?;
                (Token::Text(rest[1..=length].to_owned()), length + 2)
            }
            '[' => {
                let length =
                    rest.find(']').ok_or_else(|| format!("a range is not closed in {expression}"))?;
                (Token::Range, length + 1)
            }
            _ => {
                let two = ["=~", "!~", "==", "!=", ">=", "<="].into_iter().find(|two| rest.starts_with(two));
                let mark = two.unwrap_or(&rest[..first.len_utf8()]);
                (Token::Mark(mark.to_owned()), mark.len())
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

#[test]
fn selectors_and_groupings_are_found_wherever_they_stand() {
    let quantile = "histogram_quantile(0.99, sum by (le, pod) (rate(a_bucket{x=\"1\", y=~\"$y\",}[5m]))) > 1";
    let query = Query::parse(&format!("{quantile} and sum(b) by (z) / (c > 0)")).unwrap();
    let names: Vec<_> = query.selectors.iter().map(|selector| selector.metric.as_str()).collect();
    assert_eq!(names, ["a_bucket", "b", "c"]);
    assert_eq!(query.selectors[0].matchers[1].value, ".*", "a variable is every value");
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(query.groupings, [(words(&["le", "pod"]), 0..1), (words(&["z"]), 1..2)]);
    let (listed, label) = Query::label_values("label_values(a{x=~\"$x\"}, y)").unwrap();
    assert_eq!((listed.selectors[0].metric.as_str(), label.as_str()), ("a", "y"));
}

#[test]
fn unsupported_expressions_are_refused() {
    for wrong in
        ["sum(a", "a)", "nothing(a)", "a{x=1}", "a{x=\"1}", "sum by (a", "a[5m", "a ; b", "sum by (x) a"]
    {
        assert!(Query::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn patterns_match_all_of_a_value() {
    for (pattern, text, expected) in [
        ("5..", "503", true),
        ("5..", "5031", false),
        ("[4-5].*", "404", true),
        ("[4-5].*", "204", false),
        ("connect_.*|overloaded", "connect_failed", true),
        ("connect_.*|overloaded", "overloaded", true),
        ("connect_.*|overloaded", "no_route", false),
        (".*", "", true),
        (".+", "", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}
