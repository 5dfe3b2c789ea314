//go:build !linux

package main

import (
	"errors"
	"runtime"
)

// errNoProcessLimits is what this system has in place of process_linux.go.
var errNoProcessLimits = errors.New("not done on " + runtime.GOOS)

// harden does nothing here: core files and debuggers are the operator's matter.
func harden() error { return errNoProcessLimits }

// descriptorLimit is not known here.
func descriptorLimit() (uint64, error) { return 0, errNoProcessLimits }
