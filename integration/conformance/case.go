package conformance

import "github.com/twmb/franz-go/pkg/kmsg"

// Want is what a question has to be answered with.
type Want uint8

// Answers.
const (
	// Success: no error code in it, and not empty.
	Success Want = iota
	// Failure: one of the Case's Codes in it.
	Failure
	// Either: whatever the broker says or does, as long as the gateway does too.
	Either
)

// Place is which node is asked.
type Place uint8

// Places. All internal topics have one partition, so there is one coordinator of groups
// and one of transactions.
const (
	AtLeader           Place = iota // of every topic's partition 0: node 1
	AtGroupCoordinator              // of all groups
	AtOther                         // any node but the coordinator of groups
	AtTxnCoordinator                // of all transactional ids
)

// Case is one question, asked at each version on both sides.
type Case struct {
	Key  kmsg.Key
	Name string // what happens in it, or what it is about; unique for the key
	Want Want
	// Codes are the errors of which a Failure has to carry one. With Either, they are no
	// reason to ask again, even where they are such that pass by themselves.
	Codes []int16
	// From and Before are the versions; a Before of 0 means all from From on.
	From, Before int16
	// Shared questions change nothing. Both sides get the same bytes, and the direct one
	// gets them again behind the gateway: where the two direct answers differ, something
	// was still moving, and all is asked again. The others ask for something of the side's
	// own.
	Shared bool
	At     Place
	As     User // empty: Rich
	Via    Via  // for the direct side
	// Silent requests have no answer.
	Silent bool
	// Refused, where it is set, says why the gateway closes the connection, whatever the
	// broker does.
	Refused string
	// Request makes the question; it may prepare it by s.do and s.ok.
	Request func(s *Side, version int16) kmsg.Request
	// Good, where it is set, replaces the check that a successful answer is not empty.
	Good func(response kmsg.Response) bool
	// Masks are what may differ in the answers.
	Masks []Mask
	// Patch changes the frame, its length in front, before it is sent; nil: nothing.
	Patch func(frame []byte)
}

func (c Case) covers(version int16) bool {
	return version >= c.From && (c.Before == 0 || version < c.Before)
}

// anything is for successes that are rightly empty.
func anything(kmsg.Response) bool { return true }

// Cases are all questions, in the order in which they are asked.
func Cases() []Case {
	var all []Case
	for _, some := range [][]Case{
		connectionCases(), recordCases(), offsetCases(),
		groupCases(), newGroupCases(), shareCases(), streamsCases(),
		transactionCases(), metadataCases(), topicCases(), replicaCases(),
		configCases(), rightsCases(), clusterCases(),
	} {
		all = append(all, some...)
	}
	return all
}

// Errors that come up in more than one group of keys.
const (
	offsetOutOfRange = 1
	unknownTopic     = 3
	notLeader        = 6
	notCoordinator   = 16
	unknownMember    = 25
	topicDenied      = 29
	groupDenied      = 30
	clusterDenied    = 31
	illegalSaslState = 34
	unsupported      = 35
	invalidRequest   = 42
	txnDenied        = 53
	tokensNotAllowed = 64
	groupNotFound    = 69
	memberIDRequired = 79
	unknownTopicID   = 100
	resourceNotFound = 91
	txnIDNotFound    = 105
	invalidUpdate    = 95
	notRegistered    = 102
	noShareSession   = 122
	badEndpointType  = 115
)
