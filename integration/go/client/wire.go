package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Wire makes a step's connections, with the certificate of its settings, and looks at
// every byte that comes over them. Close says in the result what it saw: the addresses
// that were dialled, and how often one of the texts of the setting unwanted (separated
// by commas) was in what was received.
type Wire struct {
	config   *tls.Config
	unwanted []string
	result   *Result

	mu       sync.Mutex
	dialled  map[string]struct{}
	received int
	found    int
}

// NewWire reads the certificate. The caller closes it once all connections are done with.
func NewWire(s *Step, r *Result) (*Wire, error) {
	pair, err := tls.LoadX509KeyPair(s.Get("certificate", ""), s.Get("key", ""))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(s.Get("ca", ""))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("no certificates in " + s.Get("ca", ""))
	}
	w := &Wire{
		config: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12},
		result: r, dialled: map[string]struct{}{},
	}
	if texts := s.Get("unwanted", ""); texts != "" {
		w.unwanted = strings.Split(texts, ",")
	}
	return w, nil
}

// DialContext dials, with TLS.
func (w *Wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	fmt.Fprintln(os.Stderr, "dial", address)
	w.mu.Lock()
	w.dialled[address] = struct{}{}
	w.mu.Unlock()
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: w.config}
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		fmt.Fprintln(os.Stderr, "dial", address, err)
		return nil, err
	}
	return &tap{Conn: c, wire: w}, nil
}

// Dial is DialContext without an end but its own.
func (w *Wire) Dial(network, address string) (net.Conn, error) {
	return w.DialContext(context.Background(), network, address)
}

// Close says what was seen.
func (w *Wire) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Value("dialled", strings.Join(slices.Sorted(maps.Keys(w.dialled)), " "))
	w.result.Value("received", strconv.Itoa(w.received))
	w.result.Value("unwanted", strconv.Itoa(w.found))
}

type tap struct {
	net.Conn
	wire *Wire
	last []byte // the end of what came, in which a text may have begun
}

func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	if n > 0 {
		t.look(b[:n])
	}
	return n, err
}

func (t *tap) look(b []byte) {
	window, keep, found := append(t.last, b...), 0, 0
	for _, text := range t.wire.unwanted {
		found += bytes.Count(window, []byte(text)) - bytes.Count(t.last, []byte(text))
		keep = max(keep, len(text)-1)
	}
	t.last = bytes.Clone(window[max(0, len(window)-keep):])
	t.wire.mu.Lock()
	defer t.wire.mu.Unlock()
	t.wire.received += len(b)
	t.wire.found += found
}
