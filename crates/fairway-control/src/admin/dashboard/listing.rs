//! Pagination. Only the shown page of a long list is built.

use serde::Serialize;

use super::problem::Problem;
use super::query::Query;

/// Items per page.
const PAGE_SIZE: usize = 100;
/// Counting stops beyond this many items.
const MAX_COUNTED: usize = 10_000;

/// The shown range of a list, and links to its neighbours.
#[derive(Debug, Serialize)]
pub(super) struct Paging {
    /// `1 to 100 of 1234`.
    text: String,
    /// The parameters of the previous page.
    previous: Option<String>,
    /// The parameters of the next page.
    next: Option<String>,
}

/// The page of `all` that the parameter `page` selects.
pub(super) fn paginate<T>(all: impl Iterator<Item = T>, query: &Query) -> Result<(Vec<T>, Paging), Problem> {
    let page = query.page()?;
    let start = (page - 1).saturating_mul(PAGE_SIZE);
    let end = start.saturating_add(PAGE_SIZE);
    let (mut shown, mut seen, mut is_counted) = (Vec::new(), 0_usize, true);
    for item in all {
        if (start..end).contains(&seen) {
            shown.push(item);
        }
        seen += 1;
        if seen > end && seen > MAX_COUNTED {
            is_counted = false;
            break;
        }
    }
    if shown.is_empty() && page > 1 {
        let last = seen.div_ceil(PAGE_SIZE).max(1);
        return Err(Problem::not_found("page", format!("there is no page {page}; the last one is {last}")));
    }
    let text = match (shown.len(), is_counted) {
        (0, _) => "Nothing found".to_owned(),
        (count, true) => format!("{} to {} of {seen}", start + 1, start + count),
        (count, false) => format!("{} to {} of more than {MAX_COUNTED}", start + 1, start + count),
    };
    let paging = Paging {
        text,
        previous: (page > 1).then(|| query.with_page(page - 1)),
        next: (seen > end).then(|| query.with_page(page + 1)),
    };
    Ok((shown, paging))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(count: usize, query: &str) -> Result<(Vec<usize>, Paging), Problem> {
        paginate(0..count, &Query::parse(Some(query)))
    }

    #[test]
    fn a_page_has_a_hundred_items_and_links_to_its_neighbours() {
        let (shown, paging) = listed(250, "q=a&page=2").unwrap();
        assert_eq!((shown.len(), shown[0], paging.text.as_str()), (100, 100, "101 to 200 of 250"));
        assert_eq!(paging.previous.as_deref(), Some("q=a&page=1"));
        assert_eq!(paging.next.as_deref(), Some("q=a&page=3"));
        let (shown, paging) = listed(250, "page=3").unwrap();
        assert_eq!((shown.len(), paging.next), (50, None));
        assert_eq!(listed(100, "").unwrap().1.next, None);
        assert_eq!(listed(0, "").unwrap().1.text, "Nothing found");
    }

    #[test]
    fn a_page_after_the_last_one_is_not_found() {
        let problem = listed(250, "page=4").unwrap_err();
        assert!(problem.text.contains("page: there is no page 4; the last one is 3"), "{problem:?}");
        assert!(listed(250, "page=184467440737095516").is_err());
    }

    #[test]
    fn counting_stops_at_the_limit() {
        let mut count = 0;
        let all = (0..1_000_000).inspect(|_| count += 1);
        let (shown, paging) = paginate(all, &Query::parse(None)).unwrap();
        assert_eq!((shown.len(), paging.text.as_str()), (100, "1 to 100 of more than 10000"));
        assert_eq!(count, MAX_COUNTED + 1);
        let (shown, _) = paginate(0..1_000_000, &Query::parse(Some("page=500"))).unwrap();
        assert_eq!(shown[0], 49_900);
    }
}
