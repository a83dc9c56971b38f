package main

// This file owns the group `network`: whole bodies and their throughput through a relay that loses, holds back and delays datagrams.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"fairway.dev/conformance/http3/backend"
	"fairway.dev/conformance/http3/peer"
	"fairway.dev/conformance/http3/relay"
)

// transferTime bounds a download or an upload.
const transferTime = 60 * time.Second

// condition is a network, and the size of a download and of an upload through it.
type condition struct {
	name    string
	network relay.Network
	size    int64
}

// conditions are the rows of the group. Sizes are such that a transfer takes at least some round trips and at most some seconds.
func conditions() []condition {
	const oneWay = 20 * time.Millisecond
	// 100 Mbit/s, with a queue of half the data in flight during 40 ms.
	const rate, queue = 12_500_000, 256 << 10
	reordered := relay.Network{Held: 0.05, HeldFor: 8, HeldAtMost: 10 * time.Millisecond}
	return []condition{
		{"no loss", relay.Network{}, 16 << 20},
		{"1 % loss", relay.Network{Loss: 0.01}, 16 << 20},
		{"5 % loss", relay.Network{Loss: 0.05}, 8 << 20},
		{"5 % held back by 8 datagrams", reordered, 16 << 20},
		{"another port each 500 datagrams", relay.Network{RebindEvery: 500}, 16 << 20},
		{"delay of 20 ms", relay.Network{Delay: oneWay}, 16 << 20},
		{"delay of 20 ms, 100 Mbit/s", relay.Network{Delay: oneWay, Rate: rate, Queue: queue}, 8 << 20},
		{"delay of 20 ms, 1 % loss", relay.Network{Delay: oneWay, Loss: 0.01}, 1 << 20},
	}
}

// measures run one after another on each connection.
var measures = [...]string{"download", "upload", fmt.Sprint(streamsAtOnce, " requests at once")}

// passage is the outcome of one connection: the seconds and the error of each measure, and the counts of the relay.
type passage struct {
	seconds  [len(measures)]float64
	problems [len(measures)]error
	counts   relay.Counts
}

// network runs each condition in blocks. In a block Fairway and quic-go's server get the same seed, one after the other; in the next
// block the other one is first.
func network(lab *laboratory) error {
	var rival *peer.Process
	if lab.chosen.peer == "fairway" {
		started, err := peer.StartQUICGo(lab.plan)
		if err != nil {
			return err
		}
		defer started.Kill()
		rival = started
	}
	fmt.Printf("network: -seed %d repeats what the relay decides\n", lab.chosen.seed)
	lab.results.Seed, lab.results.Blocks = lab.chosen.seed, lab.chosen.blocks
	for _, one := range conditions() {
		if lab.skips(one.name) {
			continue
		}
		if err := lab.compare(one, rival); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// compare runs the blocks of a condition, and notes a case for each measure. A rival is measured and not judged.
func (lab *laboratory) compare(condition condition, rival *peer.Process) error {
	var tested, others []passage
	for block := range lab.chosen.blocks {
		seed := lab.chosen.seed + uint64(block)
		runs := []func() error{
			func() error { return lab.pass(condition, lab.process, seed, &tested) },
			func() error {
				if rival == nil {
					return nil
				}
				return lab.pass(condition, rival, seed, &others)
			},
		}
		if block%2 == 1 {
			slices.Reverse(runs)
		}
		for _, run := range runs {
			if err := run(); err != nil {
				return err
			}
		}
	}
	// A server that fails may have sent too little for the relay to do anything.
	if failed(tested) == 0 {
		if err := condition.checkRelay(tested); err != nil {
			return err
		}
	}
	for measure, name := range measures {
		found := result{Group: "network", Area: name, Name: condition.name, Rule: "RFC 9000, RFC 9002", Got: "all whole"}
		for block, one := range tested {
			found.Seconds += one.seconds[measure]
			if err := one.problems[measure]; err != nil {
				found.Got = "not all whole"
				found.Problems = append(found.Problems, fmt.Sprintf("block %d: %v", block+1, err))
			}
		}
		if err := lab.add(found, len(found.Problems) > 0); err != nil {
			return err
		}
	}
	if rival == nil {
		return nil
	}
	found := newThroughput(condition, tested, others)
	lab.results.Throughputs = append(lab.results.Throughputs, found)
	fmt.Println(found)
	return nil
}

// checkRelay reports whether the relay has done its part.
func (condition condition) checkRelay(passages []passage) error {
	counts := sum(passages)
	network := condition.network
	switch {
	case counts.Passed == 0:
		return errors.New("nothing went through the relay")
	case (network.Loss > 0) != (counts.Lost > 0):
		return fmt.Errorf("the relay has lost %d of %d datagrams", counts.Lost, counts.Passed)
	case (network.Held > 0) != (counts.HeldBack > 0):
		return fmt.Errorf("the relay has held back %d of %d datagrams", counts.HeldBack, counts.Passed)
	case (network.RebindEvery > 0) != (counts.Rebound > 0):
		return fmt.Errorf("the relay has taken another port %d times", counts.Rebound)
	}
	return nil
}

func sum(passages []passage) (all relay.Counts) {
	for _, one := range passages {
		all.Passed += one.counts.Passed
		all.Lost += one.counts.Lost
		all.HeldBack += one.counts.HeldBack
		all.Full += one.counts.Full
		all.TooLong += one.counts.TooLong
		all.Rebound += one.counts.Rebound
	}
	return all
}

// pass does all measures on one connection through a relay of its own.
func (lab *laboratory) pass(condition condition, server *peer.Process, seed uint64, into *[]passage) error {
	between, err := relay.Start(server.Address, condition.network, seed)
	if err != nil {
		return err
	}
	defer between.Close()
	var found passage
	defer func() {
		found.counts = between.Counts()
		*into = append(*into, found)
	}()
	client, err := lab.connectTo(between.Address(), peer.PlainHost, lab.tlsFor(peer.PlainHost))
	if err != nil {
		for measure := range measures {
			found.problems[measure] = fmt.Errorf("no connection: %w", err)
		}
		return nil
	}
	defer client.end()
	body, err := io.ReadAll(backend.Pattern(condition.size))
	if err != nil {
		return err
	}
	hash, _, err := backend.Hash(bytes.NewReader(body))
	if err != nil {
		return err
	}
	for measure, run := range [len(measures)]func() error{
		func() error { return client.download(condition.size, hash) },
		func() error { return client.upload(body, hash) },
		func() error { return manyStreams(client) },
	} {
		began := time.Now()
		found.problems[measure] = run()
		found.seconds[measure] = time.Since(began).Seconds()
	}
	return nil
}

// download takes a body whose hash must be the right one.
func (client *client) download(size int64, hash string) error {
	ctx, cancel := context.WithTimeout(context.Background(), transferTime)
	defer cancel()
	request := client.request(ctx, http.MethodPost, "/body", http.NoBody)
	request.Header.Set(backend.SizeHeader, strconv.FormatInt(size, 10))
	request.Header.Set("X-Known-Length", "1")
	response, err := client.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got, length, err := backend.Hash(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || got != hash) {
		err = fmt.Errorf("status %d, %d bytes came, and they are others", response.StatusCode, length)
	}
	return err
}

// upload sends a body, of which the endpoint must see the right hash.
func (client *client) upload(body []byte, hash string) error {
	ctx, cancel := context.WithTimeout(context.Background(), transferTime)
	defer cancel()
	request := client.request(ctx, http.MethodPost, "/body", bytes.NewReader(body))
	response, _, err := client.exchange(request)
	if err == nil && (response.StatusCode != http.StatusOK || response.Header.Get(backend.HashHeader) != hash) {
		err = fmt.Errorf("status %d, the endpoint got %s bytes, and they are others", response.StatusCode, response.Header.Get(backend.LengthHeader))
	}
	return err
}
