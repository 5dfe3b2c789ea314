package main

import "fmt"

// reservedFiles is what the process needs besides sessions: listeners, control
// and status connections, handshakes that are refused, files.
const reservedFiles = 200

// checkDescriptors compares the session limit with the limit of open files: each
// session has two sockets. It returns a warning, or "".
func checkDescriptors(sessions, nodes int, limit uint64) string {
	need := uint64(sessions)*2 + uint64(nodes) + reservedFiles //nolint:gosec // both are validated to be small and positive
	if need <= limit {
		return ""
	}
	const cure = "raise the limit of open files (LimitNOFILE=, ulimit -n) to %d"
	spare := uint64(nodes) + reservedFiles //nolint:gosec // as above
	if limit < spare+2 {
		return fmt.Sprintf("the process may have %d files open, too few for even one session; "+cure, limit, need)
	}
	return fmt.Sprintf("limits.sessions is %d, but the process may have %d files open, enough for %d sessions; "+cure+" or lower limits.sessions",
		sessions, limit, (limit-spare)/2, need)
}
