package nodestatus

import "fmt"

// State is what is believed of a broker.
type State uint8

const (
	// Unknown: listed by nobody yet, and not tried.
	Unknown State = iota
	// Up: alive, as the brokers or a session say.
	Up
	// Suspect: a session could not reach it, or it was down and is listed again.
	Suspect
	// Down: fenced, or not listed any more, or not reached again and again.
	Down

	stateCount
)

// String returns the name used in metrics and logs.
func (s State) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Up:
		return "up"
	case Suspect:
		return "suspect"
	case Down:
		return "down"
	default:
		return fmt.Sprintf("state(%d)", uint8(s))
	}
}

// event is what moves a State.
type event uint8

const (
	evListed    event = iota // the brokers list it as alive, and no failure is fresh
	evNotListed              // fenced, or missing among those alive
	evFailed                 // a session could not reach it
	evFailedOn               // and again, suspectFor or more after the first failure
	evSucceeded              // a session reached it
	evForgiven               // no broker at all could be reached, and now one can

	eventCount
)

func (e event) String() string {
	switch e {
	case evListed:
		return "listed"
	case evNotListed:
		return "not listed"
	case evFailed:
		return "failed"
	case evFailedOn:
		return "failed again"
	case evSucceeded:
		return "succeeded"
	case evForgiven:
		return "forgiven"
	default:
		return fmt.Sprintf("event(%d)", uint8(e))
	}
}

// next is the one transition function. Every event can happen in every state,
// since brokers and sessions see a node independently; an unknown event is an
// error with both names.
func (s State) next(ev event) (State, error) {
	switch ev {
	case evListed:
		if s == Down {
			// Its place in a list does not prove that it can be reached from here.
			return Suspect, nil
		}
		return Up, nil
	case evNotListed:
		return Down, nil
	case evFailed:
		if s == Down {
			return Down, nil
		}
		return Suspect, nil
	case evFailedOn:
		if s == Unknown || s == Up {
			return Suspect, nil
		}
		return Down, nil
	case evSucceeded:
		return Up, nil
	case evForgiven:
		// What failed then was the network or the whole cluster, and says nothing
		// about one broker.
		return Unknown, nil
	default:
		return s, fmt.Errorf("nodestatus: event %s cannot happen in state %s", ev, s)
	}
}
