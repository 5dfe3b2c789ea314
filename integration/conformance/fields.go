package conformance

import (
	"fmt"
	"reflect"
	"strings"
)

// Path names fields of a message as kmsg has them: "Topics[].Partitions[].ErrorCode".
// Brackets stand behind a field that is a list, and mean each of its elements.
type Path string

// each calls f with every value that the path names in message, a pointer to a struct.
// Nothing is called for lists that are empty and for pointers that are nil. It returns
// an error when a message of this type has no such field.
func (p Path) each(message any, f func(reflect.Value)) error {
	if err := p.check(reflect.TypeOf(message)); err != nil {
		return err
	}
	p.descend(reflect.ValueOf(message), f)
	return nil
}

// check looks whether messages of this type have such fields.
func (p Path) check(t reflect.Type) error {
	for step := range strings.SplitSeq(string(p), ".") {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		name, list := strings.CutSuffix(step, "[]")
		if t.Kind() != reflect.Struct {
			return fmt.Errorf("%s: there are no fields in a %s", p, t)
		}
		field, ok := t.FieldByName(name)
		if !ok || list && field.Type.Kind() != reflect.Slice {
			return fmt.Errorf("%s: %s has no such field", p, t)
		}
		if t = field.Type; list {
			t = t.Elem()
		}
	}
	return nil
}

func (p Path) descend(v reflect.Value, f func(reflect.Value)) {
	for v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		v = v.Elem()
	}
	if v.Kind() == reflect.Pointer && v.IsNil() && p != "" {
		return
	}
	if p == "" {
		f(v)
		return
	}
	step, rest, _ := strings.Cut(string(p), ".")
	name, list := strings.CutSuffix(step, "[]")
	v = v.FieldByName(name)
	if !list {
		Path(rest).descend(v, f)
		return
	}
	for i := range v.Len() {
		Path(rest).descend(v.Index(i), f)
	}
}

// walk calls f with every struct in v, outermost first.
func walk(v reflect.Value, f func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), f)
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Pointer {
			return
		}
		for i := range v.Len() {
			walk(v.Index(i), f)
		}
	case reflect.Struct:
		f(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i), f)
			}
		}
	}
}

// ErrorCodes are all that a message carries, wherever, zeros included.
func ErrorCodes(message any) []int16 {
	var codes []int16
	walk(reflect.ValueOf(message), func(v reflect.Value) {
		for i := range v.NumField() {
			if strings.HasSuffix(v.Type().Field(i).Name, "ErrorCode") && v.Field(i).Kind() == reflect.Int16 {
				codes = append(codes, int16(v.Field(i).Int()))
			}
		}
	})
	return codes
}

// hollow tells of a message whose lists, texts and bytes are all empty although it
// could have some.
func hollow(message any) bool {
	v := reflect.ValueOf(message).Elem()
	could := false
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; v.Field(i).Kind() {
		case reflect.Slice, reflect.String:
			if v.Field(i).Len() > 0 {
				return false
			}
			could = true
		case reflect.Pointer:
			if name != "ErrorMessage" {
				if !v.Field(i).IsNil() {
					return false
				}
				could = true
			}
		}
	}
	return could
}

// differing names the fields in which two messages of one type differ.
func differing(a, b any) []string {
	var out []string
	compareValues("", reflect.ValueOf(a), reflect.ValueOf(b), &out)
	return out
}

func compareValues(at string, a, b reflect.Value, out *[]string) {
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() && !b.IsNil() {
			compareValues(at, a.Elem(), b.Elem(), out)
			return
		}
	case reflect.Slice:
		if a.Type().Elem().Kind() == reflect.Struct && a.Len() == b.Len() && a.IsNil() == b.IsNil() {
			for i := range a.Len() {
				compareValues(fmt.Sprintf("%s[%d]", at, i), a.Index(i), b.Index(i), out)
			}
			return
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() && a.Type().Field(i).Name != "Version" {
				compareValues(strings.TrimPrefix(at+"."+a.Type().Field(i).Name, "."), a.Field(i), b.Field(i), out)
			}
		}
		return
	}
	if !reflect.DeepEqual(a.Interface(), b.Interface()) {
		*out = append(*out, fmt.Sprintf("%s is %s directly, %s through the gateway", at, shown(a), shown(b)))
	}
}

// shown is a value in a message for people, cut where it gets long.
func shown(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	text := fmt.Sprintf("%+v", v.Interface())
	if v.Kind() == reflect.String {
		text = fmt.Sprintf("%q", v.String())
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		text = fmt.Sprintf("%x", v.Bytes())
	}
	return text[:min(len(text), 300)]
}
