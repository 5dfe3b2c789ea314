//go:build integration

package harness

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Dials keeps a record of every address that its clients dialled, refused or
// not: none but the gateway's may be among them.
type Dials struct {
	mu    sync.Mutex
	count map[string]int
}

// Client makes a franz-go client with this certificate whose dials are on
// record. The caller closes it.
func (d *Dials) Client(c *Certificate, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(d.Options(c), opts...)...)
}

// Options are what makes a client one whose dials are on record, and that begins with
// these addresses.
func (d *Dials) Options(c *Certificate, seeds ...string) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			d.note(address)
			t := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: c.ClientTLS()}
			return t.DialContext(ctx, network, address)
		}),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if len(seeds) > 0 {
		opts = append(opts, kgo.SeedBrokers(seeds...))
	}
	return opts
}

func (d *Dials) note(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count == nil {
		d.count = map[string]int{}
	}
	d.count[address]++
}

// Count returns how often each address was dialled.
func (d *Dials) Count() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.count)
}

// Only is an error that names every dialled address which is not allowed.
func (d *Dials) Only(allowed ...string) error {
	var bad []string
	for a := range d.Count() {
		if !slices.Contains(allowed, a) {
			bad = append(bad, a)
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return fmt.Errorf("dialled %v, but only %v are allowed", bad, allowed)
	}
	return nil
}
