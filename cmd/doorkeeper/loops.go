package main

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"net"
)

// loopDetector tells when the gateway has been pointed at itself. What it finds
// ends the process: no retry can help, and a loop would eat every connection there
// is.
type loopDetector struct {
	ownListener    func(net.Addr) bool
	ownCertificate func() []byte // DER
	found          chan error    // takes one
}

func newLoopDetector() *loopDetector {
	return &loopDetector{
		ownListener:    func(net.Addr) bool { return false },
		ownCertificate: func() []byte { return nil },
		found:          make(chan error, 1),
	}
}

// check returns an error, and reports it, when the peer at addr, or the one that
// shows chain, is this gateway. Either may be nil.
func (l *loopDetector) check(addr net.Addr, chain []*x509.Certificate) error {
	var err error
	switch own := l.ownCertificate(); {
	case addr != nil && l.ownListener(addr):
		err = fmt.Errorf("the gateway is pointed at itself: %s is its own listener; kafka.bootstrap and kafka.control.bootstrap must name brokers", addr)
	case len(own) > 0 && len(chain) > 0 && bytes.Equal(chain[0].Raw, own):
		err = fmt.Errorf("the gateway is pointed at itself: the peer shows its own certificate (listen.tls.certificate); kafka.bootstrap and kafka.control.bootstrap must name brokers, and no broker may share that certificate")
	default:
		return nil
	}
	l.report(err)
	return err
}

// report hands the first finding on; it does not block.
func (l *loopDetector) report(err error) {
	select {
	case l.found <- err:
	default:
	}
}
