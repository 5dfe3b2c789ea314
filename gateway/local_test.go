package gateway

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/internal/frugal"
)

// S3, S4: every version of the six gets the error that Kafka gives, in a form that
// kmsg reads back.
func TestLocalAnswers(t *testing.T) {
	table := newPolicy()
	for key, code := range map[int16]int16{17: 34, 36: 34, 38: 64, 39: 64, 40: 64, 41: 64} {
		for version := int16(0); version <= table[key].max; version++ {
			p := pending{correlationID: 9, key: key, version: version, rule: &table[key]}
			frame := localAnswer(p)
			if int(binary.BigEndian.Uint32(frame)) != len(frame)-4 || binary.BigEndian.Uint32(frame[4:]) != 9 {
				t.Fatalf("key %d version %d: frame %x", key, version, frame)
			}
			from := 8
			if p.rule.flexibleAt(version) {
				from++
			}
			r := kmsg.ResponseForKey(key)
			r.SetVersion(version)
			if err := r.ReadFrom(frame[from:]); err != nil {
				t.Fatalf("key %d version %d: %v", key, version, err)
			}
			if got := int16(reflect.ValueOf(r).Elem().FieldByName("ErrorCode").Int()); got != code {
				t.Fatalf("key %d version %d: error %d, want %d", key, version, got, code)
			}
			for _, at := range []string{"IssueTimestamp", "ExpiryTimestamp", "MaxTimestamp"} { // as brokers have them
				if f := reflect.ValueOf(r).Elem().FieldByName(at); f.IsValid() && f.Int() != -1 {
					t.Fatalf("key %d version %d: %s %d", key, version, at, f.Int())
				}
			}
		}
	}
}

// B13: an ApiVersions that is too new gets the answer of version 0, error 35, with
// the range that works.
func TestTooNewVersions(t *testing.T) {
	frame := tooNewVersions(5, versionRange{0, 4})
	r := kmsg.NewPtrApiVersionsResponse()
	if err := r.ReadFrom(frame[8:]); err != nil {
		t.Fatal(err)
	}
	want := kmsg.ApiVersionsResponseApiKey{ApiKey: 18, MinVersion: 0, MaxVersion: 4}
	if r.ErrorCode != 35 || len(r.ApiKeys) != 1 || r.ApiKeys[0].ApiKey != want.ApiKey || r.ApiKeys[0].MaxVersion != want.MaxVersion {
		t.Fatalf("got %+v", r)
	}
}

// B12, B14: maxima are lowered and keys removed; minima, features, epochs and unknown
// tags stay.
func TestTrimVersions(t *testing.T) {
	table := newPolicy()
	for version := int16(0); version <= 5; version++ {
		in := kmsg.NewPtrApiVersionsResponse()
		in.SetVersion(version)
		for key := int16(0); key < 100; key++ {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MinVersion, k.MaxVersion = key, min(key, 2), 90
			if key%2 == 0 {
				k.MaxVersion = 2
			}
			in.ApiKeys = append(in.ApiKeys, k)
		}
		in.ThrottleMillis, in.FinalizedFeaturesEpoch = 3, 77
		in.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: "kraft.version", MaxVersion: 1}}
		in.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: "transaction.version", MaxVersionLevel: 2, MinVersionLevel: 2}}
		in.UnknownTags = tagged()
		p := pending{correlationID: 1, key: 18, version: version, rule: &table[18]}
		trimmed, _, err := rewriteAnswer(p, nil, in.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		out := kmsg.NewPtrApiVersionsResponse()
		out.SetVersion(version)
		if err := out.ReadFrom(trimmed); err != nil {
			t.Fatal(err)
		}
		for _, k := range out.ApiKeys {
			highest, ok := table.offered(k.ApiKey)
			before := in.ApiKeys[k.ApiKey]
			if !ok || k.MaxVersion != min(highest, before.MaxVersion) || k.MinVersion != before.MinVersion {
				t.Errorf("v%d key %d: %+v of %+v", version, k.ApiKey, k, before)
			}
		}
		for key := int16(0); key < 100; key++ {
			highest, ok := table.offered(key)
			if ok && highest >= in.ApiKeys[key].MinVersion && !offers(out, key) {
				t.Errorf("v%d key %d is missing", version, key)
			}
		}
		in.ApiKeys, out.ApiKeys = nil, nil
		reread := kmsg.NewPtrApiVersionsResponse()
		reread.SetVersion(version)
		if err := reread.ReadFrom(in.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		reread.ApiKeys = nil
		if !reflect.DeepEqual(reread, out) {
			t.Errorf("v%d: something else changed: %+v, %+v", version, reread, out)
		}
	}
}

func offers(r *kmsg.ApiVersionsResponse, key int16) bool {
	for _, k := range r.ApiKeys {
		if k.ApiKey == key {
			return true
		}
	}
	return false
}

// B58: the range is that of the very broker that answers, which may be older than the
// gateway and the client: then it answers in the oldest shape, and keeps its range.
func TestTrimVersionsOfAnOlderBroker(t *testing.T) {
	table := newPolicy()
	in := kmsg.NewPtrApiVersionsResponse()
	in.ErrorCode = 35
	in.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: 3}}
	p := pending{correlationID: 1, key: 18, version: 5, rule: &table[18]}
	got, changed, err := rewriteAnswer(p, nil, in.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	if want := in.AppendTo(nil); string(got) != string(want) || changed {
		t.Fatalf("got %x, want %x", got, want)
	}
	in.ApiKeys[0].MaxVersion = 9 // and one that is newer, but takes the request for wrong
	if got, _, err = rewriteAnswer(p, nil, in.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	in.ApiKeys[0].MaxVersion = 5
	if want := in.AppendTo(nil); string(got) != string(want) {
		t.Fatalf("got %x, want %x", got, want)
	}
}

// What is taken out is taken out for kmsg too, and where the answer is encoded as kmsg
// would, no other byte is another one.
func FuzzTrimVersions(f *testing.F) {
	table := newPolicy()
	f.Add(int16(3), kmsg.NewPtrApiVersionsResponse().AppendTo(nil))
	f.Add(int16(0), []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 3})
	rng := rand.New(rand.NewPCG(4, 4))
	for version := int16(0); version <= 5; version++ {
		f.Add(version, filled(rng, kmsg.ApiVersions, version).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, in []byte) {
		if version < 0 || version > 5 {
			return
		}
		p := pending{correlationID: 1, key: 18, version: version, rule: &table[18]}
		out, _, err := rewriteAnswer(p, nil, in)
		frugal.Check(t, len(in), func() { _, _, _ = rewriteAnswer(p, nil, in) })
		if err != nil {
			return
		}
		if again, _, err := rewriteAnswer(p, nil, out); err != nil || string(again) != string(out) {
			t.Fatalf("trimming twice differs: %v", err)
		}
		r := kmsg.NewPtrApiVersionsResponse()
		r.SetVersion(version)
		if len(in) > 1 && in[0] == 0 && in[1] == 35 {
			r.SetVersion(0)
		}
		if r.ReadFrom(in) != nil {
			return
		}
		canonical := string(r.AppendTo(nil)) == string(in)
		trimOracle(table, r)
		if want := r.AppendTo(nil); canonical && string(want) != string(out) {
			t.Fatalf("got\n%x\nwant\n%x", out, want)
		}
		back := kmsg.NewPtrApiVersionsResponse()
		back.SetVersion(r.Version)
		if err := back.ReadFrom(out); err != nil || !same(back, r) {
			t.Fatalf("%v: kmsg reads %+v, want %+v", err, back, r)
		}
	})
}

func trimOracle(table policy, r *kmsg.ApiVersionsResponse) {
	all := r.ApiKeys[:0]
	for _, k := range r.ApiKeys {
		if highest, ok := table.offered(k.ApiKey); ok && highest >= k.MinVersion {
			k.MaxVersion = min(k.MaxVersion, highest)
			all = append(all, k)
		}
	}
	r.ApiKeys = all
}
