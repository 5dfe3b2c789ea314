package client

import "time"

// Pace says which records a writer writes, and when: records first to first+records-1, or
// for so many seconds, at rate records a second, or as fast as they go.
type Pace struct {
	first, records, rate int
	seconds              time.Duration
	began                time.Time
}

// NewPace begins a step's now.
func NewPace(s *Step) Pace {
	p := Pace{first: s.Number("first", 0), records: s.Number("records", 0), rate: s.Number("rate", 0), seconds: s.Seconds("seconds", 0), began: time.Now()}
	if p.seconds == 0 {
		p.records = max(p.records, 1)
	}
	return p
}

// Each calls write with the number of each record, when it is due, until all are written.
func (p Pace) Each(write func(i int) error) error {
	for n := 0; p.records == 0 || n < p.records; n++ {
		if p.rate > 0 {
			time.Sleep(time.Until(p.began.Add(time.Duration(n) * time.Second / time.Duration(p.rate))))
		}
		if p.seconds > 0 && time.Since(p.began) >= p.seconds {
			return nil
		}
		if err := write(p.first + n); err != nil {
			return err
		}
	}
	return nil
}
