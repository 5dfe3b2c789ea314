package gateway

import "fmt"

// phase is where a session stands.
type phase uint8

const (
	phaseAdmitted   phase = iota // TLS is up, no request was seen yet
	phaseConnecting              // the first request is here, the broker leg is being made
	phaseRelaying                // both legs stand
	phaseDraining                // no further request is taken, answers still pass
	phaseClosed
)

// String is what the log shows.
func (p phase) String() string {
	return [...]string{"admitted", "connecting", "relaying", "draining", "closed"}[p]
}

// step is what moves a session on.
type step uint8

const (
	stepRequest step = iota // a request came that a broker has to answer
	stepConnected
	stepDrain // no further request
	stepClose
)

func (e step) String() string {
	return [...]string{"request", "connected", "drain", "close"}[e]
}

// next is the one place where a session's phase changes.
func (p phase) next(e step) (phase, error) {
	switch {
	case e == stepClose:
		return phaseClosed, nil
	case p == phaseAdmitted && e == stepRequest:
		return phaseConnecting, nil
	case p == phaseConnecting && e == stepConnected:
		return phaseRelaying, nil
	case p == phaseRelaying && e == stepDrain:
		return phaseDraining, nil
	}
	return p, fmt.Errorf("gateway: a session that is %v cannot take %v", p, e)
}
