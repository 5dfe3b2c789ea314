//go:build integration

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// KcatRun is one call of kcat, Debian's own: an older librdkafka than Python's.
type KcatRun struct {
	Certificate *Certificate
	Bootstrap   string
	Outside     bool     // as in JavaRun
	Args        []string // behind the settings, e.g. -L, or -P -t TOPIC
	Stdin       string
}

// Kcat runs it to its end; ctx ends it earlier, with an error. An exit code other
// than 0 is no error here.
func (s *Site) Kcat(ctx context.Context, r KcatRun) (Ended, error) {
	if err := kcatMissing(); err != nil {
		return Ended{}, err
	}
	settings, err := r.Certificate.LibrdkafkaProperties()
	if err != nil {
		return Ended{}, err
	}
	args, err := s.where(r.Outside)
	if err != nil {
		return Ended{}, err
	}
	// -F: and no file of this user's.
	args = append(args, "kcat", "-F", settings, "-b", r.Bootstrap)
	return s.toEnd(ctx, command{Name: "kcat", Args: append(args, r.Args...)}, r.Stdin)
}

func kcatMissing() error {
	if _, err := exec.LookPath("kcat"); err != nil {
		return errors.New("kcat (Debian's package kcat)")
	}
	return nil
}

// LibrdkafkaProperties writes the settings of a librdkafka client that shows c, one
// a line, and returns the file.
func (c *Certificate) LibrdkafkaProperties() (string, error) {
	path := filepath.Join(filepath.Dir(c.Files.Cert), filepath.Base(c.Files.Cert)+".librdkafka")
	text := fmt.Sprintf("security.protocol=ssl\nssl.ca.location=%s\nssl.certificate.location=%s\nssl.key.location=%s\n",
		c.ca, c.Files.Cert, c.Files.Key)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// KcatMetadata is what kcat -L -J prints.
type KcatMetadata struct {
	Brokers []struct {
		ID   int32
		Name string // host:port
	}
	Topics []struct {
		Topic      string
		Partitions []struct {
			Partition, Leader int32
			Replicas          []struct{ ID int32 }
		}
	}
}

// Metadata reads what kcat -L -J has printed.
func (e Ended) Metadata() (KcatMetadata, error) {
	var m KcatMetadata
	if err := e.OK(); err != nil {
		return m, fmt.Errorf("kcat -L: %w", err)
	}
	if err := json.Unmarshal([]byte(e.Stdout), &m); err != nil {
		return m, fmt.Errorf("kcat -L -J said %q: %w", e.Stdout, err)
	}
	return m, nil
}
