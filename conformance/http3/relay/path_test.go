package relay

import (
	"slices"
	"testing"
	"time"
)

// begin is when the tests begin; a path knows no clock.
var begin = time.Unix(0, 0)

// run sends datagrams of 1000 bytes, one each interval, and gives their numbers as they leave, with the times.
func run(path *path, count int, interval time.Duration) (left []int, at []time.Duration, fates []fate) {
	sent := map[*packet]int{}
	take := func(now time.Time) time.Time {
		due, next := path.pop(now, nil)
		for _, one := range due {
			left, at = append(left, sent[one]), append(at, one.due.Sub(begin))
		}
		return next
	}
	now := begin
	for number := range count {
		take(now)
		one := &packet{size: 1000}
		sent[one] = number
		fates = append(fates, path.take(now, one))
		now = now.Add(interval)
	}
	for next := take(now); !next.IsZero(); {
		next = take(next)
	}
	return left, at, fates
}

func upTo(count int) (all []int) {
	for number := range count {
		all = append(all, number)
	}
	return all
}

func TestDatagramsPassInOrder(t *testing.T) {
	left, at, _ := run(newPath(Network{}, 1, 0), 100, time.Millisecond)
	if !slices.Equal(left, upTo(100)) || at[99] != 99*time.Millisecond {
		t.Error(left, at)
	}
}

func TestDelayKeepsOrderAndDistance(t *testing.T) {
	left, at, _ := run(newPath(Network{Delay: 20 * time.Millisecond}, 1, 0), 100, time.Millisecond)
	if !slices.Equal(left, upTo(100)) || at[0] != 20*time.Millisecond || at[99] != 119*time.Millisecond {
		t.Error(left, at)
	}
}

func TestLossIsThatOfTheSeed(t *testing.T) {
	const count = 10_000
	lost := func(seed, stream uint64, interval time.Duration) []fate {
		_, _, fates := run(newPath(Network{Loss: 0.05, Held: 0.1, HeldFor: 2}, seed, stream), count, interval)
		return fates
	}
	one := lost(1, 0, 0)
	dropped := 0
	for _, fate := range one {
		if fate == isLost {
			dropped++
		}
	}
	if dropped < count*4/100 || dropped > count*6/100 {
		t.Errorf("%d of %d", dropped, count)
	}
	if !slices.Equal(one, lost(1, 0, time.Second)) {
		t.Error("the decisions depend on the time")
	}
	if slices.Equal(one, lost(2, 0, 0)) || slices.Equal(one, lost(1, 1, 0)) {
		t.Error("the decisions do not depend on the seed, or not on the direction")
	}
}

func TestHeldDatagramsArePassedByOthers(t *testing.T) {
	left, _, _ := run(newPath(Network{Held: 0.05, HeldFor: 8, HeldAtMost: time.Hour}, 1, 0), 1000, time.Millisecond)
	late := 0
	for place, number := range left {
		// Earlier datagrams that are held back as well move its position forward.
		if place > number+4 {
			late++
		}
	}
	if late < 20 || late > 80 {
		t.Errorf("%d are late", late)
	}
	if slices.Sort(left); !slices.Equal(left, upTo(1000)) {
		t.Error("some are missing")
	}
}

func TestHeldDatagramsLeaveWithoutOthers(t *testing.T) {
	left, at, _ := run(newPath(Network{Held: 1, HeldFor: 8, HeldAtMost: 10 * time.Millisecond}, 1, 0), 2, time.Millisecond)
	if !slices.Equal(left, upTo(2)) || at[0] != 10*time.Millisecond || at[1] != 11*time.Millisecond {
		t.Error(left, at)
	}
}

func TestBandwidthHasABoundedQueue(t *testing.T) {
	// 10 datagrams fit into the queue, and one leaves each millisecond.
	left, at, fates := run(newPath(Network{Rate: 1_000_000, Queue: 10_000}, 1, 0), 30, 0)
	if !slices.Equal(left, upTo(10)) || at[9] != 10*time.Millisecond || fates[9] != passes || fates[10] != findsNoRoom {
		t.Error(left, at, fates)
	}
	left, _, _ = run(newPath(Network{Rate: 1_000_000, Queue: 10_000}, 1, 0), 1000, time.Millisecond)
	if !slices.Equal(left, upTo(1000)) {
		t.Error("a datagram is dropped though the bandwidth suffices")
	}
}

func TestPathsAreBounded(t *testing.T) {
	path := newPath(Network{Delay: time.Hour}, 1, 0)
	for range maxQueued {
		if path.take(begin, &packet{}) != passes {
			t.Fatal("too early")
		}
	}
	if path.take(begin, &packet{}) != findsNoRoom {
		t.Error("a path holds any number")
	}
}
