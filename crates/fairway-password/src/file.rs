//! The lines of a password file as nginx reads them (`ngx_http_auth_basic_module`). Judges no hash.

/// Users and their hashes, in order: `user:hash`, with or without `:comment` behind it. Empty lines and those that begin with
/// `#` are left out, and so is what has no colon or no user.
pub fn entries(file: &str) -> impl Iterator<Item = (&str, &str)> {
    file.split(['\n', '\r']).filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (user, rest) = line.split_once(':')?;
        let hash = rest.split(':').next().unwrap_or(rest);
        (!user.is_empty()).then_some((user, hash.trim_end()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_lines_without_a_user_are_left_out() {
        let file = "# a:b\nalice:$apr1$x$y:Alice\r\n\nnobody\n:empty\nbob:{SHA}z= \nbob:second";
        let found: Vec<_> = entries(file).collect();
        assert_eq!(found, [("alice", "$apr1$x$y"), ("bob", "{SHA}z="), ("bob", "second")]);
    }
}
