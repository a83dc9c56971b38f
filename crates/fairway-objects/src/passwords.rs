//! Users and hashes from a Secret, in both forms that ingress-nginx knows. Never verifies a password, and names no hash.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::Users;
use fairway_password::{Hash, NotAHash, entries};
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
    /// Those with whose hash nobody passes, and why.
    pub unusable: Vec<(Arc<str>, NotAHash)>,
}

/// Reads the users of a Secret.
///
/// # Errors
/// Says why it has none.
pub fn read(secret: &Secret, form: SecretForm) -> Result<ReadUsers, &'static str> {
    let mut found = BTreeMap::new();
    match form {
        SecretForm::File => {
            let file = secret_value(secret, "auth").ok_or("it has no entry auth")?;
            let file = std::str::from_utf8(file).map_err(|_| "its entry auth is no text")?;
            for (user, hash) in entries(file) {
                // The first of several counts.
                found.entry(Arc::from(user)).or_insert_with(|| Arc::from(hash));
            }
        }
        SecretForm::Map => {
            let names = secret.data.iter().flatten().map(|(name, _)| name);
            let names = names.chain(secret.string_data.iter().flatten().map(|(name, _)| name));
            for name in names {
                let value = secret_value(secret, name).and_then(|value| std::str::from_utf8(value).ok());
                let line = value.and_then(|value| value.lines().next()).unwrap_or_default();
                let hash = line.split(':').next().unwrap_or_default().trim();
                found.insert(Arc::from(name.as_str()), Arc::from(hash));
            }
        }
    }
    if found.is_empty() {
        return Err("it names no user");
    }
    let unusable = found
        .iter()
        .filter_map(|(user, hash): (&Arc<str>, &Arc<str>)| Some((user.clone(), Hash::read(hash).err()?)))
        .collect();
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
    fn hashes_that_nobody_knows_are_named_by_their_user() {
        let found = read(
            &secret(&[("auth", "a:plain\nb:$7$x$y\nc:{SHA}x\nd:\ne:$6$rounds=9000000$s$h")]),
            SecretForm::File,
        );
        let unusable: Vec<_> =
            found.unwrap().unusable.iter().map(|(user, why)| (user.to_string(), *why)).collect();
        let expected = [
            ("a", NotAHash::Unknown),
            ("b", NotAHash::Unknown),
            ("d", NotAHash::Unknown),
            ("e", NotAHash::TooSlow),
        ];
        assert_eq!(unusable, expected.map(|(user, why)| (user.to_owned(), why)));
    }
}
