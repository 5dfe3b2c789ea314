//go:build integration

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// label is on every container and image made here. A container's value is its site,
// so that what a killed run leaves is found (leftovers.go); an image's is "image".
const label = "doorkeeper.test"

// docker runs nodes in containers of the machine's Docker engine, on the machine's
// own network and as this user. They see of its files the site's directory alone, at
// the same path, and get what processes would be given.
type docker struct {
	site   *Site
	images images
}

// newDocker checks that there is an engine.
func newDocker(s *Site) (*docker, error) {
	if _, err := askDocker("version", "--format", "{{.Server.Version}}"); err != nil {
		return nil, fmt.Errorf("DOORKEEPER_ENGINE=docker needs a Docker engine on this machine: %w", err)
	}
	return &docker{site: s}, nil
}

// askDocker runs a command of Docker that is done at once, and returns what it says.
// An engine that does not answer within 30 s counts as none.
func askDocker(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("docker %s: %w", args[0], errors.Join(err, context.Cause(ctx)))
	}
	return strings.TrimSpace(string(out)), nil
}

// Prepare gets the image.
func (d *docker) Prepare(v Version) error {
	_, err := d.image(v)
	return err
}

// Format runs Kafka's storage tool.
func (d *docker) Format(spec NodeSpec) error {
	image, err := d.image(spec.Version)
	if err != nil {
		return err
	}
	args := append(d.run(image, d.name(), spec.Dir), spec.formatting(jarsInImage)...)
	_, err = run(command{Name: "kafka storage format", Args: args, Dir: spec.Dir})
	return err
}

// Start starts a broker; its output is appended to out.log.
func (d *docker) Start(spec NodeSpec) (Running, error) {
	image, err := d.image(spec.Version)
	if err != nil {
		return nil, err
	}
	log, err := spec.log()
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	name := d.name()
	args := append(d.run(image, name, spec.Dir), spec.serving(jarsInImage)...)
	cli, err := start(command{Name: fmt.Sprintf("kafka %s in %s", spec.Version, spec.Dir), Args: args, Dir: spec.Dir, Log: log})
	if err != nil {
		return nil, err
	}
	c, err := newContainer(name, cli, spec)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d *docker) name() string { return filepath.Base(d.site.Dir) + "-" + randomHex()[:8] }

// run is the command line up to the JVM's own arguments. The container is gone when
// the command has ended, with any volume that the image asks for.
func (d *docker) run(image, name, dir string) []string {
	return []string{
		"docker", "run", "--rm", "--pull=never", "--name", name, "--label", label + "=" + filepath.Base(d.site.Dir),
		"--sig-proxy=false", "--log-driver=none", // its output goes to the command's own, and nowhere else
		"--network=host", "--user", fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()),
		"--volume", d.site.Dir + ":" + d.site.Dir, "--workdir", dir,
		"--entrypoint", "java", image,
	}
}
