package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"doorkeeper/internal/devkafka"
)

func TestDevOnceProvesItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	code, stdout, stderr := runDevWith(t, nil, "--once", "--dir", dir)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	for _, want := range []string{
		"  ok  alice  wrote 30 records to alice-only and read them back; ",
		"  ok  bob    was refused by the broker, TOPIC_AUTHORIZATION_FAILED; ",
		" saw User:alice\n", " saw User:bob\n",
		"  ok  alice  went on for ",
		"none lost, none twice\n",
		"\nProved in ",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "\x1b") {
		t.Error("colours, and no terminal")
	}
	// A second run takes its own directory again, with other certificates.
	before, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	interrupt := make(chan os.Signal, 1)
	interrupt <- syscall.SIGINT
	if code, stdout, stderr := runDevWith(t, interrupt, "--dir", dir); code != 130 {
		t.Errorf("exit %d of a run that was interrupted at once\n%s%s", code, stdout, stderr)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "ca.pem")); err != nil || bytes.Equal(before, after) {
		t.Logf("the run was over before it had certificates (%v)", err)
	}
}

// TestDevServesUntilInterrupted: it shows what to paste, and leaves nothing behind.
func TestDevServesUntilInterrupted(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	signals := make(chan os.Signal, 1)
	var stdout output
	go func() {
		for !strings.Contains(stdout.String(), "Stop with Ctrl-C") && t.Context().Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		signals <- syscall.SIGINT
	}()
	var stderr bytes.Buffer
	code := run(t.Context(), environment{args: []string{"dev"}, signals: signals, stdout: &stdout, stderr: &stderr})
	if code != 130 || stderr.Len() > 0 {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
	for _, want := range []string{"kafka-console-producer.sh --bootstrap-server 127.0.0.1:", "kcat -F ", "from confluent_kafka import Consumer"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is missing in\n%s", want, stdout.String())
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// TestDevProofFails shows that each step of the proof can fail.
func TestDevProofFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := devDirectory{path: t.TempDir()}
	kafka, err := startDevKafka(ctx, time.Now(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := kafka.close(); err != nil {
			t.Error(err)
		}
	}()
	var log bytes.Buffer
	gateway, err := startDevGateway(ctx, dir, kafka, &log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := gateway.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := gateway.awaitReady(ctx); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	proof := &devProof{kafka: kafka, gateway: gateway}
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	// Nobody's token is replaced so soon.
	if _, err := proof.alice(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := proof.carry(short()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no replacement: %v", err)
	}
	// A record that was written, and is not there.
	proof.written++
	if _, err := proof.alice(short()); err == nil || !strings.Contains(err.Error(), "read ") {
		t.Errorf("a record is lost: %v", err)
	}
	// Bob may write.
	admin, err := kafka.administrator()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := allow(ctx, admin, grant("bob", kmsg.ACLResourceTypeTopic, devTopic, kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationWrite)); err != nil {
		t.Fatal(err)
	}
	if _, err := proof.bob(ctx); err == nil || !strings.Contains(err.Error(), "he may write") {
		t.Errorf("bob is not refused: %v", err)
	}
	var out bytes.Buffer
	if err := proof.prove(ctx, terminal{Writer: &out}); err == nil || !strings.Contains(out.String(), "  FAILED  alice  a record that alice has not written") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestDevProofEndsWithItsContext: a step whose record gets no answer ends with its time
// or with Ctrl-C, although the client could try it again for ever.
func TestDevProofEndsWithItsContext(t *testing.T) {
	authority, err := newDevAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	files := devClients{}
	load := func(pair devPair, err error) tls.Certificate {
		t.Helper()
		certificate, loadErr := pair.load()
		if err := errors.Join(err, loadErr); err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	if files["alice"], err = authority.client("alice"); err != nil {
		t.Fatal(err)
	}
	silent, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(devPartitions, devTopic),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{load(authority.server("broker"))}, MinVersion: tls.VersionTLS12}))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	silent.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		silent.KeepControl()
		interrupt()
		return nil, nil, true // no answer
	})
	proof := &devProof{kafka: &devKafka{authority: authority}, gateway: &devGateway{bootstrap: silent.ListenAddrs()[0], files: files}}
	ended := make(chan error, 1)
	go func() {
		_, err := proof.alice(ctx)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil || ctx.Err() == nil {
			t.Errorf("%v, before anybody interrupted it", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("alice waits for an answer a minute after Ctrl-C")
	}
}

// A gateway that is gone is noticed, and closing it does not wait for ever.
func TestDevEndsWithItsGateway(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	kafka, err := startDevKafka(ctx, time.Now(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := kafka.close(); err != nil {
			t.Error(err)
		}
	}()
	gateway, err := startDevGateway(ctx, devDirectory{path: t.TempDir()}, kafka, new(output))
	if err != nil {
		t.Fatal(err)
	}
	looped := errors.New("pointed at itself")
	gateway.parts.loops.report(looped)
	if err := gateway.run(ctx); !errors.Is(err, looped) {
		t.Errorf("what makes trying again useless: %v", err)
	}
	gateway.stop()
	if err := gateway.run(ctx); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("its end: %v", err)
	}
	if err := gateway.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	kafka.calm()
	kafka.noteLogin(devkafka.Login{Principal: "late"})
	if left := kafka.loginsOf("late"); len(left) > 0 || ctx.Err() != nil {
		t.Errorf("remembered: %v; %v", left, ctx.Err())
	}
}

func TestDevRefusesDirectories(t *testing.T) {
	foreign, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	for _, path := range []string{filepath.Join(foreign, "ca.pem"), file} {
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct{ name, dir, want string }{
		{"somebody else's", foreign, "has files that are not of an earlier `doorkeeper dev`; name a new or an empty directory"},
		{"a file", file, "name a directory that can be made and written"},
		{"below a file", filepath.Join(file, "x"), "name a directory that can be made and written"},
		{"of the kernel", "/proc/doorkeeper", "name a directory that can be made and written"},
		{"control characters", "a\nb", "control characters"},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, stdout, stderr := runDevWith(t, nil, "--once", "--dir", row.dir)
			if code != exitFailure || !strings.Contains(stderr, row.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
				t.Errorf("exit %d, %q, %q", code, stderr, stdout)
			}
		})
	}
	if kept, err := os.ReadFile(filepath.Join(foreign, "ca.pem")); err != nil || string(kept) != "precious" {
		t.Errorf("the file that was there: %q, %v", kept, err)
	}
	t.Setenv("TMPDIR", "/proc/nowhere")
	if code, _, stderr := runDevWith(t, nil, "--once"); code != exitFailure || !strings.Contains(stderr, "name one that can be written with --dir") {
		t.Errorf("no temporary directory: exit %d, %q", code, stderr)
	}
}

func TestDevTakesOtherPortsWhereTheDefaultsAreTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	ports := devPorts{bootstrap: taken, base: taken - 2, admin: taken}
	if err := ports.makeFree(t.Context(), []int32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if ports.bootstrap == taken || ports.admin == taken || ports.base+2 == taken {
		t.Errorf("%d is taken, got %+v", taken, ports)
	}
	for _, port := range []int{ports.bootstrap, ports.admin, ports.base + 1, ports.base + 2, ports.base + 3} {
		if err := bindable(t.Context(), port); err != nil {
			t.Error(err)
		}
	}
}

func TestDevCertificatesAreWhatClientsRead(t *testing.T) {
	authority, err := newDevAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := devDirectory{path: t.TempDir()}
	if _, err := writeDevPairs(dir, authority); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alice", "bob", "gateway", "server"} {
		pair, err := tls.LoadX509KeyPair(dir.file(name+".crt"), dir.file(name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		use := x509.ExtKeyUsageClientAuth
		if name == "server" {
			use = x509.ExtKeyUsageServerAuth
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: authority.pool(), KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		key, err := os.ReadFile(dir.file(name + ".key"))
		if err != nil {
			t.Fatal(err)
		}
		if block, _ := pem.Decode(key); block == nil || block.Type != "PRIVATE KEY" {
			t.Errorf("%s: the key is not PKCS#8 in PEM", name)
		}
		if info, err := os.Stat(dir.file(name + ".key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := errors.Join(tlsVerify(dir, authority, "127.0.0.1"), tlsVerify(dir, authority, "localhost")); err != nil {
		t.Error(err)
	}
}

func tlsVerify(dir devDirectory, authority *devAuthority, host string) error {
	pair, err := tls.LoadX509KeyPair(dir.file("server.crt"), dir.file("server.key"))
	if err != nil {
		return err
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: authority.pool(), DNSName: host})
	return err
}

// runDevWith runs `doorkeeper dev` in this process.
func runDevWith(t *testing.T, signals <-chan os.Signal, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), environment{
		args: append([]string{"dev"}, args...), environ: []string{"DOORKEEPER_TOKENS_LIFETIME=x" + strconv.Itoa(os.Getpid())},
		signals: signals, stdout: &out, stderr: &errs,
	})
	return code, out.String(), errs.String()
}
