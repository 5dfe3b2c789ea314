package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// harden keeps the process's memory, which holds token passwords and keys, from
// the disk and from other processes of the same user: no core file, no attaching
// debugger, no /proc/PID/mem. Where it fails the process may still serve.
//
// A process that is not dumpable and not root's has a /proc/PID/fd that it cannot
// list itself, so that the metric process_open_fds is missing there.
func harden() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("set the core file limit to 0: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process not dumpable: %w", err)
	}
	return nil
}

// descriptorLimit returns how many files and sockets the process may have open.
// The Go runtime has raised the soft limit to the hard one by then.
func descriptorLimit() (uint64, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	return l.Cur, nil
}
