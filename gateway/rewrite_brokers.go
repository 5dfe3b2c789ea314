package gateway

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"
)

// The answers that are read whole. Each function is the message's definition, as far as
// it has to be walked.

// rewriteMetadata serves all versions. Controller, leaders and replicas are named by
// their ids alone. A broker that has no address at the gateway is left out.
func rewriteMetadata(s *splice, version int16) {
	flexible := version >= 9
	if version >= 3 {
		s.Skip(4) // throttle time
	}
	s.list(flexible, func() bool {
		stays := s.address(s.Int32(), flexible)
		if version >= 1 {
			s.String(flexible) // rack
		}
		if flexible {
			s.Tags()
		}
		return stays
	})
}

// rewriteDescribeCluster serves brokers, fenced ones included (KIP-1073). One that has
// no address at the gateway is left out.
func rewriteDescribeCluster(s *splice, version int16) {
	s.Skip(4 + 2)  // throttle time, error
	s.String(true) // error message
	if version >= 1 {
		s.Skip(1) // endpoint type
	}
	s.String(true) // cluster
	s.Skip(4)      // controller
	s.list(true, func() bool {
		stays := s.address(s.Int32(), true)
		s.String(true) // rack
		if version >= 2 {
			s.Skip(1) // fenced
		}
		s.Tags()
		return stays
	})
}

// rewriteFindCoordinator serves the single form (v0 to 3) and the batched one
// (KIP-699). Entries in error carry node -1 and no address, and stay.
func rewriteFindCoordinator(s *splice, version int16) {
	if version >= 1 {
		s.Skip(4) // throttle time
	}
	if version <= 3 {
		flexible := version >= 3
		code := s.At()
		s.Skip(2)
		if version >= 1 {
			s.String(flexible) // error message
		}
		if c := s.coordinator(flexible); c.gone {
			s.replace(code, code+2, notAvailable())
			s.replace(c.from, c.to, nowhere(flexible))
		}
		return
	}
	s.list(true, func() bool {
		s.String(true) // key
		c := s.coordinator(true)
		code := s.At()
		s.Skip(2)
		if c.gone && s.Err() == nil {
			s.replace(c.from, c.to, nowhere(true))
			s.replace(code, code+2, notAvailable())
		}
		s.String(true) // error message
		s.Tags()
		return true
	})
}

// coordinator is where an answer says which node coordinates, and where that is.
type coordinator struct {
	from, to int
	gone     bool // it has no address at the gateway
}

// coordinator reads node, host and port, and puts the gateway's address in their place
// where there is one.
func (s *splice) coordinator(flexible bool) coordinator {
	c := coordinator{from: s.At()}
	node := s.Int32()
	ahead := s.Cursor
	if host := ahead.String(flexible); node < 0 && len(host) == 0 {
		s.String(flexible)
		s.Skip(4)
		return c
	}
	c.gone = !s.address(node, flexible) && s.Err() == nil
	c.to = s.At()
	return c
}

// notAvailable and nowhere are what Kafka says while the coordinator's broker has no
// address on the client's listener.
func notAvailable() []byte {
	return binary.BigEndian.AppendUint16(nil, uint16(kerr.CoordinatorNotAvailable.Code)) //nolint:gosec // G115: signed in the protocol
}

func nowhere(flexible bool) []byte {
	return appendAddress([]byte{0xff, 0xff, 0xff, 0xff}, "", -1, flexible)
}

// rewriteDescribeQuorum empties each node's list of listeners, which came with version 2
// (KIP-853): they are controllers', and no port of the gateway leads to a controller.
func rewriteDescribeQuorum(s *splice, _ int16) {
	s.Skip(2)      // error
	s.String(true) // error message
	s.Each(s.Count(true), func() {
		s.String(true)                 // topic
		s.Each(s.Count(true), func() { // partitions
			s.Skip(4 + 2)     // partition, error
			s.String(true)    // error message
			s.Skip(4 + 4 + 8) // leader, epoch, high watermark
			for range 2 {     // voters, observers
				s.Each(s.Count(true), func() {
					s.Skip(4 + 16 + 8 + 8 + 8) // replica, directory, log end, last fetch, last caught up
					s.Tags()
				})
			}
			s.Tags()
		})
		s.Tags()
	})
	s.list(true, func() bool {
		s.Skip(4) // node
		s.list(true, func() bool {
			s.String(true) // name
			s.String(true) // host
			s.Skip(2)      // port
			s.Tags()
			return false
		})
		s.Tags()
		return true
	})
}
