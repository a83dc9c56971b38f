//! Parses a command line like Go programs do (packages `flag` and `pflag`): `-a=b`, `--a=b`, `--a b`, and `--a` for a switch.

/// A flag with its value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GivenFlag {
    /// Without dashes.
    pub(super) name: String,
    /// `true` for a switch without a value.
    pub(super) value: String,
    /// The flag in Fairway's syntax.
    pub(super) text: String,
}

/// Parses the flags of a command line. `takes_value` returns whether a flag takes a value, or `None` for an unknown flag.
pub(super) fn read(words: &[String], takes_value: impl Fn(&str) -> Option<bool>) -> Vec<GivenFlag> {
    let mut flags = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let flag = word.trim_start_matches('-');
        if flag.len() == word.len() {
            flags.push(GivenFlag { name: word.clone(), value: String::new(), text: word.clone() });
            continue;
        }
        if let Some((name, value)) = flag.split_once('=') {
            flags.push(GivenFlag { name: name.into(), value: value.into(), text: format!("--{flag}") });
            continue;
        }
        let next = || words.peek().is_some_and(|next| !next.starts_with('-'));
        let takes = takes_value(flag).unwrap_or_else(next);
        match if takes { words.next() } else { None } {
            Some(value) => {
                flags.push(GivenFlag {
                    name: flag.into(),
                    value: value.clone(),
                    text: format!("--{flag}={value}"),
                });
            }
            None => {
                flags.push(GivenFlag { name: flag.into(), value: "true".into(), text: format!("--{flag}") });
            }
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_an_equals_sign_or_a_space() {
        let words = ["-a=b", "--c", "d", "--switch", "--unknown", "e", "--other", "--a=x=y", "word"]
            .map(str::to_owned);
        let takes = |name: &str| match name {
            "a" | "c" => Some(true),
            "switch" => Some(false),
            _ => None,
        };
        let flags = read(&words, takes);
        let read: Vec<_> = flags.iter().map(|it| (&*it.name, &*it.value, &*it.text)).collect();
        assert_eq!(
            read,
            [
                ("a", "b", "--a=b"),
                ("c", "d", "--c=d"),
                ("switch", "true", "--switch"),
                ("unknown", "e", "--unknown=e"),
                ("other", "true", "--other"),
                ("a", "x=y", "--a=x=y"),
                ("word", "", "word"),
            ]
        );
    }
}
