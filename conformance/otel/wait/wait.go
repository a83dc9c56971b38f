// Package wait owns how the program waits for conditions and finds free ports.
package wait

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// interval is how often a condition is looked at.
const interval = 20 * time.Millisecond

// ErrEnded means that the program that was waited for has ended.
var ErrEnded = errors.New("the process ended before it was ready")

// Until polls a condition. It returns whether the condition held within the limit.
func Until(limit time.Duration, holds func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(interval) {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// Listening waits until something accepts connections at the address, or the process behind `ended` has ended.
func Listening(address string, ended <-chan struct{}, limit time.Duration) error {
	isGone := false
	found := Until(limit, func() bool {
		select {
		case <-ended:
			isGone = true
			return true
		default:
		}
		connection, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false
		}
		connection.Close()
		return true
	})
	switch {
	case isGone:
		return ErrEnded
	case !found:
		return fmt.Errorf("nothing listens on %s after %s", address, limit)
	}
	return nil
}

// FreeAddress is an address of the loopback on which nothing listened a moment ago. Its port is below those that the kernel gives to
// connections, so that it stays free while what listens there restarts.
func FreeAddress() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		listener, err := net.Listen("tcp", address)
		if err == nil {
			listener.Close()
			return address
		}
	}
}
