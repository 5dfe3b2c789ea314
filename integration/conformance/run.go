package conformance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Suite is all questions for one cluster and one gateway in front of it. The brokers have
// to be 1, 2 and 3; Rich may do everything there, Poor nothing.
type Suite struct {
	World           *World // with its nodes; the rest is made
	Direct, Gateway *Side
	// Brokers and Addresses are where clients find each node: directly, and through the
	// gateway.
	Brokers, Addresses map[int32]Address
}

// run is a run of a Suite.
type run struct {
	*Suite
	rewritten   Rewritten
	report      *Report
	correlation int32
}

// Run asks everything, in order, and returns what came of it. An error means that it
// could not be asked; ctx ends the run between questions.
func (s *Suite) Run(ctx context.Context) (*Report, error) {
	if err := s.World.prepare(ctx, s.Direct, s.Gateway); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	r := &run{Suite: s, report: newReport(s.World)}
	r.rewritten = Rewritten{Brokers: s.Brokers, Gateway: s.Addresses, Offered: s.World.Offered}
	r.offer()
	for _, c := range Cases() {
		from, to := r.World.versions(c.Key)
		for v := from; v <= to; v++ {
			if !c.covers(v) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return r.report, context.Cause(ctx)
			}
			r.ask(c, v, v == to || c.Before == v+1)
		}
	}
	if err := r.probe(ctx); err != nil {
		return r.report, err
	}
	r.report.cover()
	return r.report, nil
}

// versions are those of a key that both sides serve, or that the gateway answers here.
func (w *World) versions(key kmsg.Key) (from, to int16) {
	served, ok := w.Served[int16(key)]
	if !ok {
		return 0, -1
	}
	from, to = served[0], min(served[1], kmsg.RequestForKey(int16(key)).MaxVersion())
	if here, ok := withheld(int16(key), from); ok && here.Answered {
		return from, to
	}
	offered, ok := w.Offered[int16(key)]
	if !ok {
		return 0, -1
	}
	return from, min(to, offered[1])
}

// offer holds what is offered against what may be withheld.
func (r *run) offer() {
	for key, served := range r.World.Served {
		offered, ok := r.World.Offered[key]
		for v := served[0]; v <= served[1]; v++ {
			there := ok && offered[0] <= v && v <= offered[1]
			_, expected := withheld(key, v)
			name := fmt.Sprintf("%s v%d", kmsg.NameForKey(key), v)
			switch {
			case !there && !expected:
				r.report.differ(key, name+" is served by the broker and not offered by the gateway")
			case there && expected:
				r.report.differ(key, name+" is offered by the gateway, which should not")
			}
		}
		if ok && (offered[0] != served[0] || offered[1] > served[1]) {
			r.report.differ(key, fmt.Sprintf("%s is offered in versions %v, by the broker in %v", kmsg.NameForKey(key), offered, served))
		}
	}
	for key := range r.World.Offered {
		if _, ok := r.World.Served[key]; !ok {
			r.report.differ(key, kmsg.NameForKey(key)+" is offered by the gateway and not by the broker")
		}
	}
}

// How often a question is asked again that has met something that was still moving.
const (
	tries = 100
	pause = 50 * time.Millisecond
)

// ask asks a case at a version on both sides and notes what came of it. The newest
// version of each case shows too that the comparison would have noticed.
func (r *run) ask(c Case, version int16, newest bool) {
	what := fmt.Sprintf("%s v%d, %s", kmsg.NameForKey(int16(c.Key)), version, c.Name)
	began := time.Now()
	try := 1
	defer func() { r.report.took(fmt.Sprintf("%s (%d)", what, try), time.Since(began)) }()
	for ; ; try++ {
		q, err := r.exchange(c, version)
		if err != nil {
			r.report.fault(int16(c.Key), what+": "+err.Error())
			return
		}
		if q.moving != "" && try < tries {
			time.Sleep(pause)
			continue
		}
		if q.moving != "" {
			r.report.fault(int16(c.Key), what+": it never stands still: "+q.moving)
			return
		}
		r.note(c, version, what, q, newest)
		return
	}
}

// question is a request that both sides have answered.
type question struct {
	comparison      Comparison
	direct, gateway Answer
	parsed          kmsg.Response // the direct answer
	moving          string        // why it has to be asked again
}

func (r *run) exchange(c Case, version int16) (question, error) {
	r.correlation++
	direct, err := r.Direct.question(c, version, r.correlation)
	if err != nil {
		return question{}, err
	}
	gateway, err := r.Gateway.question(c, version, r.correlation)
	if err != nil {
		return question{}, err
	}
	q := question{direct: direct.answer, gateway: gateway.answer}
	q.comparison = Comparison{Request: direct.request, Masks: c.Masks, Rewritten: &r.rewritten}
	if !c.Shared {
		q.comparison.Pairs = pairs(r.Direct, r.Gateway)
	}
	same := Comparison{Pairs: append(q.comparison.Pairs, numberPairs(r.Direct, r.Gateway)...)}
	if !bytes.Equal(same.exchanged(direct.frame), gateway.frame) {
		return q, fmt.Errorf("the requests are not equal: %x and %x", direct.frame, gateway.frame)
	}
	if q.direct.Frame != nil {
		if q.parsed, err = q.comparison.Parse(q.direct.Frame); err != nil {
			return q, err
		}
		q.moving = passing(c, q.parsed)
	}
	if q.gateway.Frame != nil && q.moving == "" {
		parsed, err := q.comparison.Parse(q.gateway.Frame)
		if err == nil { // else it is a difference
			q.moving = passing(c, parsed)
		}
	}
	if c.Shared && q.moving == "" {
		again, err := r.Direct.question(c, version, r.correlation)
		if err != nil {
			return q, err
		}
		still := Comparison{Request: direct.request, Masks: c.Masks}
		if differences, _ := still.Compare(q.direct, again.answer); len(differences) > 0 {
			q.moving = differences[0]
		}
	}
	return q, nil
}

// passing names an error that passes by itself and is not what the case wants.
func passing(c Case, response kmsg.Response) string {
	for _, code := range ErrorCodes(response) {
		if transient(code) && !slices.Contains(c.Codes, code) {
			return fmt.Sprintf("error %d", code)
		}
	}
	return ""
}

// asked is a question of one side.
type asked struct {
	request kmsg.Request
	frame   []byte
	answer  Answer
}

// question makes a case's request and sends it.
func (s *Side) question(c Case, version int16, correlation int32) (a asked, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.error
		}
	}()
	s.via = way{s.node(c.At), c.As, c.Via}
	if s.via.user == "" {
		s.via.user = Rich
	}
	s.learned, s.numbers = nil, nil
	a.request = c.Request(s, version)
	a.request.SetVersion(version)
	a.frame = encode(a.request, correlation)
	if c.Patch != nil {
		c.Patch(a.frame)
	}
	if c.Silent {
		a.answer, err = s.sendSilently(s.via, a.frame)
	} else {
		a.answer, err = s.send(s.via, a.request, a.frame)
	}
	return a, err
}

func (w *World) node(p Place) int32 {
	switch p {
	case AtGroupCoordinator:
		return w.GroupNode
	case AtOther:
		return w.Other(w.GroupNode)
	case AtTxnCoordinator:
		return w.TxnNode
	default:
		return 1
	}
}

// note puts an answered question into the report.
func (r *run) note(c Case, version int16, what string, q question, newest bool) {
	row := r.report.row(int16(c.Key))
	if c.Refused != "" {
		if !q.gateway.Closed {
			r.report.differ(int16(c.Key), what+": the gateway does not close the connection")
		}
		row.refuse(version, c)
		return
	}
	differences, needed := q.comparison.Compare(q.direct, q.gateway)
	for _, d := range differences {
		r.report.differ(int16(c.Key), what+": "+d)
	}
	row.note(c, version, q, needed)
	if problem := c.judge(q); problem != "" {
		r.report.fault(int16(c.Key), what+": "+problem)
	}
	if newest && len(differences) == 0 && q.gateway.Frame != nil && len(q.gateway.Frame) <= flippable {
		flips, err := q.comparison.Flip(q.direct, q.gateway)
		if err != nil {
			r.report.fault(int16(c.Key), what+": "+err.Error())
		}
		r.report.Flips.Planted += flips.Planted
		r.report.Flips.Unnoticed += flips.Unnoticed
	}
}

// flippable is the longest answer of which every byte is changed.
const flippable = 2_000

// judge says what the direct answer lacks of what the case wants.
func (c Case) judge(q question) string {
	if c.Want == Either {
		return ""
	}
	if q.direct.Frame == nil {
		return "the broker closes the connection"
	}
	codes := slices.DeleteFunc(ErrorCodes(q.parsed), func(code int16) bool { return code == 0 })
	switch {
	case c.Want == Failure && !slices.ContainsFunc(codes, func(code int16) bool { return slices.Contains(c.Codes, code) }):
		return fmt.Sprintf("errors %v, and none of %v: %+v", codes, c.Codes, q.parsed)
	case c.Want == Success && len(codes) > 0:
		return fmt.Sprintf("errors %v: %+v", codes, q.parsed)
	case c.Want == Success && c.Good != nil && !c.Good(q.parsed):
		return fmt.Sprintf("it is not what it should be: %+v", q.parsed)
	case c.Want == Success && c.Good == nil && hollow(q.parsed):
		return fmt.Sprintf("it is empty: %+v", q.parsed)
	}
	return ""
}
