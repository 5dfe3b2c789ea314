package conformance

import (
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Mask is a field in which two answers may differ. Values that are equal are not
// touched; values that differ have to be Alike.
type Mask struct {
	Field Path
	// From and Before are the versions of the message that it is for; a Before of 0 means
	// all from From on.
	From, Before int16
	// Alike says how far the values may differ; nil: in any way.
	Alike func(direct, gateway reflect.Value) bool
	// Why they differ.
	Why string
	// Here says that they do because the gateway answers by itself. Otherwise they would
	// between any two brokers' answers.
	Here bool
}

// Used is a mask that was needed: two values that differed.
type Used struct {
	Mask
	Direct, Gateway string
}

func (m Mask) covers(version int16) bool {
	return version >= m.From && (m.Before == 0 || version < m.Before)
}

// values finds the field in both messages.
func (m Mask) values(direct, gateway kmsg.Response) (d, g []reflect.Value, err error) {
	if err := m.Field.each(direct, func(v reflect.Value) { d = append(d, v) }); err != nil {
		return nil, nil, err
	}
	err = m.Field.each(gateway, func(v reflect.Value) { g = append(g, v) })
	return d, g, err
}

// bothSet: neither is the zero value; texts are of one length.
func bothSet(direct, gateway reflect.Value) bool {
	if direct.IsZero() || gateway.IsZero() {
		return false
	}
	if direct.Kind() == reflect.Pointer {
		direct, gateway = direct.Elem(), gateway.Elem()
	}
	return direct.Kind() != reflect.String || direct.Len() == gateway.Len()
}

// positive: both are greater than zero.
func positive(direct, gateway reflect.Value) bool { return direct.Int() > 0 && gateway.Int() > 0 }

// within: they are so far apart at most.
func within(d int64) func(direct, gateway reflect.Value) bool {
	return func(direct, gateway reflect.Value) bool {
		apart := direct.Int() - gateway.Int()
		return direct.Int() > 0 && gateway.Int() > 0 && -d <= apart && apart <= d
	}
}

// sameMoment: milliseconds since 1970, less than a minute apart.
func sameMoment() func(direct, gateway reflect.Value) bool {
	return within(time.Minute.Milliseconds())
}

// someText: both say something.
func someText(direct, gateway reflect.Value) bool { return !direct.IsZero() && !gateway.IsZero() }
