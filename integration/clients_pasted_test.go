//go:build integration

package integration

// This file proves that settings and commands work as they are pasted into a
// terminal: by kcat, Kafka's console producer and Python; and that a pasted script
// leaves nothing behind.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorkeeper/integration/harness"
)

func TestPastedCommandsWork(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	topic := name(t, "app")
	must(t, c.Admin.Grant(ctx, harness.AppGrants("paula", topic)...))
	must(t, c.Admin.SpreadTopic(ctx, topic, partitions))
	g := gateway(t, c, harness.GatewayConfig{})
	paula, dir := site.Client("paula"), t.TempDir()
	files := strings.NewReplacer("alice.pem", paula.Files.Combined, "alice.crt", paula.Files.Cert, "alice.key", paula.Files.Key,
		"gateway-ca.pem", paula.CAFile(), "BOOTSTRAP", g.Bootstrap, "TOPIC", topic)

	for _, paste := range []struct{ what, script, stdin, stdout string }{
		{"settings", `
cat >client.properties <<end
bootstrap.servers=BOOTSTRAP
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location=alice.pem
ssl.truststore.type=PEM
ssl.truststore.location=gateway-ca.pem
end
cat >kcat.conf <<end
bootstrap.servers=BOOTSTRAP
security.protocol=ssl
ssl.certificate.location=alice.crt
ssl.key.location=alice.key
ssl.ca.location=gateway-ca.pem
end`, "", ""},
		{"console producer", `kafka-console-producer.sh --bootstrap-server BOOTSTRAP --command-config client.properties --topic TOPIC`, "one\n", ""},
		{"kcat writes", `echo two | kcat -F kcat.conf -P -t TOPIC`, "", ""},
		{"kcat reads", `kcat -F kcat.conf -C -t TOPIC -o beginning -e -q | sort`, "", "one\ntwo\n"},
		{"Python reads", `
python3 - <<end
from confluent_kafka import Consumer
consumer = Consumer(dict(line.strip().split("=", 1) for line in open("kcat.conf")) | {"group.id": "TOPIC-python", "auto.offset.reset": "earliest"})
consumer.subscribe(["TOPIC"])
print(*sorted(message.value().decode() for message in consumer.consume(2, 60)), sep="\n")
consumer.close()
end`, "", "one\ntwo\n"},
	} {
		ended, err := site.RunShell(ctx, dir, files.Replace(paste.script), paste.stdin)
		must(t, err)
		if ended.Code != 0 || ended.Stdout != paste.stdout {
			t.Errorf("%s: exit %d, said %q and:\n%s", paste.what, ended.Code, ended.Stdout, last(ended.Stderr, 30))
		}
	}
	noFaults(ctx, t, g)
}

func TestPastedScriptLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	ended, err := site.RunShell(t.Context(), dir, "pwd; cat; echo oh >&2; (sleep 300; touch late) & false || exit 7", "in\n")
	must(t, err)
	if ended.Code != 7 || ended.Stdout != dir+"\nin\n" || ended.Stderr != "oh\n" {
		t.Errorf("it gave %+v", ended)
	}

	// Its children hold this pipe open for as long as they live: it ends with the last.
	fifo := filepath.Join(dir, "alive")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		_, err := site.RunShell(ctx, dir, fmt.Sprintf("mkfifo %[1]s; (exec setsid sleep 300 >%[1]s) & exec sleep 300 >%[1]s", fifo), "")
		done <- err
	}()
	for {
		if _, err := os.Stat(fifo); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	pipe, err := os.Open(fifo) // returns once it is opened for writing
	must(t, err)
	defer pipe.Close()
	enough := errors.New("enough")
	cancel(enough)
	if err := <-done; !errors.Is(err, enough) {
		t.Errorf("it ended with %v", err)
	}
	must(t, pipe.SetReadDeadline(time.Now().Add(time.Minute)))
	if n, err := pipe.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("something of the script still runs: %d, %v", n, err)
	}
}
