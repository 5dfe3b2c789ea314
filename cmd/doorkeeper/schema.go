package main

import (
	"encoding"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nodeParser is a value that reads more than one form of YAML, unlike the
// encoding.TextUnmarshalers, which read text alone.
type nodeParser interface{ parseNode(*yaml.Node) error }

// key is one key that holds a value, not a mapping of more keys.
type key struct {
	path  string
	index []int // the field's, from Config on; may lead through nil pointers
	typ   reflect.Type
}

// env is the key's name in the environment.
func (k key) env() string { return envName(k.path) }

// field returns the key's field in c, with the optional mappings above it made.
func (k key) field(c *Config) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for _, i := range k.index {
		v = mapping(v).Field(i)
	}
	return v
}

// schema returns every key in the order of the types.
func schema() []key {
	var keys []key
	var walk func(t reflect.Type, path string, index []int)
	walk = func(t reflect.Type, path string, index []int) {
		if !isMapping(t) {
			keys = append(keys, key{path: path, index: index, typ: t})
			return
		}
		for name, i := range fields(t) {
			walk(structType(t).Field(i).Type, join(path, name), append(slices.Clone(index), i))
		}
	}
	walk(reflect.TypeFor[Config](), "", nil)
	return keys
}

// isMapping tells whether t holds keys of its own.
func isMapping(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		return true
	}
	pt := reflect.PointerTo(t)
	return t.Kind() == reflect.Struct &&
		!pt.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) && !pt.Implements(reflect.TypeFor[nodeParser]())
}

// structType looks through the pointer of an optional mapping.
func structType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// mapping returns the struct of a mapping, made if it is optional and not there.
func mapping(v reflect.Value) reflect.Value {
	if v.Kind() != reflect.Pointer {
		return v
	}
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	return v.Elem()
}

// fields yields the names and numbers of a mapping's fields.
func fields(t reflect.Type) func(yield func(string, int) bool) {
	t = structType(t)
	return func(yield func(string, int) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i).Tag.Get("yaml"), i) {
				return
			}
		}
	}
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for name := range fields(t) {
		names = append(names, name)
	}
	return names
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// suggestion completes "unknown key" for a name that stood below path: a sibling
// spelt alike, else a key of that name elsewhere, else the siblings.
func suggestion(path, name string, siblings []string) string {
	if near := nearest(name, siblings); near != "" {
		return "did you mean " + join(path, near) + "?"
	}
	for _, k := range schema() {
		for at := k.path; at != ""; at = at[:max(0, strings.LastIndexByte(at, '.'))] {
			if at[strings.LastIndexByte(at, '.')+1:] == name {
				return "did you mean " + at + "?"
			}
		}
	}
	return "known here: " + strings.Join(siblings, ", ")
}

// nearest returns the candidate that the fewest edits lead to, or "" when none is
// near enough to have been meant.
func nearest(name string, candidates []string) string {
	best, bestEdits := "", min(3, 1+len(name)/4)+1
	if len(name) > 64 {
		return ""
	}
	plain := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	for _, c := range candidates {
		edits := distance(strings.ToLower(name), c)
		switch {
		case plain == strings.ReplaceAll(c, "_", ""):
			edits = 0
		case len(name) > 3 && strings.HasPrefix(c, name):
			edits = 1 // cert, password
		}
		if edits < bestEdits {
			best, bestEdits = c, edits
		}
	}
	return best
}

// distance counts the insertions, deletions and replacements between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
