//! The patterns that most rewrites have: a literal, a slash or none, and everything behind it as a group. Their groups are found
//! by comparing, which costs a tenth of what the engine does.

use regex_automata::util::primitives::NonMaxUsize;

use crate::engine::Slots;

/// Such a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    literal: Box<[u8]>,
    ignore_case: bool,
    slash: Slash,
}

/// What stands between the literal and the last group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slash {
    Nothing,
    /// `/?`
    Optional,
    /// `(/|$)`, which is the first group.
    OrEnd,
}

impl Plain {
    /// What `text` says, if it is so simple.
    pub(crate) fn of(text: &str, ignore_case: bool) -> Option<Self> {
        let text = text.strip_suffix('$').unwrap_or(text).strip_suffix("(.*)")?;
        let (literal, slash) = if let Some(literal) = text.strip_suffix("(/|$)") {
            (literal, Slash::OrEnd)
        } else if let Some(literal) = text.strip_suffix("/?") {
            (literal, Slash::Optional)
        } else {
            (text, Slash::Nothing)
        };
        let means_itself = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_');
        let is_plain = literal.bytes().all(means_itself);
        is_plain.then(|| Self { literal: literal.as_bytes().into(), ignore_case, slash })
    }

    /// Whether it matches at the start of `text`, and where its groups do; `None` leaves it to the engine, where a line feed makes
    /// a difference.
    #[inline]
    pub(crate) fn find(&self, text: &[u8], slots: &mut Slots) -> Option<bool> {
        let Some((start, rest)) = text.split_at_checked(self.literal.len()) else { return Some(false) };
        let is_same = if self.ignore_case {
            start.eq_ignore_ascii_case(&self.literal)
        } else {
            *start == *self.literal
        };
        if !is_same {
            return Some(false);
        }
        if rest.contains(&b'\n') {
            return None;
        }
        let behind = start.len() + usize::from(rest.first() == Some(&b'/'));
        let groups = match self.slash {
            Slash::Nothing => [Some((start.len(), text.len())), None],
            Slash::Optional => [Some((behind, text.len())), None],
            Slash::OrEnd if behind == start.len() && !rest.is_empty() => return Some(false),
            Slash::OrEnd => [Some((start.len(), behind)), Some((behind, text.len()))],
        };
        let whole = Some((0, text.len()));
        for (at, group) in std::iter::once(whole).chain(groups).enumerate() {
            if let Some((from, to)) = group {
                slots[2 * at] = NonMaxUsize::new(from);
                slots[2 * at + 1] = NonMaxUsize::new(to);
            }
        }
        Some(true)
    }
}
