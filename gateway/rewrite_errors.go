package gateway

import "bytes"

// A broker that refuses something to somebody without rights on the cluster prints the
// request into its error message, as an object of its JVM, and with it the connection
// that the request came over: the addresses of a broker's listener and of the broker or
// the controller that forwarded it. Only these messages do so (seen in 3.8.1 to 4.4.0, and
// read in Kafka's source: the APIs that are authorized on the cluster as a whole, and
// whose answer to an exception has its text in it).
//
// Clients get such a message without what stands in the parentheses: "Request Request()
// needs ALTER permission." Every other message stays as it is, and so does every other
// byte.

// connectionMark is in front of each connection that is printed.
var connectionMark = []byte("connectionId=")

// scrubbed is an error message without the requests in it: everything is left out from the
// parenthesis before the mark to the last one behind it. It never has the mark in it, and
// shares memory with message only where nothing changes.
func scrubbed(message []byte) []byte {
	for {
		mark := bytes.Index(message, connectionMark)
		if mark < 0 {
			return message
		}
		from := bytes.LastIndexByte(message[:mark], '(') + 1
		to := bytes.LastIndexByte(message[mark:], ')')
		if to < 0 {
			to = len(message) - mark
		}
		message = append(bytes.Clone(message[:from]), message[mark+to:]...)
	}
}

// message reads an error message, null or not, and puts in its place what clients may
// see of it.
func (s *splice) message(flexible bool) {
	from := s.At()
	text := s.String(flexible)
	if s.Err() != nil || !bytes.Contains(text, connectionMark) {
		return
	}
	s.replace(from, s.At(), appendString(nil, scrubbed(text), flexible))
}

// errorText reads an error's code and message.
func (s *splice) errorText(flexible bool) {
	s.Skip(2)
	s.message(flexible)
}

// endElement reads the tagged fields of an element.
func (s *splice) endElement(flexible bool) {
	if flexible {
		s.Tags()
	}
}

// scrubFront serves the answers that begin with throttle time, error and message, and
// have no other message: DescribeACLs, ListPartitionReassignments, UnregisterBroker,
// UnregisterController.
func scrubFront(flexible int16) rewriter {
	return func(s *splice, version int16) {
		s.Skip(4) // throttle time
		s.errorText(version >= flexible)
	}
}

// scrubCreateACLs serves all versions.
func scrubCreateACLs(s *splice, version int16) {
	flexible := version >= 2
	s.Skip(4) // throttle time
	s.Each(s.Count(flexible), func() {
		s.errorText(flexible)
		s.endElement(flexible)
	})
}

// scrubDeleteACLs serves all versions.
func scrubDeleteACLs(s *splice, version int16) {
	flexible := version >= 2
	s.Skip(4)                          // throttle time
	s.Each(s.Count(flexible), func() { // filters
		s.errorText(flexible)
		s.Each(s.Count(flexible), func() { // ACLs that match
			s.errorText(flexible)
			s.Skip(1)          // resource type
			s.String(flexible) // resource
			if version >= 1 {
				s.Skip(1) // pattern type
			}
			s.String(flexible) // principal
			s.String(flexible) // host
			s.Skip(1 + 1)      // operation, permission
			s.endElement(flexible)
		})
		s.endElement(flexible)
	})
}

// scrubElectLeaders serves all versions.
func scrubElectLeaders(s *splice, version int16) {
	s.Skip(4) // throttle time
	if version >= 1 {
		s.Skip(2) // error
	}
	s.partitionErrors(version >= 2)
}

// scrubReassignments serves AlterPartitionAssignments, all versions.
func scrubReassignments(s *splice, version int16) {
	s.Skip(4) // throttle time
	if version >= 1 {
		s.Skip(1) // whether the replication factor may change
	}
	s.errorText(true)
	s.partitionErrors(true)
}

// partitionErrors reads topics, and of each partition its error and message.
func (s *splice) partitionErrors(flexible bool) {
	s.Each(s.Count(flexible), func() {
		s.String(flexible) // topic
		s.Each(s.Count(flexible), func() {
			s.Skip(4) // partition
			s.errorText(flexible)
			s.endElement(flexible)
		})
		s.endElement(flexible)
	})
}

// scrubSCRAM serves AlterUserSCRAMCredentials.
func scrubSCRAM(s *splice, _ int16) {
	s.Skip(4) // throttle time
	s.namedErrors()
}

// scrubFeatures serves UpdateFeatures, all versions: from 2 on there is one error alone.
func scrubFeatures(s *splice, version int16) {
	s.Skip(4) // throttle time
	s.errorText(true)
	if version <= 1 {
		s.namedErrors()
	}
}

// namedErrors reads names, and of each its error and message.
func (s *splice) namedErrors() {
	s.Each(s.Count(true), func() {
		s.String(true)
		s.errorText(true)
		s.Tags()
	})
}
