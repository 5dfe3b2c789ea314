package nodestatus

import (
	"fmt"
	"strings"
)

// Phase is what was being done when an Error came up.
type Phase uint8

// The phases.
const (
	PhaseDial  Phase = iota // opening the connection
	PhaseRead               // asking over it
	PhaseJudge              // checking the answer
)

// String returns the phase in words.
func (p Phase) String() string {
	switch p {
	case PhaseDial:
		return "connect"
	case PhaseRead:
		return "read the list of brokers"
	case PhaseJudge:
		return "check the list of brokers"
	default:
		return fmt.Sprintf("phase(%d)", uint8(p))
	}
}

// Error is every error of the watcher. All of them are retried for ever, with
// back-off.
type Error struct {
	Phase   Phase
	Address Address
	// Cure is what the operator should change; empty where nothing is known.
	Cure string
	// Err is the cause.
	Err error
}

// Error names the phase, the address, the cause and the cure.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "node status: %s via %s: %v", e.Phase, e.Address, e.Err)
	if e.Cure != "" {
		b.WriteString("; " + e.Cure)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
