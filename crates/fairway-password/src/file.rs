//! Parses password files as nginx does (`ngx_http_auth_basic_module`). Does not validate hashes.

/// A user of a password file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordEntry<'f> {
    /// Line number, starting at 1.
    pub line: usize,
    /// The user name.
    pub user: &'f str,
    /// The password hash.
    pub hash: &'f str,
}

/// Users and their hashes in order: `user:hash`, optionally followed by `:comment`. Skips empty lines, lines that
/// begin with `#`, and lines without a colon or user.
pub fn entries(file: &str) -> impl Iterator<Item = PasswordEntry<'_>> {
    let lines = file.split('\n').enumerate();
    let lines = lines.flat_map(|(index, line)| line.split('\r').map(move |line| (index + 1, line)));
    lines.filter(|(_, text)| !text.starts_with('#')).filter_map(|(line, text)| {
        let (user, rest) = text.split_once(':')?;
        let hash = rest.split(':').next().unwrap_or(rest).trim_end();
        (!user.is_empty()).then_some(PasswordEntry { line, user, hash })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_lines_without_a_user_are_left_out() {
        let file = "# a:b\nalice:$apr1$x$y:Alice\r\n\nnobody\n:empty\nbob:{SHA}z= \nbob:second";
        let found: Vec<_> = entries(file).map(|it| (it.line, it.user, it.hash)).collect();
        assert_eq!(found, [(2, "alice", "$apr1$x$y"), (6, "bob", "{SHA}z="), (7, "bob", "second")]);
    }
}
