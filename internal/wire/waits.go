package wire

// The requests that say for how long the broker may sit on them, in a field that lies
// behind others. Each layout describes a request's body up to that field, which the
// Walk keeps.

// ListOffsetsTimeout serves version 10 and later, which may wait for remote storage
// (KIP-1075).
func ListOffsetsTimeout(int16) *Layout {
	l := &Layout{flexible: true}
	l.fixed(4 + 1) // replica id, isolation level
	l.array(func() {
		l.string()
		l.array(func() {
			l.fixed(4 + 4 + 8) // partition, leader epoch, timestamp
			l.tags()
		})
		l.tags()
	})
	l.value()
	return l
}

// CreateTopicsTimeout serves every version.
func CreateTopicsTimeout(version int16) *Layout {
	l := &Layout{flexible: version >= 5}
	l.array(func() {
		l.string()
		l.fixed(4 + 2)   // partitions, replication factor
		l.array(func() { // assignment
			l.fixed(4)
			l.fixedArray(4)
			l.tags()
		})
		l.array(func() { // configuration
			l.string()
			l.string()
			l.tags()
		})
		l.tags()
	})
	l.value()
	return l
}

// DeleteTopicsTimeout serves every version.
func DeleteTopicsTimeout(version int16) *Layout {
	l := &Layout{flexible: version >= 4}
	l.array(func() {
		l.string()
		if version >= 6 {
			l.fixed(uuid)
			l.tags()
		}
	})
	l.value()
	return l
}

// DeleteRecordsTimeout serves every version.
func DeleteRecordsTimeout(version int16) *Layout {
	l := &Layout{flexible: version >= 2}
	l.array(func() {
		l.string()
		l.array(func() {
			l.fixed(4 + 8)
			l.tags()
		})
		l.tags()
	})
	l.value()
	return l
}

// CreatePartitionsTimeout serves every version.
func CreatePartitionsTimeout(version int16) *Layout {
	l := &Layout{flexible: version >= 2}
	l.array(func() {
		l.string()
		l.fixed(4)
		l.array(func() { // assignment
			l.fixedArray(4)
			l.tags()
		})
		l.tags()
	})
	l.value()
	return l
}

// ElectLeadersTimeout serves every version.
func ElectLeadersTimeout(version int16) *Layout {
	l := &Layout{flexible: version >= 2}
	if version >= 1 {
		l.fixed(1) // kind of election
	}
	l.array(func() {
		l.string()
		l.fixedArray(4)
		l.tags()
	})
	l.value()
	return l
}

// LeadingTimeout serves what begins with its timeout: AlterPartitionReassignments,
// ListPartitionReassignments, UpdateFeatures, every version.
func LeadingTimeout(int16) *Layout {
	l := &Layout{flexible: true}
	l.value()
	return l
}

// AddRaftVoterTimeout serves every version.
func AddRaftVoterTimeout(int16) *Layout {
	l := &Layout{flexible: true}
	l.string() // cluster
	l.value()
	return l
}

// ShareFetchWait serves every version: what waits for records says so at its head.
func ShareFetchWait(int16) *Layout {
	l := &Layout{flexible: true}
	l.string() // group
	l.string() // member
	l.fixed(4) // epoch of the share session
	l.value()  // max_wait_ms
	return l
}

// PeekValue walks a body of size bytes, of which those at hand are given, to the value
// of its layout. It returns ErrShort when it lies behind them, and an error that wraps
// ErrFrame when what is there cannot be right.
func PeekValue(l *Layout, body []byte, size int) (int32, error) {
	var w Walk
	w.Begin(l, size)
	_, done, err := w.Next(body)
	switch {
	case err != nil:
		return 0, err
	case !done:
		return 0, ErrShort
	}
	return w.Value, nil
}
