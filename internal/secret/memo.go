package secret

import (
	"fmt"
	"sync"
)

// memoLimit bounds the values of one Memo. A token needs one per broker salt and
// mechanism; a broker draws a new salt when it restarts. The bound matters only
// against a broker that invents a salt for every login.
const memoLimit = 256

// Memo computes secrets at most once per key and keeps them for as long as it
// lives itself: the keys derived from a token live as long as the token does.
//
// The zero value is ready. It prints as "[redacted]", as Text does.
type Memo struct {
	mu     sync.Mutex // held for map access only, never while deriving
	values map[string]*memoEntry
	order  []string // oldest first
}

type memoEntry struct {
	once  sync.Once
	value Text
	err   error
}

// Get returns the secret for key. The first caller for a key runs derive; those
// that come meanwhile wait for it, for as long as derive takes. An error is kept
// like a value: derive must depend on nothing but key.
func (m *Memo) Get(key string, derive func() (Text, error)) (Text, error) {
	m.mu.Lock()
	e, known := m.values[key]
	if !known {
		if m.values == nil {
			m.values = make(map[string]*memoEntry)
		}
		if len(m.order) == memoLimit {
			delete(m.values, m.order[0])
			m.order = m.order[1:]
		}
		e = new(memoEntry)
		m.values[key] = e
		m.order = append(m.order, key)
	}
	m.mu.Unlock()

	e.once.Do(func() { e.value, e.err = derive() })
	return e.value, e.err
}

// Len returns how many values are kept.
func (m *Memo) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.values)
}

// Format implements fmt.Formatter.
func (*Memo) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler.
func (*Memo) MarshalText() ([]byte, error) { return []byte(redacted), nil }
