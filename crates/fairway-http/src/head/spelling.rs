//! Header names that many programs confuse: CGI, PHP and nginx variables turn every byte that is not a letter or digit
//! into `_`, so that `X-User`, `X_User` and `X.User` are the same to them. Editing one of them removes the others.

use super::{FieldRef, Head};
use crate::bytes::is_plain_name;

/// The bit of [`Head::present`] that says that names with other bytes than letters, digits and `-` may be present. No
/// known name uses it.
const LOOSE_NAMES: u64 = 1 << 63;

impl Head {
    /// Declares that names with other bytes than letters, digits and `-` may be present: from now on, setting or
    /// removing a field also removes those that are read like it.
    pub fn note_loose_names(&mut self) {
        self.present |= LOOSE_NAMES;
    }

    #[inline]
    pub(super) fn has_loose_names(&self) -> bool {
        self.may_have(LOOSE_NAMES)
    }

    /// Removes fields that are read like `name` but have bytes other than letters, digits and `-`.
    #[cold]
    pub(super) fn remove_spellings(&mut self, name: &[u8]) {
        let hyphenated_name = hyphenated(name);
        self.retain(|FieldRef { name: field, .. }| {
            field.len() != name.len()
                || is_plain_name(field)
                || field.eq_ignore_ascii_case(name)
                || !hyphenated(field).eq_ignore_ascii_case(&hyphenated_name)
        });
    }
}

/// A name with every byte that is not a letter or digit replaced by `-`.
#[must_use]
pub fn hyphenated(name: &[u8]) -> Vec<u8> {
    name.iter().map(|byte| if byte.is_ascii_alphanumeric() { *byte } else { b'-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadyFields;

    const NAMES: [&[u8]; 6] = [b"X-User", b"x_user", b"X.USER", b"X-Users", b"X_Other", b"XUser"];

    fn head(loose: bool) -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", b"/");
        NAMES.iter().for_each(|name| head.append(name, b"said"));
        if loose {
            head.note_loose_names();
        }
        head
    }

    fn names(head: &Head) -> Vec<String> {
        head.fields().map(|field| String::from_utf8_lossy(field.name).into_owned()).collect()
    }

    #[test]
    fn editing_a_field_edits_its_other_spellings_too() {
        let others = ["X-Users", "X_Other", "XUser"];
        let mut removed = head(true);
        removed.remove(b"X-User");
        assert_eq!(names(&removed), others);
        let mut set = head(true);
        set.set(b"x-user", b"a");
        assert_eq!(names(&set), ["x-user", "X-Users", "X_Other", "XUser"]);
        let mut ready = head(true);
        ready.set_ready(&ReadyFields::new([(&b"x-user"[..], &b"a"[..])]));
        assert_eq!(names(&ready), ["x-user", "X-Users", "X_Other", "XUser"]);
        let mut copied = Head::new();
        copied.start_request(b"GET", b"/");
        copied.copy_fields(&head(true), |_| true);
        copied.remove(b"X-USER");
        assert_eq!(names(&copied), others);
    }

    #[test]
    fn a_name_set_with_an_underscore_is_kept_and_replaces_other_spellings() {
        let mut set = head(true);
        set.set(b"X_User", b"a");
        assert_eq!(names(&set), ["X-User", "X_User", "X-Users", "X_Other", "XUser"]);
        assert_eq!(set.named(b"x_user"), Some(&b"a"[..]));
    }

    #[test]
    fn a_head_with_plain_names_is_not_searched() {
        let mut removed = head(false);
        removed.remove(b"X-User");
        assert_eq!(names(&removed), ["x_user", "X.USER", "X-Users", "X_Other", "XUser"]);
        let mut cleared = head(true);
        cleared.start_request(b"GET", b"/");
        assert!(!cleared.has_loose_names());
    }
}
