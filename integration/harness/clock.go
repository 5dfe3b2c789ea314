//go:build integration

package harness

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"time"
)

// Clock is a wall clock for Kafka nodes that run as processes of this machine, which a
// test can set: NodeConfig.Clock. Nobody else's changes, and no monotonic clock.
type Clock struct {
	library, file string
}

// NewClock makes a clock that is right.
func (s *Site) NewClock() (*Clock, error) {
	c := &Clock{library: filepath.Join(s.Dir, "clock.so"), file: filepath.Join(s.Dir, "clock-"+randomHex()[:8])}
	_, err := run(command{Name: "gcc", Args: []string{
		"gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", c.library, filepath.Join(s.Root, "integration", "clock", "clock.c"),
	}})
	if err != nil {
		return nil, err
	}
	return c, c.Set(0)
}

// Set makes it go ahead by so much, from now on, or behind where by is negative. The
// nodes need not be restarted.
func (c *Clock) Set(by time.Duration) error {
	b := binary.NativeEndian.AppendUint64(nil, uint64(by.Milliseconds()))
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil { // in place: the nodes have it mapped
		_ = f.Close()
		return err
	}
	return f.Close()
}

// env is what a process needs to go by the clock.
func (c *Clock) env() []string {
	if c == nil {
		return nil
	}
	return []string{"LD_PRELOAD=" + c.library, "CLOCK_FILE=" + c.file}
}
