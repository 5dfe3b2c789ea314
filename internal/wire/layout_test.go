package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/frugal"
)

// fill gives every field of a message something to encode, unknown tags included, so
// that a field that a layout forgets shows.
func fill(rng *rand.Rand, v reflect.Value) {
	if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
		for range rng.IntN(3) {
			tags.Set(100+rng.Uint32N(200), make([]byte, rng.IntN(200)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				fill(rng, v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(bytes.Repeat([]byte{0xee}, rng.IntN(300)))
			return
		}
		n := rng.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(rng, v.Index(i))
		}
	case reflect.Array:
		v.Index(0).SetUint(rng.Uint64() & 0xff)
	case reflect.Pointer:
		if rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem())
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("%0*d", rng.IntN(140), 7))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rng.Int64N(100))
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(rng.Uint64N(100))
	default:
		panic(v.Kind())
	}
}

// streamed are the answers with addresses behind what may be large.
var streamed = []struct {
	key    kmsg.Key
	from   int16
	layout func(int16) *Layout
	// cut takes the tail's fields away.
	cut func(kmsg.Response)
}{
	{kmsg.Produce, 10, ProduceAnswer, func(r kmsg.Response) {
		p := r.(*kmsg.ProduceResponse)
		p.Brokers, p.UnknownTags = nil, kmsg.Tags{}
	}},
	{kmsg.Fetch, 16, FetchAnswer, func(r kmsg.Response) {
		p := r.(*kmsg.FetchResponse)
		p.Brokers, p.UnknownTags = nil, kmsg.Tags{}
	}},
	{kmsg.ShareFetch, 0, ShareFetchAnswer, func(r kmsg.Response) {
		p := r.(*kmsg.ShareFetchResponse)
		p.NodeEndpoints, p.UnknownTags = nil, kmsg.Tags{}
	}},
	{kmsg.ShareAcknowledge, 0, ShareAcknowledgeAnswer, func(r kmsg.Response) {
		p := r.(*kmsg.ShareAcknowledgeResponse)
		p.NodeEndpoints, p.UnknownTags = nil, kmsg.Tags{}
	}},
}

// emptyTail is how many bytes a tail without anything takes.
func emptyTail(key kmsg.Key) int {
	if key == kmsg.Produce || key == kmsg.Fetch {
		return 1
	}
	return 2
}

// headerTags are those of an answer's header.
var headerTags = []byte{1, 42, 2, 'h', 'i'}

// At every version and however the bytes are cut, the walk ends where the tail begins,
// which is where kmsg's encoding with and without addresses begins to differ.
func TestWalkFindsTheTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range streamed {
		for version := c.from; version <= kmsg.ResponseForKey(int16(c.key)).MaxVersion(); version++ {
			layout := c.layout(version)
			for range 40 {
				r := kmsg.ResponseForKey(int16(c.key))
				r.SetVersion(version)
				fill(rng, reflect.ValueOf(r).Elem())
				b := r.AppendTo(bytes.Clone(headerTags))
				c.cut(r)
				want := len(headerTags) + len(r.AppendTo(nil)) - emptyTail(c.key)
				if want >= len(b) {
					t.Fatal("the test has no tail")
				}
				for _, piece := range []int{1, 2, 7, len(b)} {
					if got, err := walkIn(layout, b, func() int { return piece }); err != nil || got != want {
						t.Fatalf("%s v%d in pieces of %d: %d, %v; want %d", c.key.Name(), version, piece, got, err, want)
					}
				}
				if got, err := walkIn(layout, b, func() int { return 1 + rng.IntN(50) }); err != nil || got != want {
					t.Fatalf("%s v%d in random pieces: %d, %v; want %d", c.key.Name(), version, got, err, want)
				}
				for cut := range want {
					if cut > 300 && cut < want-300 {
						continue
					}
					var w Walk
					w.Begin(layout, cut)
					if _, done, err := w.Next(b[:cut]); done || err != nil && !errors.Is(err, ErrFrame) {
						t.Fatalf("%s v%d cut at %d of %d: %v, %v", c.key.Name(), version, cut, want, done, err)
					}
				}
			}
		}
	}
}

var errUnfinished = errors.New("the bytes ended before the layout did")

// walkIn gives a message to a Walk piece by piece and returns where it ended.
func walkIn(l *Layout, b []byte, piece func() int) (int, error) {
	var w Walk
	w.Begin(l, len(b))
	for at := 0; at < len(b); {
		n, done, err := w.Next(b[at:min(len(b), at+piece())])
		at += n
		if done || err != nil {
			return at, err
		}
	}
	return 0, errUnfinished
}

// A walk over a Fetch answer with 100 MB of records costs what its partitions cost.
func TestWalkAllocatesNothing(t *testing.T) {
	r := kmsg.NewPtrFetchResponse()
	r.SetVersion(18)
	for range 10 {
		topic := kmsg.NewFetchResponseTopic()
		for range 100 {
			p := kmsg.NewFetchResponseTopicPartition()
			p.RecordBatches = make([]byte, 1000)
			topic.Partitions = append(topic.Partitions, p)
		}
		r.Topics = append(r.Topics, topic)
	}
	b := r.AppendTo([]byte{0})
	layout := FetchAnswer(18)
	if n := testing.AllocsPerRun(20, func() {
		if _, err := walkIn(layout, b, func() int { return 1000 }); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// S13: lengths and counts that lead out of the message are noticed where they are read,
// not after everything behind them has passed.
func TestWalkDoesNotBelieveLengths(t *testing.T) {
	head := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // header tags, throttle, error, session
	for name, b := range map[string][]byte{
		"a count":            append(bytes.Clone(head), 0xff, 0xff, 0xff, 0xff, 0x07),
		"the largest count":  append(bytes.Clone(head), 0x80, 0x80, 0x80, 0x80, 0x08),
		"a varint too long":  append(bytes.Clone(head), 0xff, 0xff, 0xff, 0xff, 0x1f),
		"a varint of 6":      append(bytes.Clone(head), 0xff, 0xff, 0xff, 0xff, 0x8f, 0x01),
		"a tag's size":       {1, 0, 0xff, 0xff, 0xff, 0x0f},
		"a number of tags":   {0xff, 0xff, 0xff, 0xff, 0x0f},
		"nothing but a head": {0, 0, 0, 0},
	} {
		var w Walk
		w.Begin(FetchAnswer(18), len(b))
		if _, done, err := w.Next(b); done || !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v, %v", name, done, err)
		}
		if _, done, err := w.Next(nil); done || err == nil {
			t.Errorf("%s: the error does not stay: %v, %v", name, done, err)
		}
	}
}

// Each walk agrees with itself over every cut, and with kmsg wherever that can decode
// the message: what lies behind it are the addresses and nothing else.
func FuzzWalk(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i, c := range streamed {
		for version := c.from; version <= kmsg.ResponseForKey(int16(c.key)).MaxVersion(); version++ {
			r := kmsg.ResponseForKey(int16(c.key))
			r.SetVersion(version)
			fill(rng, reflect.ValueOf(r).Elem())
			f.Add(uint8(i), version, uint16(3), r.AppendTo(bytes.Clone(headerTags)))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, version int16, piece uint16, b []byte) {
		c := streamed[int(which)%len(streamed)]
		if version < c.from || version > kmsg.ResponseForKey(int16(c.key)).MaxVersion() {
			return
		}
		layout := c.layout(version)
		whole, err := walkIn(layout, b, func() int { return len(b) })
		cut, errCut := walkIn(layout, b, func() int { return int(piece)%97 + 1 })
		frugal.Check(t, len(b), func() { _, _ = walkIn(layout, b, func() int { return int(piece)%97 + 1 }) })
		if whole != cut && err == nil || (err == nil) != (errCut == nil) {
			t.Fatalf("in one piece %d, %v; in pieces of %d %d, %v", whole, err, piece, cut, errCut)
		}
		if err != nil {
			return
		}
		tags, err := ResponseHeaderTags(b)
		if err != nil {
			t.Fatal(err)
		}
		r := kmsg.ResponseForKey(int16(c.key))
		r.SetVersion(version)
		if r.ReadFrom(b[tags:]) != nil {
			return
		}
		c.cut(r)
		bare := kmsg.ResponseForKey(int16(c.key))
		bare.SetVersion(version)
		empty := append(bytes.Clone(b[tags:whole]), []byte{1, 0}[2-emptyTail(c.key):]...)
		if err := bare.ReadFrom(empty); err != nil {
			t.Fatalf("what lies before the tail cannot be decoded: %v", err)
		}
		c.cut(bare)
		if !reflect.DeepEqual(bare, r) {
			t.Fatalf("the tail holds more than addresses")
		}
	})
}

// Numbers of the compact form stand for what Kafka takes them for.
func TestCompactNumbers(t *testing.T) {
	for number, want := range map[uint32]int{
		0: -1, 1: 0, 2: 1, 1<<31 - 1: 1<<31 - 2, 1 << 31: 1<<31 - 1, 1<<31 + 1: -1 << 31, 1<<32 - 1: -2,
	} {
		if got := uncompact(number); got != want {
			t.Errorf("%d stands for %d, not %d", number, got, want)
		}
		b := binary.AppendUvarint(nil, uint64(number))
		if c := NewCursor(b); c.Count(true) != max(want, 0) {
			t.Errorf("a count of %d is another", number)
		}
		c := NewCursor(b)
		if c.String(true); (c.Err() == nil) != (want <= 0) {
			t.Errorf("a string of %d: %v", number, c.Err())
		}
	}
}
