package main

import (
	"crypto/x509"
	"net"
	"strings"
	"testing"
)

// TestLoopIsFoundOnceAndSaid is S23: by address and by certificate.
func TestLoopIsFoundOnceAndSaid(t *testing.T) {
	own := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092}
	other := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9093}
	mine, theirs := []*x509.Certificate{{Raw: []byte("mine")}}, []*x509.Certificate{{Raw: []byte("theirs")}, {Raw: []byte("mine")}}

	l := newLoopDetector()
	if err := l.check(own, mine); err != nil {
		t.Errorf("found without knowing itself: %v", err)
	}
	l.ownListener = func(a net.Addr) bool { return a.String() == own.String() }
	l.ownCertificate = func() []byte { return []byte("mine") }
	if err := l.check(other, theirs); err != nil {
		t.Errorf("a stranger is taken for itself: %v", err)
	}
	if err := l.check(nil, nil); err != nil {
		t.Errorf("nothing is taken for itself: %v", err)
	}
	for _, err := range []error{l.check(own, nil), l.check(nil, mine), l.check(own, theirs)} {
		if err == nil || !strings.Contains(err.Error(), "pointed at itself") || !strings.Contains(err.Error(), "must name brokers") {
			t.Errorf("got %v", err)
		}
	}
	if err := <-l.found; !strings.Contains(err.Error(), "127.0.0.1:9092 is its own listener") {
		t.Errorf("the first finding is %v", err)
	}
	select {
	case err := <-l.found:
		t.Errorf("a second finding: %v", err)
	default:
	}
}
