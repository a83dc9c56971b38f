// Package wait owns how the program waits for conditions and finds free ports.
package wait

import (
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// interval is how often a condition is looked at.
const interval = 10 * time.Millisecond

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

// FreePort is a port of the loopback on which nothing listened a moment ago. It is below those that the kernel gives to connections.
func FreePort() int {
	for {
		port := 10_000 + rand.IntN(20_000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			listener.Close()
			return port
		}
	}
}
