// Package client has what the clients in Go have in common: steps, results, records, and
// connections that are on record.
package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Mode does one step.
type Mode func(*Step, *Result) error

// Step is one step's mode and settings. Settings that nobody asked for are a mistake.
type Step struct {
	Mode string

	settings map[string]string
	left     map[string]string // not asked for yet
	err      error             // the first that is no number
}

// Parse reads a step.
func Parse(text string) (*Step, error) {
	var told struct {
		Mode     string            `json:"mode"`
		Settings map[string]string `json:"settings"`
	}
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		return nil, fmt.Errorf("step %q: %w", text, err)
	}
	left := maps.Clone(told.Settings)
	for _, k := range []string{"certificate", "key", "ca"} {
		delete(left, k)
	}
	return &Step{Mode: told.Mode, settings: told.Settings, left: left}, nil
}

// Get is a setting.
func (s *Step) Get(key, otherwise string) string {
	delete(s.left, key)
	if v, ok := s.settings[key]; ok {
		return v
	}
	return otherwise
}

// Number is a setting that is one.
func (s *Step) Number(key string, otherwise int) int {
	n, err := strconv.Atoi(s.Get(key, strconv.Itoa(otherwise)))
	if err != nil && s.err == nil {
		s.err = err
	}
	return n
}

// Seconds is a setting in seconds.
func (s *Step) Seconds(key string, otherwise int) time.Duration {
	return time.Duration(s.Number(key, otherwise)) * time.Second
}

// AllUsed is an error that names the settings that nobody asked for.
func (s *Step) AllUsed() error {
	if len(s.left) > 0 {
		return fmt.Errorf("%s: unknown settings %v", s.Mode, slices.Sorted(maps.Keys(s.left)))
	}
	return s.err
}
