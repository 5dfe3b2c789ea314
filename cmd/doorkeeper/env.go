package main

import (
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const envPrefix = "DOORKEEPER_"

// envName turns tokens.lifetime into DOORKEEPER_TOKENS_LIFETIME.
func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// parseEnv sets the keys that the environment names. The names come from the
// schema: splitting them at underscores would not know base_port from base.port.
// Lists and mappings are YAML flow text, everything else is taken as it is. A
// variable with the prefix that names no key is a warning only, since container
// platforms inject some for services of that name.
func parseEnv(c *Config, environ []string, r *report) {
	values := make(map[string]string)
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, envPrefix) {
			values[name] = value
		}
	}
	for _, k := range schema() {
		value, given := values[k.env()]
		if !given {
			continue
		}
		delete(values, k.env())
		r.override(k)
		node, ok := envNode(k, value, r)
		if ok {
			d := &decoder{report: r}
			d.value(k.path, node, k.field(c))
		}
	}
	unknown := make([]string, 0, len(values))
	for name := range values {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		// The name alone: the value may be a secret in the wrong place.
		r.warn("environment variable %s names no key of the configuration and is ignored", keyText(name))
	}
}

// override forgets what the file said about a key.
func (r *report) override(k key) {
	of := func(path string) bool { return path == k.path || strings.HasPrefix(path, k.path+"[") }
	r.problems = slices.DeleteFunc(r.problems, func(p Problem) bool {
		return of(p.Path) && !p.shape
	})
	for path := range r.lines {
		if of(path) {
			delete(r.lines, path)
		}
	}
	r.env[k.path] = k.env()
}

// envNode makes of a variable's value the node that the file would have had.
func envNode(k key, value string, r *report) (*yaml.Node, bool) {
	if !utf8.ValidString(value) {
		r.add(k.path, "is not UTF-8 text")
		return nil, false
	}
	if k.typ.Kind() != reflect.Slice || k.typ == reflect.TypeFor[NodeSet]() && !strings.HasPrefix(value, "[") {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}, true
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(value), &doc); err != nil || len(doc.Content) != 1 {
		r.add(k.path, `is not a list in YAML's flow style; write such as ["one", "two"]`)
		return nil, false
	}
	return doc.Content[0], true
}
