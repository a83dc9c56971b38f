//! The insertion order that fills the nodes of a persistent map.

/// Every other item first, then the items between them.
///
/// A leaf of `imbl` holds 16 entries and splits in the middle. Keys inserted in order leave eight in each leaf; this order then
/// adds the eight between them.
pub fn filling<T>(sorted: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let (mut first, mut between) = (Vec::new(), Vec::new());
    for (place, item) in sorted.into_iter().enumerate() {
        match place % 2 {
            0 => first.push(item),
            _ => between.push(item),
        }
    }
    first.into_iter().chain(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_items_appear_once_and_neighbours_apart() {
        assert_eq!(filling(0..7).collect::<Vec<_>>(), [0, 2, 4, 6, 1, 3, 5]);
        assert_eq!(filling(["one"]).collect::<Vec<_>>(), ["one"]);
        assert_eq!(filling(Vec::<u8>::new()).count(), 0);
    }
}
