//! Reads users and password hashes from a Secret, in both formats of ingress-nginx. Verifies no password; errors contain no hash.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use fairway_model::Users;
use fairway_password::{Hash, InvalidHash, PasswordEntry, entries};
use k8s_openapi::api::core::v1::Secret;

use crate::certificate::secret_value;

/// The format of users in a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretForm {
    /// An `htpasswd` file in its entry `auth`.
    File,
    /// Each entry is a user.
    Map,
}

/// The users, including those with an unusable hash.
pub struct ReadUsers {
    /// All users.
    pub users: Users,
    /// The unusable hashes, in the order of the Secret.
    pub unusable: Vec<UnusableHash>,
}

/// A hash that no password matches. The user is not named, because more people see diagnostics than the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusableHash {
    /// Its line in an `htpasswd` file.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub why: InvalidHash,
}

impl UnusableHash {
    /// Describes where they are. Names only the first line: a file may have any number of them.
    #[must_use]
    pub fn format_locations(all: &[Self]) -> String {
        let location = match all.first().and_then(|first| first.line) {
            Some(line) => format!("the hash in line {line}"),
            None => "the hash of one of its users".to_owned(),
        };
        match all.len() {
            0 | 1 => location,
            count => format!("{location} (and {} more)", count - 1),
        }
    }
}

/// Reads the users of a Secret.
///
/// # Errors
/// Why it has none.
pub fn read(secret: &Secret, form: SecretForm) -> Result<ReadUsers, &'static str> {
    let mut found: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    let mut unusable = Vec::new();
    let mut judge =
        |line, hash: &str| unusable.extend(Hash::read(hash).err().map(|why| UnusableHash { line, why }));
    match form {
        SecretForm::File => {
            let file = secret_value(secret, "auth").ok_or("it has no entry auth")?;
            let file = std::str::from_utf8(file).map_err(|_| "its entry auth is no text")?;
            for PasswordEntry { line, user, hash } in entries(file) {
                // The first of several entries counts.
                if let btree_map::Entry::Vacant(place) = found.entry(user.into()) {
                    judge(Some(line), hash);
                    place.insert(hash.into());
                }
            }
        }
        SecretForm::Map => {
            let names = secret.data.iter().flatten().map(|(name, _)| name);
            let names = names.chain(secret.string_data.iter().flatten().map(|(name, _)| name));
            for name in names.collect::<BTreeSet<_>>() {
                let value = secret_value(secret, name).and_then(|value| std::str::from_utf8(value).ok());
                let line = value.and_then(|value| value.lines().next()).unwrap_or_default();
                let hash = line.split(':').next().unwrap_or_default().trim();
                judge(None, hash);
                found.insert(name.as_str().into(), hash.into());
            }
        }
    }
    if found.is_empty() {
        return Err("it names no user");
    }
    Ok(ReadUsers { users: Users::new(found), unusable })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(entries: &[(&str, &str)]) -> Secret {
        let data =
            entries.iter().map(|(name, value)| ((*name).to_owned(), ByteString(value.as_bytes().to_vec())));
        Secret { data: Some(data.collect()), ..Secret::default() }
    }

    #[test]
    fn both_forms_give_the_same_users() {
        let file = read(&secret(&[("auth", "a:{PLAIN}x\nb:$1$s$h:note\n")]), SecretForm::File).unwrap();
        let map = read(&secret(&[("a", "{PLAIN}x"), ("b", "$1$s$h\n")]), SecretForm::Map).unwrap();
        assert_eq!(file.users, map.users);
        assert_eq!(file.users.iter().count(), 2);
    }

    #[test]
    fn a_secret_without_users_is_none() {
        for (wrong, form) in [
            (secret(&[]), SecretForm::File),
            (secret(&[]), SecretForm::Map),
            (secret(&[("auth", "")]), SecretForm::File),
            (secret(&[("auth", "# only a comment\n")]), SecretForm::File),
            (secret(&[("other", "a:{PLAIN}x")]), SecretForm::File),
        ] {
            assert!(read(&wrong, form).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn unusable_hashes_are_reported_by_line() {
        let file = "a:plain\n# note\nb:$7$x$y\r\nc:{SHA}x\nd:\n\ne:$6$rounds=9000000$s$h\na:{SHA}x\nnobody\n";
        let found = read(&secret(&[("auth", file)]), SecretForm::File).unwrap();
        let unusable: Vec<_> = found.unusable.iter().map(|it| (it.line, it.why)).collect();
        let expected = [
            (Some(1), InvalidHash::Unknown),
            (Some(3), InvalidHash::Unknown),
            (Some(5), InvalidHash::Unknown),
            (Some(7), InvalidHash::TooSlow),
        ];
        assert_eq!(unusable, expected);
        let found = read(&secret(&[("alice", "plain"), ("bob", "{SHA}x")]), SecretForm::Map).unwrap();
        assert_eq!(found.unusable, [UnusableHash { line: None, why: InvalidHash::Unknown }]);
    }

    #[test]
    fn the_place_of_unusable_hashes_names_no_user() {
        let unusable = |lines: &[Option<usize>]| {
            let all = lines.iter().map(|line| UnusableHash { line: *line, why: InvalidHash::Unknown });
            UnusableHash::format_locations(&all.collect::<Vec<_>>())
        };
        assert_eq!(unusable(&[Some(3)]), "the hash in line 3");
        assert_eq!(unusable(&[Some(3), Some(5)]), "the hash in line 3 (and 1 more)");
        assert_eq!(unusable(&[None]), "the hash of one of its users");
        assert_eq!(unusable(&[None, None, None]), "the hash of one of its users (and 2 more)");
    }
}
