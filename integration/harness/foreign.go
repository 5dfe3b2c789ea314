//go:build integration

package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Client is a client library that is neither Java's nor franz-go. All of them do the
// same steps, so that one test can ask any of them.
type Client string

const (
	Librdkafka  Client = "librdkafka"   // confluent-kafka: integration/python/clients/librdkafka
	KafkaPython Client = "kafka-python" // integration/python/clients/kafka_python
	Aiokafka    Client = "aiokafka"     // integration/python/clients/aiokafka
	KafkaJS     Client = "kafkajs"      // integration/node
	Sarama      Client = "sarama"       // integration/go/bysarama
	KafkaGo     Client = "kafka-go"     // segmentio's: integration/go/bykafkago
	Rdkafka     Client = "rdkafka"      // Rust, another librdkafka: integration/rust
)

// Step is one thing for a client to do, Java or not. Beside Java's modes there are
// transform (a copy in transactions that hold the group's offsets) and topics (make
// or delete one).
type Step = JavaStep

// StepResult is what a client says about one step.
type StepResult = JavaResult

// ForeignRun says which client runs, where and as whom.
type ForeignRun struct {
	Client      Client
	Certificate *Certificate
	Outside     bool // on the machine's own network, not in the namespace: for runs beside the gateway
	Steps       []Step
}

// ForeignClient is a running one.
type ForeignClient struct {
	*Process
	what     string
	out, log string
	steps    int
}

// command is how the client is called, up to its steps.
func (c Client) command(ctx context.Context, s *Site) (command, error) {
	how := command{Name: string(c)}
	var err error
	switch c {
	case Librdkafka, KafkaPython, Aiokafka:
		var python string
		python, err = s.Python(ctx)
		// Whatever PYTHON… this user has set and installed, and no caches among the sources.
		how.Args = []string{python, "-E", "-s", "-B", filepath.Join(s.pythonDir(), "main.py")}
	case KafkaJS:
		var modules string
		modules, err = s.Node(ctx)
		how.Args, how.Env = []string{"node", filepath.Join(s.nodeDir(), "main.js")}, []string{"NODE_PATH=" + modules, "NODE_OPTIONS=", "KAFKAJS_NO_PARTITIONER_WARNING=1"}
	case Sarama, KafkaGo:
		how.Args = make([]string, 1)
		how.Args[0], err = s.goClients(ctx)
	case Rdkafka:
		how.Args = make([]string, 1)
		how.Args[0], err = s.rust(ctx)
	default:
		err = fmt.Errorf("harness: no client %q", c)
	}
	how.Args = append(how.Args, string(c))
	return how, err
}

// MakeReady makes ready what a client needs: fetched and built once on this machine,
// which can take minutes the first time. ctx ends that.
func (s *Site) MakeReady(ctx context.Context, c Client) error {
	_, err := c.command(ctx, s)
	return err
}

// StartForeign starts a client that does the steps one after the other, and does
// MakeReady first; ctx ends that alone. The client ends with the Site at the latest.
func (s *Site) StartForeign(ctx context.Context, r ForeignRun) (*ForeignClient, error) {
	how, err := r.Client.command(ctx, s)
	if err != nil {
		return nil, err
	}
	where, err := s.where(r.Outside)
	if err != nil {
		return nil, err
	}
	how.Args = append(where, how.Args...)
	for _, step := range r.Steps {
		text, err := step.told(r.Certificate)
		if err != nil {
			return nil, err
		}
		how.Args = append(how.Args, text)
	}
	base := filepath.Join(s.Dir, string(r.Client)+"-"+randomHex()[:8])
	c := &ForeignClient{what: string(r.Client), out: base + ".out", log: base + ".log", steps: len(r.Steps)}
	return c, c.start(s, how)
}

// told is the step as JSON, with the files of whoever does it.
func (step JavaStep) told(as *Certificate) (string, error) {
	settings := map[string]string{}
	if as != nil {
		settings["certificate"], settings["key"], settings["ca"] = as.Files.Cert, as.Files.Key, as.CAFile()
	}
	maps.Copy(settings, step.Settings)
	text, err := json.Marshal(map[string]any{"mode": step.Mode, "settings": settings})
	return string(text), err
}

func (c *ForeignClient) start(s *Site, how command) error {
	out, err := os.Create(c.out)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	log, err := os.Create(c.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	how.Out, how.Log = out, log
	if c.Process, err = start(how); err != nil {
		return err
	}
	s.atClose(func() error { c.Kill(); return nil })
	return nil
}

// where is what a command is put behind to run in the namespace.
func (s *Site) where(outside bool) ([]string, error) {
	if outside {
		return nil, nil
	}
	holder, err := s.netns()
	if err != nil {
		return nil, err
	}
	return enter(holder), nil
}

// Results waits until the client has ended and returns one result for each step;
// ctx ends the wait, and the client.
func (c *ForeignClient) Results(ctx context.Context) ([]StepResult, error) {
	select {
	case <-c.Done():
	case <-ctx.Done():
		c.Kill()
		return nil, fmt.Errorf("%s: %w; its last lines:\n%s", c.what, context.Cause(ctx), tail(c.log, 30))
	}
	if code, _ := c.Wait(time.Minute); code != 0 { // it has ended
		return nil, fmt.Errorf("%s ended with %d; its last lines:\n%s", c.what, code, tail(c.log, 30))
	}
	results, err := c.read()
	if err == nil && len(results) != c.steps {
		err = fmt.Errorf("%s gave %d results for %d steps:\n%s", c.what, len(results), c.steps, c.Output())
	}
	return results, err
}

func (c *ForeignClient) read() ([]StepResult, error) {
	f, err := os.Open(c.out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var results []StepResult
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "{") { // libraries that print
			continue
		}
		var r StepResult
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s said %q: %w", c.what, lines.Text(), err)
		}
		results = append(results, r)
	}
	return results, lines.Err()
}

// Output is everything that the client has written so far, its log included.
func (c *ForeignClient) Output() string {
	out, _ := os.ReadFile(c.out)
	log, _ := os.ReadFile(c.log)
	return string(out) + string(log)
}

// Foreign runs a client to its end; ctx ends it earlier.
func (s *Site) Foreign(ctx context.Context, r ForeignRun) ([]StepResult, *ForeignClient, error) {
	c, err := s.StartForeign(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	results, err := c.Results(ctx)
	return results, c, err
}
