package devkafka

import "fmt"

// state is where a connection is in its login: Kafka's SaslServerAuthenticator, by
// simpler names.
type state uint8

const (
	fresh      state = iota // nothing came that mattered
	versioned               // ApiVersions was answered: SaslHandshake must follow
	conversing              // a mechanism was agreed: SaslAuthenticate must follow
	mismatched              // another mechanism than before was asked for: whatever follows ends it
	ready                   // logged in, or on a listener without SASL
	failed                  // to be closed
	states
)

func (s state) String() string {
	names := [...]string{"fresh", "versioned", "conversing", "mismatched", "ready", "failed"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// event is what a request turned out to be.
type event uint8

const (
	versionsAnswered     event = iota // ApiVersions without an error
	versionsRefused                   // ApiVersions with error 35 or 42
	mechanismAgreed                   // SaslHandshake for a mechanism that is offered
	mechanismChanged                  // the same, again, but not for the one of the first login
	mechanismUnknown                  // error 33
	handshakeUntimely                 // error 34: no session end, or less than a second after the last
	firstAnswered                     // SaslAuthenticate; another must follow
	proved                            // SaslAuthenticate; logged in
	unproved                          // error 58
	authenticateUntimely              // SaslAuthenticate when nothing is to be proved: error 34
	otherRequest
	events
)

func (e event) String() string {
	names := [...]string{"versions answered", "versions refused", "mechanism agreed", "mechanism changed", "mechanism unknown",
		"untimely handshake", "first answered", "proved", "unproved", "untimely authenticate", "other request"}
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("event %d", uint8(e))
}

// next is the only way from one state to another. What is not named here ends the
// connection: a request out of its turn does.
func next(s state, e event) state {
	switch s {
	case fresh:
		switch e {
		case versionsAnswered:
			return versioned
		case versionsRefused:
			return fresh
		case mechanismAgreed:
			return conversing
		}
	case versioned:
		if e == mechanismAgreed {
			return conversing
		}
	case conversing:
		switch e {
		case firstAnswered:
			return conversing
		case proved:
			return ready
		}
	case ready:
		switch e {
		case mechanismAgreed:
			return conversing
		case mechanismChanged:
			return mismatched
		case versionsAnswered, versionsRefused, handshakeUntimely, authenticateUntimely, otherRequest:
			return ready
		}
	}
	return failed
}
