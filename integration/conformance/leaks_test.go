package conformance

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func leaks() *Leaks {
	return NewLeaks([]string{"secret.internal", "127.77.1.2", "\x7f\x4d\x01\x02"}, []int32{29094})
}

func TestLeaksAreFound(t *testing.T) {
	r := rewritten()
	for v := int16(0); v <= 13; v++ {
		request := kmsg.NewPtrMetadataRequest()
		request.Version = v
		l := leaks()
		l.Answer(request, frame(7, brokers(r.Gateway, v)))
		if err := l.Err(); err != nil {
			t.Errorf("v%d: %v", v, err)
		}
		l.Answer(request, frame(7, brokers(r.Brokers, v)))
		if found := strings.Join(l.Hits(), "\n"); len(l.Hits()) != 3 || !strings.Contains(found, "has secret.internal in it") || !strings.Contains(found, `port 29094 of the brokers with host "br0ker-2.secret.internal"`) {
			t.Errorf("v%d: found %q", v, found)
		}
		port := brokers(r.Gateway, v)
		port.Brokers[1].Port = 29094
		l = leaks()
		l.Answer(request, frame(7, port))
		if len(l.Hits()) != 1 {
			t.Errorf("v%d: a broker's port behind the gateway's name: found %q", v, l.Hits())
		}
	}
	for _, text := range []string{"at Br0ker-1.SECRET.internal:29094", "127.77.1.2", "\xff\x7f\x4d\x01\x02"} {
		l := leaks()
		l.Saw("a client's log", []byte(text))
		if len(l.Hits()) != 1 {
			t.Errorf("in %q: found %q", text, l.Hits())
		}
	}
	l := leaks()
	l.Saw("a client's log", []byte("port 29094 of kafka.example.com"))
	if err := l.Err(); err != nil {
		t.Errorf("a number that is no port: %v", err)
	}
}

// An answer that cannot be read is searched whole.
func TestLeaksAreFoundInWhatCannotBeRead(t *testing.T) {
	l := leaks()
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Version = 4
	l.Answer(request, []byte("\x00\x00\x00\x07 nonsense of br0ker-1.secret.internal"))
	if len(l.Hits()) != 1 {
		t.Errorf("found %q", l.Hits())
	}
}

func TestOnlyNamedFieldsAreExempt(t *testing.T) {
	answer := func(change func(*kmsg.DescribeConfigsResponseResource)) []byte {
		r := kmsg.NewPtrDescribeConfigsResponse()
		r.Version = 4
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value = "advertised.listeners", kmsg.StringPtr("TOKEN://br0ker-1.secret.internal:29094")
		of := kmsg.NewDescribeConfigsResponseResource()
		of.ResourceName, of.Configs = "1", append(of.Configs, c)
		change(&of)
		r.Resources = append(r.Resources, of)
		return frame(7, r)
	}
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Version = 4
	l := leaks()
	l.Answer(request, answer(func(*kmsg.DescribeConfigsResponseResource) {}))
	if l.Err() != nil || len(l.Exempted()) != 1 {
		t.Errorf("found %q, exempted %v", l.Hits(), l.Exempted())
	}
	l.Answer(request, answer(func(of *kmsg.DescribeConfigsResponseResource) {
		of.ErrorMessage = kmsg.StringPtr("ask br0ker-1.secret.internal")
	}))
	if len(l.Hits()) != 1 {
		t.Errorf("in another field of the same answer: found %q", l.Hits())
	}
}
