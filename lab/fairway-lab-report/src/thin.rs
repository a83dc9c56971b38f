//! Fewer points for drawing, so that a report stays small: the lowest and the highest of every piece of the x axis
//! remain, in their order, so no spike is lost. Never touches what tables say.

/// A point of a plot.
pub(super) type Point = (f64, f64);

/// About `most` points at most with the same outline. Points that cannot be drawn are omitted.
pub(super) fn thin(points: &[Point], most: usize) -> Vec<Point> {
    let drawable: Vec<Point> =
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    let most = most.max(4);
    let (Some(first), Some(last)) = (drawable.first(), drawable.last()) else { return drawable };
    let width = last.0 - first.0;
    if drawable.len() <= most || width <= 0.0 {
        return drawable.into_iter().take(most.max(1)).collect();
    }
    let pieces = most / 2;
    let piece_of = |x: f64| (((x - first.0) / width * pieces as f64) as usize).min(pieces - 1);
    let mut kept = Vec::with_capacity(most);
    let mut rest = drawable.as_slice();
    while let Some(start) = rest.first() {
        let piece = piece_of(start.0);
        let length = rest.iter().position(|point| piece_of(point.0) != piece).unwrap_or(rest.len());
        extremes(&rest[..length], &mut kept);
        rest = &rest[length..];
    }
    kept
}

fn extremes(points: &[Point], kept: &mut Vec<Point>) {
    let by_height = |a: &(usize, &Point), b: &(usize, &Point)| a.1.1.total_cmp(&b.1.1);
    let lowest = points.iter().enumerate().min_by(by_height).map(|(at, _)| at);
    let highest = points.iter().enumerate().max_by(by_height).map(|(at, _)| at);
    let (Some(lowest), Some(highest)) = (lowest, highest) else { return };
    kept.push(points[lowest.min(highest)]);
    if lowest != highest {
        kept.push(points[lowest.max(highest)]);
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
        let kept = thin(&points, 2_000);
        assert!(kept.len() <= 2_000, "{}", kept.len());
        assert!(kept.contains(&(777_777.0, 900.0)));
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn few_points_stay_as_they_are_and_none_are_no_harm() {
        assert_eq!(thin(&[(0.0, 1.0), (1.0, 2.0)], 100), [(0.0, 1.0), (1.0, 2.0)]);
        assert!(thin(&[], 100).is_empty());
        assert_eq!(thin(&[(1.0, 1.0); 50], 10).len(), 10);
    }
}
