//! A list that is nearly always empty, as large as a pointer.

use std::ops::Deref;

/// A list that is usually empty.
#[derive(Clone, Debug)]
#[allow(clippy::box_collection, reason = "a boxed slice has two words, and hosts are laid out word by word")]
pub(crate) struct RareList<T>(Option<Box<Vec<T>>>);

impl<T> From<Vec<T>> for RareList<T> {
    fn from(mut list: Vec<T>) -> Self {
        list.shrink_to_fit();
        Self((!list.is_empty()).then(|| Box::new(list)))
    }
}

impl<T> Deref for RareList<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}
