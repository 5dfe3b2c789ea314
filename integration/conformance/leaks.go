package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Leaks looks for brokers in what clients receive: their host names as bytes anywhere,
// and their ports in the address fields of answers. It may be used by several
// goroutines.
type Leaks struct {
	hosts []string
	ports map[int64]bool

	mu       sync.Mutex
	hits     []string
	answers  int
	size     int
	exempted map[string]int // by the exemption's reason
}

// NewLeaks looks for these hosts, as they stand in configurations and in binary where
// they are IPv4 addresses, and for these ports.
func NewLeaks(hosts []string, ports []int32) *Leaks {
	l := &Leaks{hosts: slices.Clone(hosts), ports: map[int64]bool{}, exempted: map[string]int{}}
	for _, p := range ports {
		l.ports[int64(p)] = true
	}
	return l
}

// exemption is a field that may speak of brokers.
type exemption struct {
	field Path
	why   string
}

const (
	dump   = "a broker's or topic's configuration, which its administrator asked for"
	stored = "what users stored"
)

// exemptions are all fields that may. Whatever stands in them came from users, but for
// the configuration of brokers.
func exemptions(key kmsg.Key) []exemption {
	switch key {
	case kmsg.DescribeConfigs:
		return []exemption{{"Resources[].Configs[].Value", dump}, {"Resources[].Configs[].ConfigSynonyms[].Value", dump}}
	case kmsg.Fetch:
		return []exemption{{"Topics[].Partitions[].RecordBatches", stored}}
	case kmsg.ShareFetch:
		return []exemption{{"Topics[].Partitions[].Records", stored}}
	case kmsg.DescribeACLs:
		return []exemption{{"Resources[].ACLs[].Host", stored}}
	case kmsg.DeleteACLs:
		return []exemption{{"Results[].MatchingACLs[].Host", stored}}
	case kmsg.OffsetFetch:
		return []exemption{{"Topics[].Partitions[].Metadata", stored}, {"Groups[].Topics[].Partitions[].Metadata", stored}}
	case kmsg.JoinGroup:
		return []exemption{{"Members[].ProtocolMetadata", stored}}
	case kmsg.SyncGroup:
		return []exemption{{"MemberAssignment", stored}}
	case kmsg.DescribeGroups:
		return []exemption{{"Groups[].Members[].ProtocolMetadata", stored}, {"Groups[].Members[].MemberAssignment", stored}}
	case kmsg.StreamsGroupHeartbeat:
		return []exemption{{"PartitionsByUserEndpoint[].UserEndpoint.Host", stored}}
	case kmsg.StreamsGroupDescribe:
		return []exemption{{"Groups[].Members[].UserEndpoint.Host", stored}, {"Groups[].Members[].ClientTags[].Value", stored}}
	}
	return nil
}

// Saw looks at bytes that a client received, of whatever kind. Where says in a message
// what they were.
func (l *Leaks) Saw(where string, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size += len(b)
	for _, h := range l.found(b) {
		l.hit(where, fmt.Sprintf("has %s in it", h))
	}
}

// Answer looks at the answer to a request, from its correlation id on.
func (l *Leaks) Answer(request kmsg.Request, frame []byte) {
	where := Call(request)
	c := Comparison{Request: request}
	r, err := c.read(frame)
	if err != nil { // then no field of it is exempt
		l.Saw(where, frame)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	l.size += len(frame)
	for _, e := range exemptions(kmsg.Key(request.Key())) {
		_ = e.field.each(r.message, func(v reflect.Value) {
			if n := len(l.found(textOf(v))); n > 0 {
				l.exempted[exempted(request, e.field, e.why)] += n
			}
			v.SetZero()
		})
	}
	for _, h := range l.found(append(slices.Clone(r.head), r.message.AppendTo(nil)...)) {
		l.hit(where, fmt.Sprintf("has %s in it", h))
	}
	walk(reflect.ValueOf(r.message), func(v reflect.Value) {
		host, port := v.FieldByName("Host"), v.FieldByName("Port")
		if !host.IsValid() || !port.IsValid() || host.Kind() != reflect.String || host.Len() == 0 {
			return
		}
		if n := number(port); l.ports[n] {
			l.hit(where, fmt.Sprintf("gives port %d of the brokers with host %q", n, host.String()))
		}
	})
}

func exempted(request kmsg.Request, field Path, why string) string {
	return fmt.Sprintf("%s, `%s`: %s", kmsg.NameForKey(request.Key()), field, why)
}

func textOf(v reflect.Value) []byte {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		return []byte(v.String())
	}
	return v.Bytes()
}

func number(v reflect.Value) int64 {
	if v.CanUint() {
		return int64(v.Uint())
	}
	return v.Int()
}

// found are the hosts in b, in any case of letters.
func (l *Leaks) found(b []byte) []string {
	text := lower(b)
	var out []string
	for _, h := range l.hosts {
		if bytes.Contains(text, lower([]byte(h))) {
			out = append(out, h)
		}
	}
	return out
}

// lower is b with ASCII letters in lower case, and all other bytes as they are.
func lower(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] += 'a' - 'A'
		}
	}
	return out
}

func (l *Leaks) hit(where, what string) {
	if text := where + " " + what; !slices.Contains(l.hits, text) {
		l.hits = append(l.hits, text)
	}
}

// Hits are what was found, each once.
func (l *Leaks) Hits() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.hits)
}

// Err is nil when nothing was found.
func (l *Leaks) Err() error {
	var errs []error
	for _, h := range l.Hits() {
		errs = append(errs, errors.New(h))
	}
	return errors.Join(errs...)
}

// Looked says at how many answers and bytes the oracle has looked.
func (l *Leaks) Looked() (answers, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers, l.size
}

// Exempted counts brokers' names in fields that may have them, by field and reason.
func (l *Leaks) Exempted() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.exempted)
}

// Call is a request's name and version in a message.
func Call(request kmsg.Request) string {
	return fmt.Sprintf("%s v%d", kmsg.NameForKey(request.Key()), request.GetVersion())
}
