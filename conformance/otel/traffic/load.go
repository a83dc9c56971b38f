package traffic

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Timed is a request of a steady load.
type Timed struct {
	*Outcome
	// Due is when it was to be sent.
	Due time.Time
}

// Latency is how long the response of the request that was due then took.
func (timed Timed) Latency() time.Duration { return timed.Done.Sub(timed.Due) }

// Load sends requests at a steady rate, whether or not earlier ones have completed.
type Load struct {
	stop   chan struct{}
	ended  sync.WaitGroup
	mutex  sync.Mutex
	timed  []Timed
	refuse int
}

// maxLate bounds the requests that are under way; a request beyond it is not sent, and counted as refused.
const maxLate = 2_000

// StartLoad begins a load. `next` makes the request with a number.
func (clients *Clients) StartLoad(perSecond int, next func(number int) *Case) *Load {
	return startLoad(perSecond, func(number int) *Outcome { return clients.Send(next(number)) })
}

// StartControl begins a load of the same requests for an endpoint itself, past Fairway. Its latencies say what the machine does to any
// request.
func StartControl(address string, perSecond int) *Load {
	client := newClient(address, false)
	return startLoad(perSecond, func(int) *Outcome {
		outcome := &Outcome{RPC: -1, Sent: time.Now()}
		var response *http.Response
		if response, outcome.Err = client.Get("http://control.test/control"); outcome.Err == nil {
			_, outcome.Err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			outcome.Status = response.StatusCode
		}
		outcome.Done = time.Now()
		return outcome
	})
}

func startLoad(perSecond int, send func(number int) *Outcome) *Load {
	load := &Load{stop: make(chan struct{})}
	places := make(chan struct{}, maxLate)
	began := time.Now()
	load.ended.Go(func() {
		for number := 0; ; number++ {
			due := began.Add(time.Duration(number) * time.Second / time.Duration(perSecond))
			select {
			case <-load.stop:
				return
			case <-time.After(time.Until(due)):
			}
			select {
			case places <- struct{}{}:
			default:
				load.mutex.Lock()
				load.refuse++
				load.mutex.Unlock()
				continue
			}
			load.ended.Go(func() {
				timed := Timed{Outcome: send(number), Due: due}
				<-places
				load.mutex.Lock()
				load.timed = append(load.timed, timed)
				load.mutex.Unlock()
			})
		}
	})
	return load
}

// Stop ends the load, waits for requests in flight, and returns the outcomes of all requests, and the number of unsent ones.
func (load *Load) Stop() (timed []Timed, refused int) {
	close(load.stop)
	load.ended.Wait()
	return load.timed, load.refuse
}

// Quantile is the latency that the given share of requests does not exceed.
func Quantile(timed []Timed, share float64) time.Duration {
	if len(timed) == 0 {
		return 0
	}
	latencies := make([]time.Duration, 0, len(timed))
	for _, one := range timed {
		latencies = append(latencies, one.Latency())
	}
	slices.Sort(latencies)
	return latencies[min(len(latencies)-1, int(share*float64(len(latencies))))]
}
