package gateway

// Observer is told what happens to client legs. Its methods must not block.
type Observer interface {
	// LegAccepted: a TCP connection was accepted.
	LegAccepted()
	// LegRefused: it ended before it became a session.
	LegRefused(reason string)
	// SessionStarted: its certificate was accepted.
	SessionStarted()
	// SessionEnded: nothing passes any more; the client may still be reading the last
	// words.
	SessionEnded(reason string)
	// Panicked: a session ended by a programming error.
	Panicked()
}
