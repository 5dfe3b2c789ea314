package tokens

import "fmt"

// State is where the token of one owner stands.
type State uint8

const (
	// Absent: no usable token, and no creation under way. An owner that the
	// source does not hold is absent too.
	Absent State = iota
	// Creating: no usable token; one is being created.
	Creating
	// Live: a token is published.
	Live
	// Replacing: a token is published and its successor is being created.
	Replacing
	// Retiring: the owner is being forgotten and its tokens expired.
	Retiring
	// Failed: no usable token, the last creation failed, back-off runs.
	Failed

	stateCount
)

// String returns the name used in metrics and logs.
func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case Creating:
		return "creating"
	case Live:
		return "live"
	case Replacing:
		return "replacing"
	case Retiring:
		return "retiring"
	case Failed:
		return "failed"
	default:
		return fmt.Sprintf("state(%d)", uint8(s))
	}
}

// event is what moves a State.
type event uint8

const (
	evDemand  event = iota // a session needs a token and there is none
	evDue                  // the published token should be replaced
	evCreated              // a creation succeeded, or what its lost answer told of was found; the token is published
	evAdopted              // a token of this instance, made before it was started, is published
	evFailed               // a creation failed for good or used up its attempts
	evLost                 // the published token is gone at Kafka, or its life is over
	evForget               // nobody has needed the owner for long
	evStop                 // the source is being stopped
	evRetired              // the tokens are expired, or left behind on purpose

	eventCount
)

func (e event) String() string {
	switch e {
	case evDemand:
		return "demand"
	case evDue:
		return "due"
	case evCreated:
		return "created"
	case evAdopted:
		return "adopted"
	case evFailed:
		return "failed"
	case evLost:
		return "lost"
	case evForget:
		return "forget"
	case evStop:
		return "stop"
	case evRetired:
		return "retired"
	default:
		return fmt.Sprintf("event(%d)", uint8(e))
	}
}

// next is the one transition function. An event that cannot happen in s leaves s
// as it is and is an error with both names.
func (s State) next(ev event) (State, error) {
	switch s {
	case Absent, Failed:
		switch ev {
		case evDemand:
			return Creating, nil
		case evAdopted:
			return Live, nil
		case evForget, evStop:
			return Retiring, nil
		}
	case Creating:
		switch ev {
		case evCreated:
			return Live, nil
		case evFailed:
			return Failed, nil
		case evStop:
			return Retiring, nil
		}
	case Live:
		switch ev {
		case evDue:
			return Replacing, nil
		case evLost:
			return Absent, nil
		case evForget, evStop:
			return Retiring, nil
		}
	case Replacing:
		switch ev {
		case evCreated, evFailed:
			// A token that still lives is served while its replacement fails.
			return Live, nil
		case evLost:
			return Creating, nil
		case evStop:
			return Retiring, nil
		}
	case Retiring:
		if ev == evRetired {
			return Absent, nil
		}
	}
	return s, fmt.Errorf("tokens: event %s cannot happen in state %s", ev, s)
}
