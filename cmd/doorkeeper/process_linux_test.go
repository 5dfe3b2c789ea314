package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const hardenedChild = "TEST_HARDENED_CHILD"

// TestHardenedProcessLeavesNoCore is S14: a process that is killed by SIGABRT, with
// core files as large as they come allowed before it starts, leaves none, and
// nobody of the same user may attach to it. It kills itself, so it is a process of
// its own: this test's binary once more.
func TestHardenedProcessLeavesNoCore(t *testing.T) {
	if os.Getenv(hardenedChild) != "" {
		if err := harden(); err != nil {
			t.Fatal(err)
		}
		var core unix.Rlimit
		dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if err != nil || dumpable != 0 {
			t.Fatalf("dumpable is %d, %v", dumpable, err)
		}
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil || core.Cur != 0 || core.Max != 0 {
			t.Fatalf("the core limit is %+v, %v", core, err)
		}
		// The runtime's own handler would turn the signal into an exit.
		if err := unix.Exec("/bin/sh", []string{"sh", "-c", "ulimit -c; kill -ABRT $$"}, os.Environ()); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHardenedProcessLeavesNoCore$")
	child.Env = append(os.Environ(), hardenedChild+"=1")
	child.Dir = dir
	out, err := child.CombinedOutput()
	status, ok := child.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil || !ok || status.Signal() != syscall.SIGABRT || status.CoreDump() {
		t.Errorf("ended with %v, core %v, output %s", err, ok && status.CoreDump(), out)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
		t.Errorf("left %v", files)
	}
}

func TestDescriptorLimitIsRead(t *testing.T) {
	if n, err := descriptorLimit(); err != nil || n < 64 {
		t.Errorf("%d, %v", n, err)
	}
}
