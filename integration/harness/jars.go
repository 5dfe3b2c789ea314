//go:build integration

package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// Kafka 4 leaves the choice of an SLF4J binding to its packager; 3.9 brings
// reload4j, and a second binding would silence the broker.
var pom = template.Must(template.New("pom.xml").Parse(`<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>doorkeeper</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{{.}}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{{.}}</version></dependency>
{{- if not .Reload4j}}
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.5</version></dependency>
{{- end}}
</dependencies></project>
`))

// copyDependencies is the goal of Maven that fetches them, of a version that stays.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// Version is a Kafka version such as "4.4.0".
type Version string

// Reload4j says that this version logs by reload4j, not by log4j 2.
func (v Version) Reload4j() bool { return strings.HasPrefix(string(v), "3.") }

// AtLeast says that v is o or later. Both are numbers with dots.
func (v Version) AtLeast(o Version) bool {
	return slices.Compare(v.numbers(), o.numbers()) >= 0
}

func (v Version) numbers() []int {
	var out []int
	for part := range strings.SplitSeq(string(v), ".") {
		n, _ := strconv.Atoi(part) // none is 0
		out = append(out, n)
	}
	return out
}

// Jars returns the directory that holds this version's jars, its own and those
// that it needs, below the user's cache directory (XDG_CACHE_HOME). It asks Maven
// for them if they are not there, which can take minutes. The directory appears
// whole or not at all; several runs may ask at once.
func Jars(v Version) (string, error) {
	dir, err := cached("kafka-" + string(v))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".fetching-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := writeTemplate(filepath.Join(tmp, "pom.xml"), pom, v); err != nil {
		return "", err
	}
	jars := filepath.Join(tmp, "jars")
	_, err = run(command{
		Name: "mvn",
		Args: []string{"mvn", "-q", "-B", copyDependencies, "-DincludeScope=runtime", "-DoutputDirectory=" + jars},
		Dir:  tmp,
	})
	if err != nil {
		return "", fmt.Errorf("fetch Kafka %s: %w", v, err)
	}
	// Somebody else may have been first: theirs is as good.
	if err := os.Rename(jars, dir); err != nil && !errors.Is(err, os.ErrExist) {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}

func writeTemplate(path string, t *template.Template, data any) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(t.Execute(f, data), f.Close())
}
