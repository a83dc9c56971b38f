//! What need not be written, because it is as usual.

/// For `skip_serializing_if`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
