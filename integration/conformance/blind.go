package conformance

import (
	"fmt"
	"reflect"
	"slices"
)

// blind are the bytes of an answer, counted from its correlation id, that belong to a
// field which may differ.
func (c *Comparison) blind(frame []byte) (map[int]bool, error) {
	out := map[int]bool{}
	r, err := c.read(frame)
	if err != nil {
		return nil, err
	}
	for _, m := range c.Masks {
		if !m.covers(c.Request.GetVersion()) {
			continue
		}
		n := 0
		if err := m.Field.each(r.message, func(reflect.Value) { n++ }); err != nil {
			return nil, err
		}
		for i := range n {
			changed, err := c.read(frame)
			if err != nil {
				return nil, err
			}
			at := 0
			_ = m.Field.each(changed.message, func(v reflect.Value) {
				if at == i {
					invert(v)
				}
				at++
			})
			body := changed.message.AppendTo(nil)
			if len(body) != len(r.body) {
				return nil, fmt.Errorf("%s cannot be changed in place", m.Field)
			}
			for j := range body {
				if body[j] != r.body[j] {
					out[len(r.head)+j] = true
				}
			}
		}
	}
	return out, nil
}

// invert changes every byte of a value, and not its length.
func invert(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			changed := reflect.New(v.Elem().Type())
			changed.Elem().Set(v.Elem())
			invert(changed.Elem())
			v.Set(changed)
		}
	case reflect.String:
		b := []byte(v.String())
		for i := range b {
			b[i] ^= 1
		}
		v.SetString(string(b))
	case reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(^v.Int())
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			v.Set(reflect.AppendSlice(reflect.Zero(v.Type()), v))
		}
		for i := range v.Len() {
			v.Index(i).SetUint(v.Index(i).Uint() ^ 0xff)
		}
	default:
		panic("conformance: a masked field of kind " + v.Kind().String())
	}
}

// Flips says how many differences were planted, and where they were not noticed.
type Flips struct {
	Planted   int
	Unnoticed int // all of them in masked fields
}

// Flip changes every byte of the gateway's answer in turn, by one bit, and looks whether
// Compare notices. It returns an error that names every byte
// whose change is not noticed although no masked field lies there.
func (c *Comparison) Flip(direct, gateway Answer) (Flips, error) {
	var f Flips
	blind, err := c.blind(gateway.Frame)
	if err != nil {
		return f, err
	}
	var missed []int
	for i := range gateway.Frame {
		changed := slices.Clone(gateway.Frame)
		changed[i] ^= 1
		f.Planted++
		if differences, _ := c.Compare(direct, Answer{Frame: changed}); len(differences) > 0 {
			continue
		}
		f.Unnoticed++
		if !blind[i] {
			missed = append(missed, i)
		}
	}
	if len(missed) > 0 {
		return f, fmt.Errorf("changes of the bytes %v of %x are not noticed", missed, gateway.Frame)
	}
	return f, nil
}
