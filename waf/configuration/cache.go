package configuration

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxCompilations is how many configurations are compiled at once, so that requests of the others are still served.
const maxCompilations = 1

// Observer counts the events of a cache.
type Observer interface {
	Compiled(took time.Duration, err error)
}

// Cache has the WAFs of the configurations that were used last. A configuration is compiled once, however many streams wait for it, and one
// that is invalid is remembered too, so that it is logged once.
type Cache struct {
	limits   Limits
	capacity int
	log      *slog.Logger
	observer Observer
	places   chan struct{}

	mutex   sync.Mutex
	entries map[Configuration]*list.Element
	recent  *list.List // of *entry, the latest first
}

type entry struct {
	key   Configuration
	ready chan struct{} // closed once waf or err is set
	waf   *WAF
	err   error
}

// NewCache makes a cache for at most `capacity` configurations.
func NewCache(capacity int, limits Limits, log *slog.Logger, observer Observer) *Cache {
	return &Cache{
		limits: limits, capacity: capacity, log: log, observer: observer, places: make(chan struct{}, maxCompilations),
		entries: map[Configuration]*list.Element{}, recent: list.New(),
	}
}

// WAF is the compiled configuration; `name` is what the log calls it.
func (c *Cache) WAF(ctx context.Context, key Configuration, name string) (*WAF, error) {
	e := c.entry(key, name)
	select {
	case <-e.ready:
		return e.waf, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Len is the number of cached configurations.
func (c *Cache) Len() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.recent.Len()
}

func (c *Cache) entry(key Configuration, name string) *entry {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if element, ok := c.entries[key]; ok {
		c.recent.MoveToFront(element)
		return element.Value.(*entry)
	}
	e := &entry{key: key, ready: make(chan struct{})}
	c.entries[key] = c.recent.PushFront(e)
	for c.recent.Len() > c.capacity {
		oldest := c.recent.Remove(c.recent.Back()).(*entry)
		delete(c.entries, oldest.key)
		go func() {
			<-oldest.ready
			if oldest.waf != nil {
				oldest.waf.Close()
			}
		}()
	}
	go c.compile(e, name)
	return e
}

func (c *Cache) compile(e *entry, name string) {
	c.places <- struct{}{}
	defer func() { <-c.places }()
	begin := time.Now()
	e.waf, e.err = Compile(e.key, c.limits)
	took := time.Since(begin)
	c.observer.Compiled(took, e.err)
	if e.err != nil {
		c.log.Error("a configuration is invalid; its requests fail", "configuration", name, "error", e.err)
	} else {
		c.log.Info("compiled a configuration", "configuration", name, "mode", e.waf.Mode, "core_rule_set", e.key.CoreRuleSet,
			"directives_bytes", len(e.key.Directives), "took", took.Round(time.Millisecond))
	}
	close(e.ready)
}
