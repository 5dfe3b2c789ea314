package wire

// The answers whose leaders' addresses lie behind what may be 100 MB of records. Each
// layout describes an answer from behind its correlation id, header's tags included, up
// to where the addresses begin.

const uuid = 16

// ProduceAnswer is a Produce answer, version 10 to 13, up to the tagged fields at its
// end, of which number 0 are the leaders' addresses (KIP-951).
func ProduceAnswer(version int16) *Layout {
	l := &Layout{flexible: version >= 9}
	l.tags() // of the header
	l.array(func() {
		l.topic(version >= 13)
		l.array(func() {
			l.fixed(4 + 2 + 8 + 8 + 8) // partition, error, base offset, append time, log start
			l.array(func() {           // records in error (KIP-467)
				l.fixed(4)
				l.string()
				l.tags()
			})
			l.string() // error message
			l.tags()   // current leader among them
		})
		l.tags()
	})
	l.fixed(4) // throttle time
	return l
}

// FetchAnswer is a Fetch answer, version 16 to 18, up to the tagged fields at its end,
// of which number 0 are the leaders' addresses (KIP-951).
func FetchAnswer(version int16) *Layout {
	l := &Layout{flexible: version >= 12}
	l.tags()           // of the header
	l.fixed(4 + 2 + 4) // throttle time, error, session
	l.array(func() {
		l.topic(version >= 13)
		l.array(func() {
			l.fixed(4 + 2 + 8 + 8 + 8) // partition, error, high watermark, last stable offset, log start
			l.array(func() {           // aborted transactions
				l.fixed(8 + 8)
				l.tags()
			})
			l.fixed(4) // preferred read replica
			l.bytes()  // records
			l.tags()   // diverging epoch, current leader, snapshot
		})
		l.tags()
	})
	return l
}

// ShareFetchAnswer is a ShareFetch answer, version 0 to 2, up to the array of the
// leaders' addresses (KIP-932), which has the tagged fields behind it.
func ShareFetchAnswer(version int16) *Layout {
	l := &Layout{flexible: true}
	l.shareHead(version >= 1)
	l.array(func() {
		l.topic(true)
		l.array(func() {
			l.fixed(4 + 2)
			l.string() // error message
			l.fixed(2)
			l.string()     // error message of the acknowledgements
			l.fixed(4 + 4) // current leader
			l.tags()
			l.bytes()        // records
			l.array(func() { // acquired records
				l.fixed(8 + 8 + 2)
				l.tags()
			})
			l.tags()
		})
		l.tags()
	})
	return l
}

// ShareAcknowledgeAnswer is a ShareAcknowledge answer, version 0 to 2, up to the array
// of the leaders' addresses (KIP-932), which has the tagged fields behind it.
func ShareAcknowledgeAnswer(version int16) *Layout {
	l := &Layout{flexible: true}
	l.shareHead(version >= 2)
	l.array(func() {
		l.topic(true)
		l.array(func() {
			l.fixed(4 + 2)
			l.string()     // error message
			l.fixed(4 + 4) // current leader
			l.tags()
			l.tags()
		})
		l.tags()
	})
	return l
}

// topic is the name or, in later versions, the id of a topic (KIP-516).
func (l *Layout) topic(byID bool) {
	if byID {
		l.fixed(uuid)
	} else {
		l.string()
	}
}

func (l *Layout) shareHead(lockTimeout bool) {
	l.tags()       // of the header
	l.fixed(4 + 2) // throttle time, error
	l.string()     // error message
	if lockTimeout {
		l.fixed(4)
	}
}
