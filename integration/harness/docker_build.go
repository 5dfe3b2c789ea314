//go:build integration

package harness

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// An image that is built here is a root file system of Kafka's jars, a Java of its
// own (jlink) and the C library of this machine, which that Java is made for:
// some 150 MB, in a few seconds, without a registry.
const (
	builtImage  = "doorkeeper-kafka"
	javaInImage = "/opt/java"
	recipe      = "1" // to be raised when what is built here changes
)

// javaModules are what Kafka uses: log4j needs java.desktop for its beans, TLS
// jdk.crypto.ec, whoever watches the node jdk.management.agent.
var javaModules = strings.Join([]string{
	"java.base", "java.desktop", "java.instrument", "java.logging", "java.management", "java.management.rmi", "java.naming",
	"java.net.http", "java.rmi", "java.scripting", "java.security.jgss", "java.security.sasl", "java.sql", "java.xml",
	"jdk.crypto.ec", "jdk.management", "jdk.management.agent", "jdk.security.auth", "jdk.security.jgss", "jdk.unsupported", "jdk.zipfs",
}, ",")

// unnamedLibraries are opened at run time by those that Kafka's jars unpack.
var unnamedLibraries = []string{"libstdc++.so.6", "libgcc_s.so.1"}

// buildImage builds the image of a version, unless it is there: its tag tells what it
// was made of. Runs that want one at the same time wait for each other; the images
// of the same version that it replaces go.
func buildImage(v Version) (string, error) {
	jars, err := Jars(v)
	if err != nil {
		return "", err
	}
	home, err := javaHome()
	if err != nil {
		return "", err
	}
	sum, err := ingredients(jars, home)
	if err != nil {
		return "", err
	}
	tag := fmt.Sprintf("%s:%s-%s", builtImage, v, sum)
	path, err := cached("image-" + string(v) + ".lock")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), downloadPatience)
	defer cancel()
	unlock, err := lockFile(ctx, path)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := askDocker("image", "inspect", "--format", "{{.Id}}", tag); err == nil {
		return tag, nil
	}
	if err := importImage(tag, jars, home); err != nil {
		return "", fmt.Errorf("build %s: %w", tag, err)
	}
	old, err := askDocker("image", "ls", "--filter", "label="+label+"=image", "--filter", "reference="+builtImage+":"+string(v)+"-*", "--format", "{{.Repository}}:{{.Tag}}")
	for name := range strings.Lines(old) {
		if name = strings.TrimSpace(name); name != tag {
			_, _ = askDocker("image", "rm", name) // a run that still goes on keeps it
		}
	}
	return tag, err
}

// javaHome is that of the java on the PATH, whatever wraps it.
func javaHome() (string, error) {
	out, err := run(command{Name: "java", Args: []string{"java", "-XshowSettings:properties", "-version"}})
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^\s*java\.home = (.*)$`).FindStringSubmatch(out)
	if found == nil {
		return "", errors.New("java does not tell its java.home")
	}
	return found[1], nil
}

// ingredients is a short hash of what an image is made of: jars have their versions
// in their names, and so has this machine's Java, in its file "release".
func ingredients(jars, home string) (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, recipe, javaModules)
	release, err := os.ReadFile(filepath.Join(home, "release"))
	if err != nil {
		return "", err
	}
	_, _ = h.Write(release)
	system, _ := os.ReadFile("/etc/os-release")
	_, _ = h.Write(system)
	entries, err := os.ReadDir(jars)
	for _, e := range entries {
		info, infoErr := e.Info()
		if infoErr != nil {
			return "", infoErr
		}
		_, _ = fmt.Fprintln(h, e.Name(), info.Size())
	}
	return hex.EncodeToString(h.Sum(nil))[:12], err
}

// importImage makes the Java and streams the root file system to Docker.
func importImage(tag, jars, home string) (err error) {
	tmp, err := os.MkdirTemp("", "doorkeeper-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	java := filepath.Join(tmp, "java")
	for _, args := range [][]string{
		{filepath.Join(home, "bin", "jlink"), "--add-modules", javaModules, "--no-header-files", "--no-man-pages", "--output", java},
		// The classes of the JDK in a form that starts quickly, as a packaged one has them.
		{filepath.Join(java, "bin", "java"), "-Xshare:dump"},
	} {
		if _, err := run(command{Name: args[0], Args: args, Dir: tmp}); err != nil {
			return err
		}
	}
	libraries, err := neededLibraries(java)
	if err != nil {
		return err
	}
	cmd := exec.Command("docker", "import", "--change", "LABEL "+label+"=image",
		"--change", "ENV PATH="+javaInImage+"/bin", "--change", `ENTRYPOINT ["java"]`, "-", tag)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return err
	}
	err = writeRoot(in, java, jars, libraries)
	if waitErr := errors.Join(in.Close(), cmd.Wait()); waitErr != nil {
		return errors.Join(err, fmt.Errorf("docker import: %w: %s", waitErr, out.String()))
	}
	return err
}

// neededLibraries are this machine's libraries, its dynamic linker among them, that
// a Java's programs and own libraries are linked to, by their paths.
func neededLibraries(java string) ([]string, error) {
	objects := []string{filepath.Join(java, "bin", "java")}
	err := filepath.WalkDir(java, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".so") {
			objects = append(objects, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	linked, err := run(command{Name: "ldd", Args: append([]string{"ldd"}, objects...)})
	if err != nil {
		return nil, err
	}
	known, err := run(command{Name: "ldconfig", Args: []string{"ldconfig", "-p"}})
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(linked) {
		for _, field := range strings.Fields(line) {
			if strings.HasPrefix(field, "/") && !strings.HasPrefix(field, java) && !strings.HasSuffix(field, ":") {
				found = append(found, field)
			}
		}
	}
	for line := range strings.Lines(known) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " => ")
		name, _, _ = strings.Cut(name, " ")
		// Of the other architectures' beside this machine's, none is where libc is.
		if slices.Contains(unnamedLibraries, name) && slices.ContainsFunc(found, func(f string) bool { return filepath.Dir(f) == filepath.Dir(path) }) {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// writeRoot writes the root file system as a tar archive.
func writeRoot(to io.Writer, java, jars string, libraries []string) error {
	w := tar.NewWriter(to)
	file := func(path, from string) error {
		info, err := os.Stat(from) // what a link leads to
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: path, Mode: int64(info.Mode().Perm()), Size: info.Size()}); err != nil {
			return err
		}
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, f)
		return errors.Join(err, f.Close())
	}
	tree := func(under, from string) error {
		return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			below, err := filepath.Rel(from, path)
			return errors.Join(err, file(filepath.Join(under, below), path))
		})
	}
	err := errors.Join(tree(javaInImage, java), tree(jarsInImage, jars))
	for _, path := range libraries {
		err = errors.Join(err, file(path, path))
	}
	for name, text := range map[string]string{"etc/passwd": "root:x:0:0:root:/:/none\n", "etc/nsswitch.conf": "hosts: files dns\n"} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, writeErr := io.WriteString(w, text)
		err = errors.Join(err, writeErr)
	}
	err = errors.Join(err, w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}))
	return errors.Join(err, w.Close())
}
