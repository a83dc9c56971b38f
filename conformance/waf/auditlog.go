package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"fairway.dev/waf/audit"
)

// auditLog reads the lines that fairway-waf writes while the tests run.
type auditLog struct {
	file    *os.File
	reader  *bufio.Reader
	partial string
	entries map[string]audit.Entry // by the id of the test
}

func openAuditLog(path string) (*auditLog, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if _, err := opened.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	return &auditLog{file: opened, reader: bufio.NewReader(opened), entries: map[string]audit.Entry{}}, nil
}

// wait reads until every id has a line, or until no new line has arrived for a while.
func (l *auditLog) wait(ids []string, patience time.Duration) error {
	last := time.Now()
	for {
		read, err := l.read()
		if err != nil {
			return err
		}
		if read > 0 {
			last = time.Now()
		}
		missing := slices.ContainsFunc(ids, func(id string) bool {
			_, ok := l.entries[id]
			return !ok
		})
		if !missing || time.Since(last) > patience {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *auditLog) read() (int, error) {
	count := 0
	for {
		line, err := l.reader.ReadString('\n')
		l.partial += line
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, err
		}
		var entry audit.Entry
		if err := json.Unmarshal([]byte(l.partial), &entry); err != nil {
			return count, err
		}
		l.partial = ""
		count++
		// The rule of the tests says which one it is: a proxy may choose ids of its own.
		for _, rule := range entry.Rules {
			if id, ok := strings.CutPrefix(rule.Message, "conformance "); ok && rule.ID == 999001 {
				l.entries[id] = entry
			}
		}
	}
}

func (l *auditLog) verdict(id string, status int) (verdict, bool) {
	entry, ok := l.entries[id]
	rules := slices.Clone(entry.RuleIDs)
	slices.Sort(rules)
	return verdict{Status: status, Interrupted: entry.Interrupted, Rules: rules}, ok
}
