package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Every bound of a schema is broken in a policy that is good otherwise: the schema says how.

// path leads to a value: names of fields, and 0 for the first item of a list.
type path []any

// String is the path as the API server writes it.
func (p path) String() string {
	var text strings.Builder
	for _, step := range p {
		if name, is := step.(string); is {
			if text.Len() > 0 {
				text.WriteByte('.')
			}
			text.WriteString(name)
		} else {
			fmt.Fprintf(&text, "[%v]", step)
		}
	}
	return text.String()
}

func (p path) to(step any) path { return append(slices.Clone(p), step) }

// in is the value in an object, and whether there is one.
func (p path) in(object any) (any, bool) {
	for _, step := range p {
		found := false
		switch of := object.(type) {
		case map[string]any:
			name, _ := step.(string)
			object, found = of[name]
		case []any:
			if place, is := step.(int); is && place < len(of) {
				object, found = of[place], true
			}
		}
		if !found {
			return nil, false
		}
	}
	return object, true
}

// with is an object with another value, or without any where that is nil.
func (p path) with(object map[string]any, value any) map[string]any {
	changed := runtime.DeepCopyJSON(object)
	last := len(p) - 1
	holder, _ := p[:last].in(changed)
	switch of := holder.(type) {
	case map[string]any:
		name := p[last].(string)
		if value == nil {
			delete(of, name)
		} else {
			of[name] = value
		}
	case []any:
		of[p[last].(int)] = value
	}
	return changed
}

// mistake is a bound of a schema, and how to break it.
type mistake struct {
	at path
	// says is the message of the API server.
	says string
	// spoil makes a bad value of a good one; nil for none at all.
	spoil func(good any) any
}

// mistakes are those in a value of a schema.
func (s *stage) mistakes(schema map[string]any, at path) []mistake {
	s.Helper()
	var found []mistake
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		switch keyword {
		case "properties", "items", "required":
			// Below.
		case "additionalProperties", "anyOf", "description", "format", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
			"x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations":
			// Bounds nothing, or has objects in policies/refused.yaml.
		default:
			says, spoil := spoiling(keyword, schema)
			if spoil == nil {
				s.Errorf("%s has a bound %s, and the test does not know how to break it", at, keyword)
				continue
			}
			found = append(found, mistake{at, says, spoil})
		}
	}
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) {
			found = append(found, mistake{at.to(name), "Required value", always(nil)})
		}
		found = append(found, s.mistakes(properties[name].(map[string]any), at.to(name))...)
	}
	if items, is := schema["items"].(map[string]any); is {
		found = append(found, s.mistakes(items, at.to(0))...)
	}
	return found
}

func always(bad any) func(any) any { return func(any) any { return bad } }

// spoiling is what the API server says when a keyword of the schema is broken, and how to break it; nil when that is not known.
func spoiling(keyword string, schema map[string]any) (says string, spoil func(good any) any) {
	if keyword == "type" {
		if schema["type"] == "string" {
			return "must be of type string", always(int64(7))
		}
		return fmt.Sprintf("must be of type %v", schema["type"]), always("text")
	}
	limit, _ := schema[keyword].(int64)
	switch keyword {
	case "enum":
		return "Unsupported value", always("something else")
	case "pattern":
		// No pattern of a policy matches a line feed.
		return "should match", always("\n")
	case "minimum":
		return "should be greater than or equal to", always(limit - 1)
	case "maximum":
		return "should be less than or equal to", always(limit + 1)
	case "minLength":
		return "should be at least", always(strings.Repeat("1", int(limit)-1))
	case "maxLength":
		return "Too long", always(strings.Repeat("1", int(limit)+1))
	case "minItems":
		return "should have at least", func(good any) any { return good.([]any)[:limit-1] }
	case "maxItems":
		return "Too many", func(good any) any { return slices.Repeat(good.([]any)[:1], int(limit)+1) }
	case "maxProperties":
		return "Too many", func(good any) any {
			many := maps.Clone(good.(map[string]any))
			for name, value := range good.(map[string]any) {
				for i := range limit {
					many[fmt.Sprintf("%s%d", name, i)] = value
				}
			}
			return many
		}
	case "minProperties":
		return "should have at least", func(good any) any { return onlyRequired(good.(map[string]any), schema) }
	}
	return "", nil
}

// onlyRequired is an object without the fields that it may lack.
func onlyRequired(good, schema map[string]any) map[string]any {
	required, _ := schema["required"].([]any)
	left := map[string]any{}
	for name, value := range good {
		if slices.Contains(required, any(name)) {
			left[name] = value
		}
	}
	return left
}

// refusesValues breaks every bound in one of the examples, and says how many there are. Each field must be in an example.
func (s *stage) refusesValues(kind policyKind, examples []*unstructured.Unstructured) int {
	s.Helper()
	mistakes := s.mistakes(kind.root, nil)
	for _, each := range mistakes {
		example := slices.IndexFunc(examples, func(object *unstructured.Unstructured) bool {
			_, has := each.at.in(object.Object)
			return has
		})
		if example < 0 {
			s.Errorf("no %s in policies/complete.yaml has %s", kind.name, each.at)
			continue
		}
		object := examples[example].Object
		good, _ := each.at.in(object)
		s.refused(kind, each.at.with(object, each.spoil(good)), each.at.String(), each.says)
	}
	if len(examples) > 0 {
		unknown := path{"spec", "sourceRange"}
		err := s.attempt(kind, unknown.with(examples[0].Object, "10.0.0.0/8"))
		if err == nil || !strings.Contains(err.Error(), `unknown field "spec.sourceRange"`) {
			s.Errorf("a %s with a field that does not exist: the API server said: %v", kind.name, err)
		}
	}
	return len(mistakes)
}

// refusesRules gives the API server objects that break a rule of the CRD, and says how many there are. Each rule must have one.
func (s *stage) refusesRules(kind policyKind, breaking []*unstructured.Unstructured) int {
	s.Helper()
	broken := map[string]bool{}
	for _, object := range breaking {
		wanted := object.GetAnnotations()
		s.refused(kind, runtime.DeepCopyJSON(object.Object), wanted["field"], wanted["says"])
		broken[wanted["says"]] = true
	}
	for _, message := range ruleMessages(kind.root) {
		if !broken[message] {
			s.Errorf("no %s in policies/refused.yaml breaks the rule %q", kind.name, message)
		}
	}
	return len(breaking)
}

// ruleMessages are the messages of a schema's rules (x-kubernetes-validations).
func ruleMessages(schema map[string]any) []string {
	var found []string
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		message, _, _ := unstructured.NestedString(rule.(map[string]any), "message")
		found = append(found, message)
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		found = append(found, ruleMessages(properties[name].(map[string]any))...)
	}
	if items, is := schema["items"].(map[string]any); is {
		found = append(found, ruleMessages(items)...)
	}
	return found
}
