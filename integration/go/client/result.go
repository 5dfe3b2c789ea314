package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// Result is what is printed of a step. Safe for several goroutines.
type Result struct {
	mu   sync.Mutex
	seen map[int]struct{}
	said said

	ledger *bufio.Writer
	file   *os.File
}

type said struct {
	Mode       string            `json:"mode"`
	Count      int               `json:"count"`
	Sum        uint64            `json:"sum"`
	Duplicates int               `json:"duplicates"`
	Foreign    int               `json:"foreign"`
	Sent       int               `json:"sent"`
	Millis     int64             `json:"millis"`
	Errors     map[string]int    `json:"errors"` // name → how often
	Fatal      []string          `json:"fatal"`
	Messages   []string          `json:"messages"`
	Nodes      []string          `json:"nodes"`
	Values     map[string]string `json:"values"`
}

// NewResult begins the result of a step. With the setting ledger, a writer notes in that
// file what became of each record (../../checker/import.go).
func NewResult(s *Step) *Result {
	r := &Result{seen: map[int]struct{}{}, said: said{
		Mode: s.Mode, Errors: map[string]int{}, Fatal: []string{}, Messages: []string{}, Nodes: []string{}, Values: map[string]string{},
	}}
	if path := s.Get("ledger", ""); path != "" {
		var err error
		if r.file, err = os.Create(path); err != nil {
			r.Failed(err)
			return r
		}
		r.ledger = bufio.NewWriter(r.file)
	}
	return r
}

// Failed notes an error, which retrying has not cured.
func (r *Result) Failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Errors[err.Error()]++
	if len(r.said.Messages) < 20 {
		r.said.Messages = append(r.said.Messages, fmt.Sprintf("%T: %v", err, err))
		r.said.Fatal = append(r.said.Fatal, err.Error())
	}
}

// Noted counts something that is worth knowing and no error.
func (r *Result) Noted(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, _ := strconv.Atoi(r.said.Values[what])
	r.said.Values[what] = strconv.Itoa(n + 1)
}

// Value says something by name.
func (r *Result) Value(name, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Values[name] = value
}

// Node notes the address of a broker that the client was told of.
func (r *Result) Node(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Nodes = append(r.said.Nodes, address)
	r.said.Count++
}

// Done counts one thing that was done.
func (r *Result) Done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Count++
}

// Sent counts a record that was handed to the client.
func (r *Result) Sent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Sent++
}

// Acked counts record i, which the broker has acknowledged, at an offset.
func (r *Result) Acked(i int, partition int32, offset int64, key, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Count++
	r.said.Sum += Checksum(key, value)
	r.note("a", i, partition, offset)
}

// Refused notes that the client has given record i up.
func (r *Result) Refused(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("r", i)
}

// Committed notes that records first to last were a transaction, and whether the client
// knows that it was committed.
func (r *Result) Committed(first, last int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("t", first, last, map[bool]string{true: "committed", false: "unknown"}[known])
}

// note writes a line of the ledger. The caller holds mu.
func (r *Result) note(words ...any) {
	if r.ledger != nil {
		_, _ = fmt.Fprintln(r.ledger, words...) // Print sees what has failed
	}
}

// Read counts a record that was read, if it is of the series and new.
func (r *Result) Read(of Records, key, value []byte) {
	i := of.Index(key, value)
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < 0 {
		r.said.Foreign++
		return
	}
	if _, again := r.seen[i]; again {
		r.said.Duplicates++
		return
	}
	r.seen[i] = struct{}{}
	r.said.Count++
	r.said.Sum += Checksum(key, value)
}

// Count is how many were counted so far.
func (r *Result) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.Count
}

// Print prints the result as one line.
func (r *Result) Print(to io.Writer, took time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.Millis = took.Milliseconds()
	if r.ledger != nil {
		if err := errors.Join(r.ledger.Flush(), r.file.Close()); err != nil {
			return err
		}
	}
	return json.NewEncoder(to).Encode(r.said)
}
