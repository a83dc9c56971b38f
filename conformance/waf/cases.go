package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	crstests "github.com/corazawaf/coraza-coreruleset/v4/tests"
	"gopkg.in/yaml.v3"
)

// file is a file of the Core Rule Set's regression tests.
type file struct {
	RuleID int `yaml:"rule_id"`
	Tests  []struct {
		ID          int    `yaml:"test_id"`
		Description string `yaml:"desc"`
		Stages      []struct {
			Input  input  `yaml:"input"`
			Output output `yaml:"output"`
		} `yaml:"stages"`
	} `yaml:"tests"`
}

type input struct {
	Method         *string   `yaml:"method"`
	URI            *string   `yaml:"uri"`
	Version        *string   `yaml:"version"`
	Headers        yaml.Node `yaml:"headers"`
	Data           *string   `yaml:"data"`
	EncodedRequest string    `yaml:"encoded_request"`
	Complete       *bool     `yaml:"autocomplete_headers"`
}

type output struct {
	Status int `yaml:"status"`
	Log    struct {
		Expect   []int `yaml:"expect_ids"`
		NoExpect []int `yaml:"no_expect_ids"`
	} `yaml:"log"`
}

// testCase is one stage of a test: the bytes of a request, and what the Core Rule Set's authors expect of it.
type testCase struct {
	ID       string // RULE-TEST, and -STAGE for further stages
	Raw      []byte
	Expected output
}

func loadCases(filter *regexp.Regexp) ([]testCase, error) {
	var cases []testCase
	err := fs.WalkDir(crstests.FS, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		content, err := fs.ReadFile(crstests.FS, path)
		if err != nil {
			return err
		}
		var read file
		if err := yaml.Unmarshal(content, &read); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, test := range read.Tests {
			for i, stage := range test.Stages {
				id := fmt.Sprintf("%d-%d", read.RuleID, test.ID)
				if i > 0 {
					id += "-" + strconv.Itoa(i+1)
				}
				if !filter.MatchString(id) {
					continue
				}
				raw, err := stage.Input.raw()
				if err != nil {
					return fmt.Errorf("%s: test %s: %w", path, id, err)
				}
				cases = append(cases, testCase{id, raw, stage.Output})
			}
		}
		return nil
	})
	if err == nil && len(cases) == 0 {
		err = errors.New("no test has such an id")
	}
	return cases, err
}

func or(value *string, fallback string) string {
	if value == nil {
		return fallback
	}
	return *value
}

var methodsWithBody = []string{"POST", "PUT", "PATCH", "DELETE"}

// raw is the request as the Core Rule Set's own runner, go-ftw, would send it.
func (in *input) raw() ([]byte, error) {
	if in.EncodedRequest != "" {
		return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(in.EncodedRequest), ""))
	}
	list, err := in.headers()
	if err != nil {
		return nil, err
	}
	method, complete := or(in.Method, "GET"), in.Complete == nil || *in.Complete
	data := expand(or(in.Data, ""))
	if data != "" && complete {
		if !has(list, "content-type") {
			list = append(list, header{"Content-Type", "application/x-www-form-urlencoded"})
		}
		if slices.ContainsFunc(list, func(h header) bool {
			return strings.EqualFold(h.Name, "content-type") && h.Value == "application/x-www-form-urlencoded"
		}) {
			data = encodeForm(data)
		}
	}
	if slices.ContainsFunc(list, func(h header) bool {
		return strings.EqualFold(h.Name, "content-type") && strings.Contains(h.Value, "multipart/form-data;")
	}) {
		data = strings.ReplaceAll(data, "\n", "\r\n")
	}
	if complete {
		if !has(list, "connection") {
			list = append(list, header{"Connection", "close"})
		}
		if !has(list, "content-length") && (data != "" || slices.Contains(methodsWithBody, method)) {
			list = append(list, header{"Content-Length", strconv.Itoa(len(data))})
		}
	}
	var raw bytes.Buffer
	fmt.Fprintf(&raw, "%s %s %s\r\n", method, or(in.URI, "/"), or(in.Version, "HTTP/1.1"))
	for _, each := range list {
		fmt.Fprintf(&raw, "%s: %s\r\n", each.Name, each.Value)
	}
	raw.WriteString("\r\n" + data)
	return raw.Bytes(), nil
}

// headers are those of the test in its order, repeated ones included.
func (in *input) headers() ([]header, error) {
	var list []header
	switch in.Headers.Kind {
	case 0:
	case yaml.MappingNode:
		for i := 0; i+1 < len(in.Headers.Content); i += 2 {
			list = append(list, header{in.Headers.Content[i].Value, in.Headers.Content[i+1].Value})
		}
	default:
		return nil, errors.New("headers that are no mapping")
	}
	return list, nil
}

func has(list []header, name string) bool {
	return slices.ContainsFunc(list, func(h header) bool { return strings.EqualFold(h.Name, name) })
}

// expand does what `{{ "1" | repeat 152 }}` says. Data that only looks like a template stays as it is.
func expand(data string) string {
	parsed, err := template.New("data").Funcs(template.FuncMap{
		"repeat": func(count int, s string) string { return strings.Repeat(s, count) },
	}).Parse(data)
	if err != nil {
		return data
	}
	var out strings.Builder
	if parsed.Execute(&out, nil) != nil {
		return data
	}
	return out.String()
}

// encodeForm encodes the values of a form that is written without encoding.
func encodeForm(data string) string {
	if decoded, err := url.QueryUnescape(data); err != nil || decoded != data {
		return data
	}
	var pairs []string
	for _, pair := range strings.Split(strings.TrimSuffix(data, "&"), "&") {
		key, value, has := strings.Cut(pair, "=")
		pair = url.QueryEscape(key)
		if has {
			pair += "=" + url.QueryEscape(value)
		}
		pairs = append(pairs, pair)
	}
	return strings.Join(pairs, "&")
}
