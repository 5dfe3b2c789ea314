package main

import (
	"context"
	"crypto/tls"
	"net"
	"slices"

	"go.uber.org/zap"

	"doorkeeper/admin"
	"doorkeeper/connections"
	"doorkeeper/gateway"
	"doorkeeper/internal/secret"
	"doorkeeper/internal/wire"
	"doorkeeper/nodestatus"
	"doorkeeper/tlsconf"
	"doorkeeper/tokens"
)

// parts is the gateway, built and not yet running.
type parts struct {
	config  *Config
	log     *zap.Logger
	loops   *loopDetector
	tls     *tlsconf.Source
	tokens  *tokens.Source
	status  *statusDialer
	nodes   *nodestatus.Watcher
	gateway *gateway.Gateway
	admin   *admin.Server

	undo []func() // what has to be given back, oldest first
}

// material is what the files of the configuration hold.
type material struct {
	server   *tlsconf.Source
	token    *tls.Config // towards the token listener
	control  *tls.Config // towards the control listener
	password secret.Text
	// operators are nil where the admin address speaks plain HTTP.
	operators *tlsconf.Operators
}

// readMaterial reads every file that the configuration names, and lets the other
// packages read their parts of it. What is wrong goes to the report, with what was
// found before.
func readMaterial(c *Config, r *report) material {
	var m material
	from, err := tlsconf.ParseFrom(string(c.Identity.From))
	r.addErrors(err)
	m.server, err = tlsconf.New(tlsconf.Config{
		Certificate: c.Listen.TLS.Certificate, Key: c.Listen.TLS.Key, ClientCA: c.Listen.TLS.ClientCA,
		From: from, Rules: c.Identity.Rules, Protected: c.Identity.Protected, Allow: c.Identity.Allow,
	})
	r.addErrors(err)
	m.token, err = tlsconf.NewClient(tlsconf.ClientFiles(c.Kafka.TLS), "kafka.tls")
	r.addErrors(err)
	m.control, err = tlsconf.NewClient(tlsconf.ClientFiles(c.Kafka.Control.TLS), "kafka.control.tls")
	r.addErrors(err)
	if c.Admin.TLS.on() {
		m.operators, err = tlsconf.NewOperators(c.operators(from))
		r.addErrors(err)
	}
	// The watcher alone reads the list of allowed addresses; this one is not kept.
	_, err = nodestatus.New(nodestatus.Config{
		Bootstrap: bootstrap(c.Kafka.Bootstrap), Dial: new(statusDialer).dial, Allowed: c.Kafka.Addresses,
	})
	r.addErrors(err)
	if s := c.Kafka.Control.SASL; s != nil && s.PasswordFile != "" {
		m.password = readPassword(s.PasswordFile, r)
	}
	return m
}

// build makes the parts in the order in which they lean on each other. Nothing is
// bound, dialled or started yet. On an error everything is undone; on success the
// caller calls close.
func build(c *Config, m material, log *zap.Logger) (_ *parts, err error) {
	p := &parts{config: c, log: log, loops: newLoopDetector(), tls: m.server}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	metrics := admin.NewMetrics()
	buffers := wire.NewBuffers()
	p.loops.ownCertificate = func() []byte { return p.tls.Current().ServerConfig().Certificates[0].Certificate[0] }

	control, err := newControl(controlConfig{
		kafka: c.Kafka.Control, tls: m.control, password: m.password, dial: c.Timeouts.Dial.span(), loops: p.loops,
	})
	if err != nil {
		return nil, err
	}
	p.undo = append(p.undo, control.Close)

	p.tokens = tokens.New(tokens.Config{
		Issuer: tokens.NewKadmIssuer(control), Instance: c.Instance,
		Lifetime: c.Tokens.Lifetime.span(), Idle: c.Tokens.Idle.span(), Limit: c.Limits.Tokens, CreationRate: c.Limits.TokenCreations, ExpireOnStop: c.Tokens.ExpireOnStop,
		// The sessions have had their time by then; the operator's patience is for both.
		StopWithin: c.Timeouts.Drain.span(),
		Observer:   metrics, Logger: log.Named("tokens"),
	})
	mechanism, err := connections.ParseMechanism(string(c.Tokens.Mechanism))
	if err != nil {
		return nil, err
	}
	dialer := connections.NewDialer(connections.Config{
		TLS: m.token, Buffers: buffers, Mechanism: mechanism, DialTimeout: c.Timeouts.Dial.span(), Stall: c.Timeouts.Stall.span(),
		Observer: metrics, OwnListener: p.isOwnListener, OwnCertificate: p.loops.ownCertificate,
		Renewal: c.Connections.Renewal.policy(),
	})
	p.status = &statusDialer{tokens: p.tokens, dialer: dialer, tls: p.tls, loops: p.loops, log: log.Named("status")}
	p.nodes, err = nodestatus.New(nodestatus.Config{
		Bootstrap: bootstrap(c.Kafka.Bootstrap), Dial: p.status.dial, Rack: c.Kafka.Rack, Allowed: c.Kafka.Addresses,
		Observer: metrics, Logger: log.Named("nodes"),
	})
	if err != nil {
		return nil, err
	}
	p.gateway, err = gateway.New(gateway.Config{
		Listen: c.Listen.Address.String(),
		Advertise: gateway.Advertise{
			Host: string(c.Listen.Advertise.Host), BasePort: int32(c.Listen.Advertise.BasePort), //nolint:gosec // validated to be a port
			Nodes: slices.Clone(c.Listen.Advertise.Nodes),
		},
		TLS: p.tls, Tokens: p.tokens, Nodes: p.nodes, Dialer: dialer, Buffers: buffers,
		Limits: gateway.Limits{
			Sessions: c.Limits.Sessions, SessionsPerOwner: c.Limits.SessionsPerOwner, SessionsPerAddress: c.Limits.SessionsPerAddress,
			HandshakesPerAddress: c.Limits.HandshakesPerAddress, InFlight: c.Limits.InFlight, Frame: int64(c.Limits.Frame),
		},
		Timeouts: gateway.Timeouts{Admission: c.Limits.Admission.span(), Drain: c.Timeouts.Drain.span(), Stall: c.Timeouts.Stall.span()},
		Rack:     c.Kafka.Rack, Observer: metrics, Logger: log.Named("gateway"),
	})
	if err != nil {
		return nil, err
	}
	p.loops.ownListener = p.isOwnListener
	desk := &operatorDesk{instance: c.Instance, tokens: p.tokens, gateway: p.gateway}
	p.admin = admin.New(desk.serve(m.operators, admin.Config{
		Address: c.Admin.Address.String(), Metrics: metrics, Ready: p.ready, Status: p.view, Logger: log.Named("admin"),
	}))
	return p, nil
}

// listen binds every listener, or none.
func (p *parts) listen(ctx context.Context) error {
	if err := p.admin.Listen(ctx); err != nil {
		return err
	}
	if err := p.gateway.Listen(ctx); err != nil {
		_ = p.admin.Close()
		return err
	}
	return nil
}

// tasks are the parts in the order in which they stop: clients first, what serves
// them after, and the operator's view at the very last.
func (p *parts) tasks() []task {
	return []task{
		{"gateway", p.gateway.Run},
		{"node status", p.nodes.Run},
		{"tokens", p.tokens.Run},
		{"admin", p.admin.Run},
	}
}

// close undoes build, in reverse.
func (p *parts) close() {
	for _, undo := range slices.Backward(p.undo) {
		undo()
	}
	p.undo = nil
}

func (p *parts) isOwnListener(a net.Addr) bool { return p.gateway != nil && p.gateway.OwnListener(a) }

func bootstrap(list []Address) []nodestatus.Address {
	out := make([]nodestatus.Address, len(list))
	for i, a := range list {
		out[i] = nodestatus.Address{Host: a.Host, Port: int32(a.Port)} //nolint:gosec // parsed to be a port
	}
	return out
}
