package tree

import "math"

// Confidence is how often a sampler that is right is within its interval.
const Confidence = 0.999

// Interval is the range in which a count of `trials` with the probability `ratio` lies with the Confidence, by the exact distribution.
func Interval(trials int, ratio float64) (low, high int) {
	if ratio <= 0 || trials == 0 {
		return 0, 0
	}
	if ratio >= 1 {
		return trials, trials
	}
	tail := (1 - Confidence) / 2
	low, high = 0, trials
	var below float64
	for count := 0; count <= trials; count++ {
		at := below + probability(trials, count, ratio)
		if below <= tail && at > tail {
			low = count
		}
		if at >= 1-tail {
			high = count
			break
		}
		below = at
	}
	return low, high
}

// probability is that of exactly `count` of `trials`.
func probability(trials, count int, ratio float64) float64 {
	factorial := func(number int) float64 {
		value, _ := math.Lgamma(float64(number) + 1)
		return value
	}
	ways := factorial(trials) - factorial(count) - factorial(trials-count)
	return math.Exp(ways + float64(count)*math.Log(ratio) + float64(trials-count)*math.Log1p(-ratio))
}
