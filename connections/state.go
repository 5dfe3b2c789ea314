package connections

import "fmt"

// State is where a KafkaConnection is in its life.
type State uint8

// The states. Refreshing and RefreshTimeout belong to a swap (swap.go).
const (
	// Unopened: nothing was done yet.
	Unopened State = iota
	// Connecting: dialling, TLS, login.
	Connecting
	// Open: requests are taken.
	Open
	// AtRiskOfAuthTokenExpiry: the session end is near, or a newer credential is due. The
	// next request renews the session first; where that cannot be, requests are still
	// taken, but the connection waits for a quiet moment to end.
	AtRiskOfAuthTokenExpiry
	// Reauthenticating: on the same leg (KIP-368); no requests go out.
	Reauthenticating
	// Draining: no requests are taken on this leg, those that it has are answered.
	Draining
	// Refreshing: a new leg is opened in the background, the old one serves.
	Refreshing
	// RefreshTimeout: the old leg may take no more requests, and no new one came. The next
	// attempt follows as soon as a request waits for it.
	RefreshTimeout
	// Closed: the end, whatever led to it.
	Closed
)

// String returns the name used in messages, logs and labels.
func (s State) String() string {
	switch s {
	case Unopened:
		return "Unopened"
	case Connecting:
		return "Connecting"
	case Open:
		return "Open"
	case AtRiskOfAuthTokenExpiry:
		return "AtRiskOfAuthTokenExpiry"
	case Reauthenticating:
		return "Reauthenticating"
	case Draining:
		return "Draining"
	case Refreshing:
		return "Refreshing"
	case RefreshTimeout:
		return "RefreshTimeout"
	case Closed:
		return "Closed"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// event is what happens to a connection.
type event uint8

const (
	dialBegun       event = iota // Open was called
	loggedIn                     // the leg takes requests
	riskBegun                    // the session end is near, or a newer credential is due
	reauthBegun                  // SaslHandshake was written behind what is in flight
	reauthenticated              // the broker's final answer is verified
	reauthPostponed              // error 34: it came too soon after the last; the leg lives
	refreshBegun                 // a new leg is being opened
	refreshFailed                // it could not be; the old leg serves on
	refreshTimedOut              // it could not be, and the old leg may take no more
	refreshed                    // it is logged in and checked: the old one drains
	switched                     // the old leg is quiet, the new one takes over
	drainBegun                   // half-closed: no more requests
	ended                        // failed, closed or aborted
	eventCount      = int(ended) + 1
)

func (e event) String() string {
	names := [...]string{
		"dialBegun", "loggedIn", "riskBegun", "reauthBegun", "reauthenticated", "reauthPostponed",
		"refreshBegun", "refreshFailed", "refreshTimedOut", "refreshed", "switched", "drainBegun", "ended",
	}
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("event %d", uint8(e))
}

// next is the one place where states follow from one another. What it does not name
// cannot happen; the error says what was tried.
func (s State) next(e event) (State, error) {
	if e == ended {
		return Closed, nil
	}
	switch s {
	case Unopened:
		if e == dialBegun {
			return Connecting, nil
		}
	case Connecting:
		if e == loggedIn {
			return Open, nil
		}
	case Open:
		switch e {
		case riskBegun:
			return AtRiskOfAuthTokenExpiry, nil
		case reauthBegun: // asked for before the session end is near
			return Reauthenticating, nil
		case drainBegun:
			return Draining, nil
		}
	case AtRiskOfAuthTokenExpiry:
		switch e {
		case reauthBegun:
			return Reauthenticating, nil
		case refreshBegun:
			return Refreshing, nil
		case drainBegun:
			return Draining, nil
		}
	case Reauthenticating:
		switch e {
		case reauthenticated:
			return Open, nil
		case reauthPostponed:
			return AtRiskOfAuthTokenExpiry, nil
		}
	case Refreshing:
		switch e {
		case refreshed:
			return Draining, nil
		case refreshFailed:
			return AtRiskOfAuthTokenExpiry, nil
		case refreshTimedOut:
			return RefreshTimeout, nil
		case drainBegun: // its user has ended meanwhile
			return Draining, nil
		}
	case RefreshTimeout:
		switch e {
		case reauthBegun: // share sessions came meanwhile: no swap any more
			return Reauthenticating, nil
		case refreshBegun:
			return Refreshing, nil
		case drainBegun:
			return Draining, nil
		}
	case Draining:
		switch e {
		case switched:
			return Open, nil
		case refreshFailed: // the new leg died while it waited for the old one
			return AtRiskOfAuthTokenExpiry, nil
		case drainBegun: // its user has ended meanwhile
			return Draining, nil
		}
	case Closed:
	}
	return s, fmt.Errorf("connections: %s in state %s", e, s)
}
