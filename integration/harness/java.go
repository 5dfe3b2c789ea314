//go:build integration

package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ClientVersion is the Java client that the tests use, whatever the brokers are, unless
// a JavaRun says otherwise. OlderClientVersion is of the generation before it.
const (
	ClientVersion      Version = "4.4.0"
	OlderClientVersion Version = "3.9.1"
)

// JavaStep is one thing for the Java client to do: a mode of java/Main.java and
// its settings.
type JavaStep struct {
	Mode     string
	Settings map[string]string
}

// JavaResult is what the client prints about one step.
type JavaResult struct {
	Tally
	Mode     string            `json:"mode"`
	Sent     int               `json:"sent"`
	Millis   int               `json:"millis"`
	Errors   map[string]int    `json:"errors"` // class name → how often
	Fatal    []string          `json:"fatal"`  // exceptions that retrying does not cure
	Nodes    []string          `json:"nodes"`  // host:port of every node seen
	Values   map[string]string `json:"values"`
	Messages []string          `json:"messages"` // of the errors
}

// JavaClient is a running Java client.
type JavaClient struct {
	*Process
	out, log string
}

// JavaRun says where and as whom the client runs.
type JavaRun struct {
	Certificate *Certificate
	Version     Version // of the client; empty: ClientVersion
	Outside     bool    // on the machine's own network, not in the namespace: for runs beside the gateway
	Steps       []JavaStep
	Together    bool // all steps at once, not one after the other
}

// compile compiles java/*.java, once a run, against ClientVersion. Clients of other
// versions run the same classes: what one lacks, its steps must not use.
func (s *Site) compile() (string, error) {
	jars, err := Jars(ClientVersion)
	if err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join(s.Root, "integration", "java", "*.java"))
	if err != nil || len(sources) == 0 {
		return "", fmt.Errorf("no Java sources: %w", err)
	}
	dir := filepath.Join(s.Dir, "java")
	args := append([]string{"javac", "-nowarn", "-d", dir, "-cp", jars + "/*"}, sources...)
	if _, err := run(command{Name: "javac", Args: args}); err != nil {
		return "", err
	}
	return dir, errors.Join(os.WriteFile(filepath.Join(dir, "log4j2.yaml"), []byte(`Configuration:
  Appenders:
    Console: {name: err, target: SYSTEM_ERR, PatternLayout: {pattern: "%d %p %m (%c)%n%throwable"}}
  Loggers:
    Root: {level: WARN, AppenderRef: {ref: err}}
`), 0o644), os.WriteFile(filepath.Join(dir, "log4j.properties"), []byte(`log4j.rootLogger=WARN, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d %p %m (%c)%n
`), 0o644))
}

// logging is the option that has a client of version v log to its standard error.
func (v Version) logging(classes string) string {
	if v.Reload4j() {
		return "-Dlog4j.configuration=file:" + filepath.Join(classes, "log4j.properties")
	}
	return "-Dlog4j2.configurationFile=" + filepath.Join(classes, "log4j2.yaml")
}

// StartJava starts a client that does the steps one after the other.
func (s *Site) StartJava(r JavaRun) (*JavaClient, error) {
	classes, err := s.classes()
	if err != nil {
		return nil, err
	}
	version := first(r.Version, ClientVersion)
	jars, err := Jars(version)
	if err != nil {
		return nil, err
	}
	var args []string
	if !r.Outside {
		holder, err := s.netns()
		if err != nil {
			return nil, err
		}
		args = enter(holder)
	}
	args = append(args, "java", "-Djava.io.tmpdir="+s.Dir, "-Xmx320m", "-XX:+UseSerialGC", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true", version.logging(classes), "-cp", classes+":"+jars+"/*", "Main")
	if r.Together {
		args = append(args, "together")
	}
	common := map[string]string{}
	if r.Certificate != nil {
		if common["config"], err = r.Certificate.JavaProperties(); err != nil {
			return nil, err
		}
	}
	for i, step := range r.Steps {
		if i > 0 {
			args = append(args, "--")
		}
		args = append(args, step.Mode)
		for _, settings := range []map[string]string{common, step.Settings} {
			for k, v := range settings {
				args = append(args, k+"="+v)
			}
		}
	}
	return s.launchJava(args)
}

func (s *Site) launchJava(args []string) (*JavaClient, error) {
	base := filepath.Join(s.Dir, "java-"+randomHex()[:8])
	c := &JavaClient{out: base + ".out", log: base + ".log"}
	out, err := os.Create(c.out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	if c.Process, err = start(command{Name: "java client", Args: args, Out: out, Log: log}); err != nil {
		return nil, err
	}
	s.atClose(func() error { c.Kill(); return nil })
	return c, nil
}

// Results waits until the client has ended and returns one result for each step;
// ctx ends the wait, and the client.
func (c *JavaClient) Results(ctx context.Context) ([]JavaResult, error) {
	select {
	case <-c.Done():
	case <-ctx.Done():
		c.Kill()
		return nil, fmt.Errorf("java client: %w; its last lines:\n%s", context.Cause(ctx), tail(c.log, 30))
	}
	if code, _ := c.Wait(time.Minute); code != 0 {
		return nil, fmt.Errorf("java client ended with %d; its last lines:\n%s", code, tail(c.log, 30))
	}
	f, err := os.Open(c.out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var results []JavaResult
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "{") {
			continue
		}
		var r JavaResult
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("java client said %q: %w", lines.Text(), err)
		}
		results = append(results, r)
	}
	return results, lines.Err()
}

// Output is everything that the client has written so far, warnings included.
func (c *JavaClient) Output() string {
	out, _ := os.ReadFile(c.out)
	log, _ := os.ReadFile(c.log)
	return string(out) + string(log)
}

// Java runs a client to its end.
func (s *Site) Java(ctx context.Context, r JavaRun) ([]JavaResult, *JavaClient, error) {
	c, err := s.StartJava(r)
	if err != nil {
		return nil, nil, err
	}
	results, err := c.Results(ctx)
	if err == nil && len(results) != len(r.Steps) {
		err = fmt.Errorf("java client gave %d results for %d steps:\n%s", len(results), len(r.Steps), c.Output())
	}
	return results, c, err
}

// JMX reads an attribute of a bean on every node, as one number each.
func (c *Cluster) JMX(ctx context.Context, bean, attribute string) (map[string]string, error) {
	r, _, err := c.site.Java(ctx, JavaRun{Outside: true, Steps: []JavaStep{{
		Mode: "jmx", Settings: map[string]string{"endpoints": strings.Join(c.each((*Node).JMX), ","), "bean": bean, "attribute": attribute},
	}}})
	if err != nil {
		return nil, err
	}
	return r[0].Values, nil
}
