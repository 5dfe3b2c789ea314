//go:build integration

package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// An image for nodes has java on its PATH and Kafka's jars in this directory, as
// Kafka's official one has.
const jarsInImage = "/opt/kafka/libs"

// officialImage is tagged with Kafka's versions.
const officialImage = "apache/kafka"

const (
	// registryPatience is for a registry's first answer; what it has then is
	// downloaded in peace.
	registryPatience = 20 * time.Second
	downloadPatience = 15 * time.Minute
	// silence is for how long a registry that could not be reached is not asked again,
	// by later runs neither.
	silence = time.Hour
)

// images are those of one run, by Kafka's version.
type images struct {
	mu    sync.Mutex
	found map[Version]func() (string, error)
}

// image is the name of an image of that version: the one that DOORKEEPER_KAFKA_IMAGE
// names (with Kafka's version as its tag if it names none), or Kafka's official one;
// pulled if it is not there. Where the official one cannot be had, one is built.
func (d *docker) image(v Version) (string, error) {
	d.images.mu.Lock()
	if d.images.found == nil {
		d.images.found = map[Version]func() (string, error){}
	}
	find, ok := d.images.found[v]
	if !ok {
		find = sync.OnceValues(func() (string, error) { return findImage(v) })
		d.images.found[v] = find
	}
	d.images.mu.Unlock()
	return find()
}

func findImage(v Version) (string, error) {
	chosen := os.Getenv("DOORKEEPER_KAFKA_IMAGE")
	name := withTag(first(chosen, officialImage), v)
	if _, err := askDocker("image", "inspect", "--format", "{{.Id}}", name); err == nil {
		return name, nil
	}
	if chosen != "" { // another in its place would not be what was asked for
		if err := pull(name); err != nil {
			return "", fmt.Errorf("DOORKEEPER_KAFKA_IMAGE=%s: %w", chosen, err)
		}
		return name, nil
	}
	memory, err := cached("unreachable-" + strings.ReplaceAll(officialImage, "/", "-"))
	if err != nil {
		return "", err
	}
	if seen, err := os.Stat(memory); err != nil || time.Since(seen.ModTime()) > silence {
		pullErr := pull(name)
		if pullErr == nil {
			return name, nil
		}
		fmt.Fprintf(os.Stderr, "%v\nso an image is built from Kafka's jars instead\n", pullErr)
		if err := os.WriteFile(memory, []byte(pullErr.Error()), 0o644); err != nil {
			return "", err
		}
	}
	return buildImage(v)
}

func withTag(name string, v Version) string {
	if last := name[strings.LastIndex(name, "/")+1:]; strings.ContainsAny(last, ":@") {
		return name
	}
	return name + ":" + string(v)
}

// pull gives the registry 20 s to answer, and a quarter of an hour for the rest.
func pull(name string) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	patience := time.AfterFunc(registryPatience, func() {
		cancel(fmt.Errorf("the registry did not answer within %s", registryPatience))
	})
	defer patience.Stop()
	cmd := exec.CommandContext(ctx, "docker", "pull", name)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		// The first line is written when the image is known to be there.
		patience.Reset(downloadPatience)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("docker pull %s: %w", name, errors.Join(err, context.Cause(ctx), errors.New(strings.TrimSpace(complaint.String()))))
	}
	return nil
}

// cached is a path below the user's cache directory (XDG_CACHE_HOME), which exists.
func cached(name string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "doorkeeper", name)
	return path, os.MkdirAll(filepath.Dir(path), 0o755)
}
