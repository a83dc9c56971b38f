//! Fields that `Connection` nominates (RFC 9110 §7.6.1): they are no longer part of the head and are never forwarded,
//! but code that needs the request as received can read them. Removing or replacing a field affects nominated ones,
//! too.

use std::iter;

use super::{FieldRef, Head};

impl Head {
    /// Removes the fields for which `is_nominated` returns true from the head and keeps them.
    pub(crate) fn nominate(&mut self, is_nominated: impl Fn(FieldRef<'_>) -> bool) {
        let bytes = &self.bytes;
        let mut nominated =
            self.fields.extract_if(.., |field| is_nominated(field.field_ref(bytes))).peekable();
        if nominated.peek().is_some() {
            self.nominated.get_or_insert_default().extend(nominated);
        }
    }

    /// All fields in the order received, including those that `Connection` nominated.
    pub fn received_fields(&self) -> impl Iterator<Item = FieldRef<'_>> {
        let mut fields = self.fields.iter().peekable();
        let mut nominated = self.nominated.iter().flat_map(|nominated| nominated.iter()).peekable();
        iter::from_fn(move || {
            let field = match (nominated.peek(), fields.peek()) {
                (Some(nominated), Some(field)) if nominated.start > field.start => fields.next(),
                (Some(_), _) => nominated.next(),
                (None, _) => fields.next(),
            };
            field.map(|field| field.field_ref(&self.bytes))
        })
    }

    #[inline]
    pub(super) fn has_nominated(&self) -> bool {
        self.nominated.is_some()
    }

    /// Removes the nominated fields of this name.
    #[cold]
    pub(super) fn forget_nominated(&mut self, name: &[u8]) {
        let bytes = &self.bytes;
        if let Some(nominated) = &mut self.nominated {
            nominated.retain(|field| !field.name(bytes).eq_ignore_ascii_case(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Known, ReadyFields};

    fn head() -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", b"/");
        for (name, value) in [("A", "1"), ("Referer", "2"), ("B", "3"), ("a", "4"), ("C", "5")] {
            head.append(name.as_bytes(), value.as_bytes());
        }
        head.nominate(|field| field.name.eq_ignore_ascii_case(b"a") || field.name == b"Referer");
        head
    }

    fn values<'a>(fields: impl Iterator<Item = FieldRef<'a>>) -> String {
        fields.map(|field| String::from_utf8_lossy(field.value).into_owned()).collect()
    }

    #[test]
    fn nominated_fields_are_received_ones_in_their_order() {
        let head = head();
        assert_eq!((values(head.fields()), values(head.received_fields())), ("35".into(), "12345".into()));
        assert_eq!((head.named(b"A"), head.first(Known::Referer), head.field_count()), (None, None, 2));
        let mut copied = Head::new();
        copied.start_request(b"GET", b"/");
        copied.copy_fields(&head, |_| true);
        assert_eq!(values(copied.received_fields()), "35");
    }

    #[test]
    fn editing_a_field_edits_nominated_fields_too() {
        let edited = |edit: fn(&mut Head)| {
            let mut head = head();
            edit(&mut head);
            values(head.received_fields())
        };
        assert_eq!(edited(|head| head.set(b"a", b"6")), "2356");
        assert_eq!(edited(|head| head.set(b"referer", b"6")), "13456");
        assert_eq!(edited(|head| head.set_ready(&ReadyFields::new([(&b"a"[..], &b"6"[..])]))), "2356");
        assert_eq!(edited(|head| head.append(b"a", b"6")), "123456");
        assert_eq!(edited(|head| head.remove(b"A")), "235");
        assert_eq!(edited(|head| head.remove(b"referer")), "1345");
        assert_eq!(edited(|head| head.remove_known(Known::Referer)), "1345");
        assert_eq!(edited(|head| head.retain(|field| field.value > b"3")), "45");
        assert_eq!(edited(|head| head.start_request(b"GET", b"/")), "");
    }
}
