//go:build integration

package integration

// This file proves that Kafka's own command-line tools do through the gateway what they do
// directly: each prints the same and ends with the same code, but for addresses, ids and
// times, and none prints a broker's host or port. What each has to print is said in
// tools_table_test.go, so that two failures alike are no success. The tools are those of the
// brokers' version.

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

// twenty records for the console.
var twenty = func() string {
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, "key-%d:value-%d\n", i+1, i+1)
	}
	return b.String()
}()

// Cases B16, B17.
func TestToolsDoAsDirectly(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 6*time.Minute)
	app := name(t, "app")
	must(t, c.Admin.Grant(ctx, allGrants("olga", app)...))
	g := gateway(t, c, harness.GatewayConfig{})
	calls := slices.DeleteFunc(slices.Clone(toolTable), func(call tool) bool { return !c.Version().AtLeast(call.from) })

	// A tool waits most of the time, so both sides run at once.
	var boxes []*toolbox
	for _, s := range bothSides(c, g, "olga") {
		box := &toolbox{side: s, cluster: c, base: app + s.topicSuffix}
		var err error
		box.group, err = c.Admin.GroupOn(ctx, 2, box.base+"-g")
		must(t, err)
		box.share, err = c.Admin.GroupOn(ctx, 3, box.base+"-s")
		must(t, err)
		box.txn, err = c.Admin.TxnOn(ctx, 2, box.base+"-x")
		must(t, err)
		box.start(t, calls)
		boxes = append(boxes, box)
	}
	for _, box := range boxes {
		results, err := box.java.Results(ctx)
		must(t, err)
		box.take(t, calls, results)
	}
	through, directly := boxes[0], boxes[1]
	for i, call := range calls {
		t.Run(strings.ReplaceAll(call.what, " ", "-"), func(t *testing.T) {
			for _, box := range boxes {
				if call.only == "" || call.only == box.side.name {
					box.judge(t, call, i)
				}
			}
			if a, b := through.compared(t, call, i), directly.compared(t, call, i); a != b && call.only == "" && call.differs == "" {
				t.Errorf("through the gateway:\n%s\ndirectly:\n%s", a, b)
			}
			named := namesBroker(through.did[i].stdout + through.did[i].stderr)
			if len(named) > 0 && call.exempt == "" {
				t.Errorf("it names brokers:\n%s", strings.Join(named, ""))
			}
			if call.exempt != "" && len(named) == 0 {
				t.Error("it names no broker: no exemption is needed")
			}
			if call.shows && len(namesBroker(directly.did[i].stdout+directly.did[i].stderr)) == 0 {
				t.Error("directly, it names no broker: what is not found says nothing")
			}
		})
	}
	namesNoBroker(t, "a tool's log", strings.Join(grepNot(through.java.Output(), "{"), ""))
	noFaults(ctx, t, g)
}

// toolbox is all that the tools work on, on one side, and what they did.
type toolbox struct {
	side              side
	cluster           *harness.Cluster
	base              string // of all names
	group, share, txn string
	java              *harness.JavaClient
	did               map[int]outcome // by row
}

type outcome struct {
	code, stdout, stderr string
	millis               int
}

// words are what stands for this side's things in the arguments.
func (b *toolbox) words(t *testing.T) *strings.Replacer {
	t.Helper()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	return strings.NewReplacer(
		"{admin}", "--bootstrap-server "+b.side.bootstrap+" --command-config {config}",
		"{bootstrap}", b.side.bootstrap,
		"{topic}", b.base, "{one}", b.base+"-one", "{group}", b.group, "{share}", b.share, "{txn}", b.txn,
		"{moves}", file("moves.json", fmt.Sprintf(`{"version":1,"partitions":[{"topic":%q,"partition":0,"replicas":[2,1]}]}`, b.base)),
		"{offsets}", file("offsets.json", fmt.Sprintf(`{"version":1,"partitions":[{"topic":%q,"partition":0,"offset":100}]}`, b.base+"-one")),
	)
}

// start runs all calls in one JVM, and one transaction before the first that asks for it.
func (b *toolbox) start(t *testing.T, calls []tool) {
	t.Helper()
	words := b.words(t)
	var steps []harness.JavaStep
	transacted := false
	for _, call := range calls {
		if call.only != "" && call.only != b.side.name {
			continue
		}
		if call.class == txnTool && !transacted {
			transacted = true
			steps = append(steps, series{b.base + "-one", "x", 10}.step("produce", b.side.bootstrap, "txn", b.txn, "partitions", "1"))
		}
		var classes []string
		for _, class := range strings.Fields(call.class) {
			if !strings.HasPrefix(class, "kafka.") {
				class = "org.apache.kafka.tools." + class
			}
			classes = append(classes, class)
		}
		steps = append(steps, harness.JavaStep{Mode: "tool", Settings: map[string]string{
			"class": strings.Join(classes, " "), "args": strings.Join(strings.Fields(words.Replace(call.args)), "\n"),
			"stdin": call.stdin, "until": call.until,
		}})
	}
	var err error
	b.java, err = site.StartJava(harness.JavaRun{Certificate: b.side.as, Version: b.cluster.Version(), Outside: b.side.outside, Steps: steps})
	must(t, err)
}

// take sorts what was done to the calls.
func (b *toolbox) take(t *testing.T, calls []tool, results []harness.JavaResult) {
	t.Helper()
	b.did = map[int]outcome{}
	for i, call := range calls {
		for len(results) > 0 && results[0].Mode != "tool" {
			if len(results[0].Errors) > 0 {
				t.Errorf("%s: %s: %v", b.side.name, results[0].Mode, results[0].Messages)
			}
			results = results[1:]
		}
		if call.only != "" && call.only != b.side.name {
			continue
		}
		if len(results) == 0 {
			t.Fatalf("%s: the tools ended before %q:\n%s", b.side.name, call.what, last(b.java.Output(), 40))
		}
		r := results[0]
		results = results[1:]
		if len(r.Errors) > 0 {
			t.Errorf("%s: %s: %v", b.side.name, call.what, r.Messages)
		}
		b.did[i] = outcome{r.Values["code"], r.Values["stdout"], r.Values["stderr"], r.Millis}
	}
}

// judge compares one outcome with what the row says.
func (b *toolbox) judge(t *testing.T, call tool, i int) {
	t.Helper()
	did := b.did[i]
	text := b.tidied(did)
	if did.code != fmt.Sprint(call.code) {
		t.Errorf("%s: it ended with %s, not %d:\n%s", b.side.name, did.code, call.code, text)
	}
	for _, want := range append(slices.Clone(call.says), regexp.QuoteMeta(strings.Join(strings.Fields(call.until), " "))) {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s: it does not say %q:\n%s", b.side.name, want, text)
		}
	}
	t.Logf("%s: %d ms", b.side.name, did.millis)
}

// compared is what has to be equal on both sides: the lines, in any order.
func (b *toolbox) compared(t *testing.T, call tool, i int) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(b.tidied(b.did[i])) {
		line = strings.TrimSpace(line)
		if !regexp.MustCompile(call.keep).MatchString(line) {
			continue
		}
		for _, expression := range slices.Sorted(maps.Keys(call.blank)) {
			line = regexp.MustCompile(expression).ReplaceAllString(line, call.blank[expression])
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// tidied is a tool's output with this side's names and addresses replaced and columns
// closed up: their width depends on both.
func (b *toolbox) tidied(did outcome) string {
	var pairs []string
	for _, n := range b.cluster.Nodes {
		at := b.side.node(n.ID)
		host, port, _ := strings.Cut(at, ":")
		node := fmt.Sprintf("NODE-%d", n.ID)
		pairs = append(pairs, at, node, host+" "+port, node, n.ControlListener(), node)
	}
	pairs = append(pairs, b.group, "GROUP", b.share, "SHARE", b.txn, "TXN", b.base, "TOPIC", b.side.bootstrap, "BOOTSTRAP")
	var out []string
	for line := range strings.Lines(did.stdout + "\n" + did.stderr) {
		line = strings.Join(strings.Fields(line), " ")
		if line != "" && !strings.HasPrefix(line, "at ") { // a stack's: the JVM's own ways of calling vary
			out = append(out, strings.NewReplacer(pairs...).Replace(line))
		}
	}
	return strings.Join(out, "\n")
}

// grepNot are the lines that do not begin with the text.
func grepNot(output, beginning string) []string {
	var found []string
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, beginning) {
			found = append(found, line)
		}
	}
	return found
}
