//! Users and hashes from a Secret, in both forms that ingress-nginx knows. Never verifies a password, and names no hash.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use fairway_model::Users;
use fairway_password::{Entry, Hash, NotAHash, entries};
use k8s_openapi::api::core::v1::Secret;

use crate::certificate::secret_value;

/// How a Secret has its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretForm {
    /// As a file of `htpasswd` in its entry `auth`.
    File,
    /// Each entry is a user.
    Map,
}

/// Users, and those of them with whose hash nobody passes.
pub struct ReadUsers {
    /// All of them.
    pub users: Users,
    /// The hashes with which nobody passes, in the order of the Secret.
    pub unusable: Vec<Unusable>,
}

/// A hash with which nobody passes. It does not name its user: what is said about it is shown to more people than the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Its line in a file of `htpasswd`.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub why: NotAHash,
}

impl Unusable {
    /// Says where they are. Names the first line only: a file may have any number.
    #[must_use]
    pub fn places(all: &[Self]) -> String {
        let place = match all.first().and_then(|first| first.line) {
            Some(line) => format!("the hash in line {line}"),
            None => "the hash of one of its users".to_owned(),
        };
        match all.len() {
            0 | 1 => place,
            count => format!("{place} (and {} more)", count - 1),
        }
    }
}

/// Reads the users of a Secret.
///
/// # Errors
/// Says why it has none.
pub fn read(secret: &Secret, form: SecretForm) -> Result<ReadUsers, &'static str> {
    let mut found: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    let mut unusable = Vec::new();
    let mut judge =
        |line, hash: &str| unusable.extend(Hash::read(hash).err().map(|why| Unusable { line, why }));
    match form {
        SecretForm::File => {
            let file = secret_value(secret, "auth").ok_or("it has no entry auth")?;
            let file = std::str::from_utf8(file).map_err(|_| "its entry auth is no text")?;
            for Entry { line, user, hash } in entries(file) {
                // The first of several counts.
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
    fn hashes_that_nobody_knows_are_found_by_their_line() {
        let file = "a:plain\n# note\nb:$7$x$y\r\nc:{SHA}x\nd:\n\ne:$6$rounds=9000000$s$h\na:{SHA}x\nnobody\n";
        let found = read(&secret(&[("auth", file)]), SecretForm::File).unwrap();
        let unusable: Vec<_> = found.unusable.iter().map(|it| (it.line, it.why)).collect();
        let expected = [
            (Some(1), NotAHash::Unknown),
            (Some(3), NotAHash::Unknown),
            (Some(5), NotAHash::Unknown),
            (Some(7), NotAHash::TooSlow),
        ];
        assert_eq!(unusable, expected);
        let found = read(&secret(&[("alice", "plain"), ("bob", "{SHA}x")]), SecretForm::Map).unwrap();
        assert_eq!(found.unusable, [Unusable { line: None, why: NotAHash::Unknown }]);
    }

    #[test]
    fn the_place_of_unusable_hashes_names_no_user() {
        let unusable = |lines: &[Option<usize>]| {
            let all = lines.iter().map(|line| Unusable { line: *line, why: NotAHash::Unknown });
            Unusable::places(&all.collect::<Vec<_>>())
        };
        assert_eq!(unusable(&[Some(3)]), "the hash in line 3");
        assert_eq!(unusable(&[Some(3), Some(5)]), "the hash in line 3 (and 1 more)");
        assert_eq!(unusable(&[None]), "the hash of one of its users");
        assert_eq!(unusable(&[None, None, None]), "the hash of one of its users (and 2 more)");
    }
}
