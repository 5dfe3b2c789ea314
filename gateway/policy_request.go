package gateway

import (
	"errors"
	"time"

	"doorkeeper/connections"
	"doorkeeper/internal/wire"
)

// inspection is what a request's body says about its way through the gateway.
type inspection struct {
	wait     time.Duration // connections.Unbounded, or at most so long
	answered bool          // false for Produce with acks=0
	refuse   string        // why it must not pass, "" otherwise
}

// fetchReplicaTag is the first Fetch version that carries the replica id in a tag
// at its end (KIP-903).
const fetchReplicaTag = 15

// inspect reads of a request's body what the rule needs. body begins behind the
// header and is what is at hand of size bytes. It returns wire.ErrShort when more is
// needed, and never when there is no more; an error that wraps wire.ErrFrame when a
// broker could not read it either.
func (r *rule) inspect(version int16, body []byte, size int) (inspection, error) {
	in := inspection{answered: true}
	var err error
	switch r.wait {
	case waitProduce:
		var p wire.ProducePeek
		p, err = wire.PeekProduce(body, version)
		in.answered = p.Acks != 0
		if p.Acks == -1 {
			in.wait = max(p.Timeout, 0)
		}
	case waitFetch:
		if version >= fetchReplicaTag && len(body) < size {
			return inspection{}, wire.ErrShort
		}
		var p wire.FetchPeek
		p, err = wire.PeekFetch(body, version)
		in.wait = max(p.MaxWait, 0)
		if p.ReplicaID >= 0 {
			in.refuse = "Fetch with a replica id is for brokers"
		}
	case waitField:
		if version < r.waits {
			break
		}
		var millis int32
		millis, err = wire.PeekValue(r.fields[version], body, size)
		in.wait = time.Duration(max(millis, 0)) * time.Millisecond
	case waitUnbounded:
		in.wait = connections.Unbounded
	case waitNone:
	}
	if err != nil {
		if errors.Is(err, wire.ErrShort) && len(body) == size {
			err = wire.ErrFrame // there are no more
		}
		return inspection{}, err
	}
	return in, nil
}
