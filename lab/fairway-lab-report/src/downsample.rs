//! Fewer points for drawing, so that a report stays small: the lowest and the highest of every piece of the x axis
//! remain, in their order, so no spike is lost. Never touches what tables say.

/// A point of a plot.
pub(super) type Point = (f64, f64);

/// About `limit` points at most with the same outline. Points that cannot be drawn are omitted.
pub(super) fn thin(points: &[Point], limit: usize) -> Vec<Point> {
    let drawable: Vec<Point> =
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    let limit = limit.max(4);
    let (Some(first), Some(last)) = (drawable.first(), drawable.last()) else { return drawable };
    let width = last.0 - first.0;
    if drawable.len() <= limit || width <= 0.0 {
        return drawable.into_iter().take(limit.max(1)).collect();
    }
    let chunks = limit / 2;
    let piece_of = |x: f64| (((x - first.0) / width * chunks as f64) as usize).min(chunks - 1);
    let mut kept_points = Vec::with_capacity(limit);
    let mut rest = drawable.as_slice();
    while let Some(start) = rest.first() {
        let chunk = piece_of(start.0);
        let length = rest.iter().position(|point| piece_of(point.0) != chunk).unwrap_or(rest.len());
        extremes(&rest[..length], &mut kept_points);
        rest = &rest[length..];
    }
    kept_points
}

fn extremes(points: &[Point], extremes: &mut Vec<Point>) {
    let by_height = |a: &(usize, &Point), b: &(usize, &Point)| a.1.1.total_cmp(&b.1.1);
    let lowest = points.iter().enumerate().min_by(by_height).map(|(at, _)| at);
    let highest = points.iter().enumerate().max_by(by_height).map(|(at, _)| at);
    let (Some(lowest), Some(highest)) = (lowest, highest) else { return };
    extremes.push(points[lowest.min(highest)]);
    if lowest != highest {
        extremes.push(points[lowest.max(highest)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_spike_among_a_million_points_is_kept() {
        let mut points: Vec<Point> = (0..1_000_000).map(|at| (f64::from(at), 1.0)).collect();
        points[777_777].1 = 900.0;
        points[5].1 = f64::NAN;
        let thinned = thin(&points, 2_000);
        assert!(thinned.len() <= 2_000, "{}", thinned.len());
        assert!(thinned.contains(&(777_777.0, 900.0)));
        assert!(thinned.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn few_points_stay_as_they_are_and_none_are_no_harm() {
        assert_eq!(thin(&[(0.0, 1.0), (1.0, 2.0)], 100), [(0.0, 1.0), (1.0, 2.0)]);
        assert!(thin(&[], 100).is_empty());
        assert_eq!(thin(&[(1.0, 1.0); 50], 10).len(), 10);
    }
}
