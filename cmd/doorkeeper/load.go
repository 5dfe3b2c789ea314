package main

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// loadConfig reads the file, then the environment ("NAME=value" each), which
// wins, and checks what can be checked without the disk. Everything that is wrong
// is in the report, with which the configuration is not to be used.
func loadConfig(path string, environ []string) (*Config, *report) {
	c, r := defaults(), newReport()
	data, err := readBounded(path, maxFile)
	if err != nil {
		r.add("", "%v; name a readable YAML file with --config", err)
		r.hopeless = true
		return c, r
	}
	parseConfig(c, data, environ, r)
	return c, r
}

// parseConfig fills c from the contents of a file and the environment.
func parseConfig(c *Config, data []byte, environ []string, r *report) {
	if !parseFile(c, data, r) {
		r.hopeless = true
		return
	}
	parseEnv(c, environ, r)
	validate(c, r)
}

// readBounded reads a regular file of at most limit bytes. Pipes and devices,
// which could keep a read waiting, are refused.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", quote(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", quote(path), limit)
	}
	return data, err
}

// parseFile walks the file's nodes along the types, so that each problem is found
// in one go and has its line. It returns false for what is no mapping at all: of
// that nothing can be said but this.
func parseFile(c *Config, data []byte, r *report) bool {
	if !utf8.Valid(data) {
		r.add("", "the file is not UTF-8 text; save it as such")
		return false
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return true // an empty file: validate says which keys are needed
	case err != nil:
		r.add("", "not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return false
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		r.add("", "the file has more than one YAML document; keep one")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return true
	}
	if root.Kind != yaml.MappingNode {
		r.addShape("", root.Line, "is %s; write a mapping with the keys %s", kindName(root), strings.Join(fieldNames(reflect.TypeFor[Config]()), ", "))
		return false
	}
	d := &decoder{report: r, located: true}
	d.mapping("", root, reflect.ValueOf(c).Elem())
	return true
}

// decoder puts nodes into fields. A field whose node is wrong keeps its default.
type decoder struct {
	report  *report
	located bool // the nodes' lines are those of the file
}

func (d *decoder) value(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.located {
		d.report.lines[path] = n.Line
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		d.report.add(path, "has no value; write one, or leave the key out for its default")
		return
	}
	target := v.Addr().Interface()
	if p, ok := target.(nodeParser); ok {
		d.problem(path, p.parseNode(n))
		return
	}
	if u, ok := target.(encoding.TextUnmarshaler); ok {
		if d.scalar(path, n, "one value") {
			d.problem(path, u.UnmarshalText([]byte(n.Value)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Pointer:
		d.mapping(path, n, v)
	case reflect.Slice:
		d.list(path, n, v)
	case reflect.Bool:
		d.boolean(path, n, v)
	case reflect.Int:
		d.integer(path, n, v)
	case reflect.String:
		d.text(path, n, v)
	default:
		panic("configuration: no decoder for " + v.Type().String())
	}
}

func (d *decoder) problem(path string, err error) {
	if err != nil {
		d.report.add(path, "%v", err)
	}
}

// scalar reports a node that is no scalar.
func (d *decoder) scalar(path string, n *yaml.Node, want string) bool {
	if n.Kind != yaml.ScalarNode {
		d.report.add(path, "is %s; write %s", kindName(n), want)
		return false
	}
	return true
}

func (d *decoder) mapping(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.report.add(path, "is %s; write a mapping with the keys %s", kindName(n), strings.Join(fieldNames(v.Type()), ", "))
		return
	}
	numbers := make(map[string]int)
	for name, i := range fields(v.Type()) {
		numbers[name] = i
	}
	v = mapping(v)
	seen := make(map[string]int) // name → line
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode {
			d.report.addShape(path, k.Line, "has a key that is %s; keys are plain names", kindName(k))
			continue
		}
		name := join(path, keyText(k.Value))
		first, twice := seen[k.Value]
		number, known := numbers[k.Value]
		switch {
		case twice:
			d.report.addShape(name, k.Line, "is there a second time, first on line %d; keep one", first)
		case k.Value == "<<":
			d.report.addShape(path, k.Line, "has a merge key <<, which is not supported; write the keys out")
		case !known:
			d.report.addShape(name, k.Line, "unknown key; %s", suggestion(path, k.Value, fieldNames(v.Type())))
		default:
			d.value(name, n.Content[i+1], v.Field(number))
		}
		if !twice {
			seen[k.Value] = k.Line
		}
	}
}

// list replaces the default as a whole.
func (d *decoder) list(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.report.add(path, "is %s; write a list, such as [%s]", kindName(n), exampleOf(v.Type().Elem()))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, e := range n.Content {
		d.value(path+"["+strconv.Itoa(i)+"]", e, list.Index(i))
	}
	v.Set(list)
}

func exampleOf(t reflect.Type) string {
	if t == reflect.TypeFor[Address]() {
		return `"broker-1:9094", "broker-2:9094"`
	}
	return `"one", "two"`
}

func (d *decoder) boolean(path string, n *yaml.Node, v reflect.Value) {
	switch {
	case !d.scalar(path, n, "true or false"):
	case n.Value == "true" || n.Value == "false":
		v.SetBool(n.Value == "true")
	default:
		d.report.add(path, "%s is not known; write true or false", quote(n.Value))
	}
}

func (d *decoder) integer(path string, n *yaml.Node, v reflect.Value) {
	if !d.scalar(path, n, "a whole number") {
		return
	}
	// YAML reads 010 as eight, and people do not; neither is taken.
	i, err := strconv.ParseInt(n.Value, 10, 32)
	if err != nil || strconv.FormatInt(i, 10) != n.Value {
		d.report.add(path, "%s is not a whole number; write digits alone, such as 9100", quote(n.Value))
		return
	}
	v.SetInt(i)
}

func (d *decoder) text(path string, n *yaml.Node, v reflect.Value) {
	switch {
	case !d.scalar(path, n, "text"):
	case n.ShortTag() == "!!bool":
		d.report.add(path, "%s is a truth value; put it in quotes if it is meant as text", n.Value)
	case n.ShortTag() == "!!binary":
		d.report.add(path, "is marked as binary; write it as text")
	case strings.ContainsFunc(n.Value, unicode.IsControl):
		d.report.add(path, "%s has a control character; leave it out", quote(n.Value))
	default:
		v.SetString(n.Value)
	}
}

// keyText shows a key of the file in a path; names that could be mistaken for
// something else come in quotes.
func keyText(name string) string {
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) || r == '.' }) {
		return quote(name)
	}
	return name
}

// kindName says in words what a node is.
func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	case yaml.ScalarNode:
		return "a single value"
	}
	return "nothing known"
}
