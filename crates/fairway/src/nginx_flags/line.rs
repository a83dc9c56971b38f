//! A command line as programs in Go read it (packages `flag` and `pflag`): `-a=b`, `--a=b`, `--a b`, and `--a` for a switch.

/// A flag as it was given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// Without dashes.
    pub(super) name: String,
    /// That of a switch without a value is `true`.
    pub(super) value: String,
    /// The flag as Fairway would be given it.
    pub(super) text: String,
}

/// Reads the flags of a line. `takes_value` says whether a flag does that, `None` for an unknown flag.
pub(super) fn read(words: &[String], takes_value: impl Fn(&str) -> Option<bool>) -> Vec<Given> {
    let mut given = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let flag = word.trim_start_matches('-');
        if flag.len() == word.len() {
            given.push(Given { name: word.clone(), value: String::new(), text: word.clone() });
            continue;
        }
        if let Some((name, value)) = flag.split_once('=') {
            given.push(Given { name: name.into(), value: value.into(), text: format!("--{flag}") });
            continue;
        }
        let next = || words.peek().is_some_and(|next| !next.starts_with('-'));
        let takes = takes_value(flag).unwrap_or_else(next);
        match if takes { words.next() } else { None } {
            Some(value) => {
                given.push(Given {
                    name: flag.into(),
                    value: value.clone(),
                    text: format!("--{flag}={value}"),
                });
            }
            None => given.push(Given { name: flag.into(), value: "true".into(), text: format!("--{flag}") }),
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_an_equals_sign_or_a_space() {
        let words = ["-a=b", "--c", "d", "--switch", "--unknown", "e", "--other", "--a=x=y", "word"]
            .map(str::to_owned);
        let takes = |name: &str| match name {
            "a" | "c" => Some(true),
            "switch" => Some(false),
            _ => None,
        };
        let given = read(&words, takes);
        let read: Vec<_> = given.iter().map(|it| (&*it.name, &*it.value, &*it.text)).collect();
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
