package main

import (
	"os"
	"time"

	"go.uber.org/zap/zapcore"

	"doorkeeper/tokens"
)

// Config is the configuration file. A key is the yaml tags on the way to its
// field, joined by dots; so are its path in messages and, with underscores, its
// name in the environment.
type Config struct {
	Listen      Listen      `yaml:"listen"`
	Identity    Identity    `yaml:"identity"`
	Kafka       Kafka       `yaml:"kafka"`
	Instance    string      `yaml:"instance"`
	Tokens      Tokens      `yaml:"tokens"`
	Connections Connections `yaml:"connections"`
	Limits      Limits      `yaml:"limits"`
	Timeouts    Timeouts    `yaml:"timeouts"`
	Admin       Admin       `yaml:"admin"`
	Log         Log         `yaml:"log"`
}

// Listen is where clients come in.
type Listen struct {
	Address   Address   `yaml:"address"` // the bootstrap listener; its host serves the nodes' listeners too
	Advertise Advertise `yaml:"advertise"`
	TLS       ListenTLS `yaml:"tls"`
}

// Advertise is where clients are sent.
type Advertise struct {
	Mode     AdvertiseMode `yaml:"mode"`
	Host     Host          `yaml:"host"`
	BasePort int           `yaml:"base_port"` // node n is at host:(base_port + n)
	Nodes    NodeSet       `yaml:"nodes"`     // ids to listen for before the cluster was ever seen
	SNI      *SNI          `yaml:"sni"`
}

// SNI is the addresses of mode sni.
type SNI struct {
	Pattern string `yaml:"pattern"`
	Port    int    `yaml:"port"`
}

// ListenTLS is the gateway's own certificate and whom it trusts. Its fields are
// paths of PEM files.
type ListenTLS struct {
	Certificate string   `yaml:"certificate"`
	Key         string   `yaml:"key"`
	ClientCA    string   `yaml:"client_ca"`
	CRL         []string `yaml:"crl"`
	ACME        Later    `yaml:"acme"`
}

// Identity is how a client certificate becomes a principal.
type Identity struct {
	From      From     `yaml:"from"`
	Rules     []string `yaml:"rules"`
	Protected []string `yaml:"protected"`
	Allow     []string `yaml:"allow"`
}

// Kafka is the cluster.
type Kafka struct {
	Bootstrap []Address `yaml:"bootstrap"` // the token listener
	TLS       ClientTLS `yaml:"tls"`
	Control   Control   `yaml:"control"`
	Rack      string    `yaml:"rack"`
	Addresses []string  `yaml:"addresses"`
}

// ClientTLS is TLS towards brokers. Its fields are paths of PEM files.
type ClientTLS struct {
	CA          string `yaml:"ca"`
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// Control is the gateway's own login.
type Control struct {
	Bootstrap []Address `yaml:"bootstrap"`
	TLS       ClientTLS `yaml:"tls"`
	SASL      *SASL     `yaml:"sasl"` // nil: the certificate is the login
}

// SASL is the control login by SCRAM, in place of a certificate.
type SASL struct {
	Mechanism    Mechanism `yaml:"mechanism"`
	Username     string    `yaml:"username"`
	PasswordFile string    `yaml:"password_file"`
}

// Tokens is the life of delegation tokens.
type Tokens struct {
	Lifetime     Duration  `yaml:"lifetime"`
	Mechanism    Mechanism `yaml:"mechanism"`
	Idle         Duration  `yaml:"idle"`
	ExpireOnStop bool      `yaml:"expire_on_stop"`
}

// Connections is how broker legs live.
type Connections struct {
	Renewal Renewal `yaml:"renewal"`
}

// Limits bounds everything that a peer could make grow.
type Limits struct {
	Admission            Duration `yaml:"admission"` // from accept to the first complete request
	Sessions             int      `yaml:"sessions"`
	SessionsPerOwner     int      `yaml:"sessions_per_owner"`
	SessionsPerAddress   int      `yaml:"sessions_per_address"`
	HandshakesPerAddress int      `yaml:"handshakes_per_address"`
	InFlight             int      `yaml:"in_flight"` // requests of one session
	Tokens               int      `yaml:"tokens"`
	TokenCreations       int      `yaml:"token_creations"` // per second, for new owners
	Frame                Size     `yaml:"frame"`           // one request
}

// Timeouts bounds every wait.
type Timeouts struct {
	Dial  Duration `yaml:"dial"`
	Drain Duration `yaml:"drain"`
	Idle  Duration `yaml:"idle"`  // a broker leg unused for so long is closed
	Stall Duration `yaml:"stall"` // for the next piece, up to 64 KiB, of a frame under way
}

// Admin is the operator's listener.
type Admin struct {
	Address Address  `yaml:"address"`
	TLS     AdminTLS `yaml:"tls"`   // without it: plain HTTP
	Allow   []string `yaml:"allow"` // who may show and expire tokens, by the names of their certificates
}

// AdminTLS is TLS on the operator's listener. Its fields are paths of PEM files.
type AdminTLS struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	ClientCA    string `yaml:"client_ca"` // of operators
}

// on tells whether the listener speaks TLS.
func (t AdminTLS) on() bool { return t.Certificate != "" }

// Log is what is written to standard error.
type Log struct {
	Level  Level  `yaml:"level"`
	Format Format `yaml:"format"`
}

// defaults returns the configuration of an empty file. Keys without a default
// that makes sense everywhere stay empty, and validate asks for them.
func defaults() *Config {
	c := &Config{
		Listen: Listen{
			Address:   Address{Host: "0.0.0.0", Port: 9092},
			Advertise: Advertise{Mode: modePort, BasePort: 9100},
		},
		Identity: Identity{From: fromSubject, Rules: []string{"DEFAULT"}},
		Tokens: Tokens{
			Lifetime:  Duration(24 * time.Hour),
			Mechanism: scramSHA512,
			Idle:      Duration(time.Hour),
		},
		Connections: Connections{Renewal: renewalAuto},
		Limits: Limits{
			Admission:            Duration(10 * time.Second),
			Sessions:             9000,
			SessionsPerOwner:     2000,
			SessionsPerAddress:   2000,
			HandshakesPerAddress: 50,
			InFlight:             1000,
			Tokens:               5000,
			TokenCreations:       tokens.DefaultCreationRate,
			Frame:                100 << 20,
		},
		Timeouts: Timeouts{
			Dial:  Duration(5 * time.Second),
			Drain: Duration(30 * time.Second),
			Idle:  Duration(9 * time.Minute),
			Stall: Duration(2 * time.Minute),
		},
		Admin: Admin{Address: Address{Host: "127.0.0.1", Port: 9644}},
		Log:   Log{Level: Level(zapcore.InfoLevel), Format: formatConsole},
	}
	if name, err := os.Hostname(); err == nil {
		c.Instance = name
	}
	return c
}
