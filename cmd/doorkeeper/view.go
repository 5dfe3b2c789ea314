package main

import (
	"errors"
	"time"
)

// ready returns nil when a new client could be served now: the token path has been
// proved, a broker is up, the certificate is valid, nothing stops. Else it lists
// what is missing.
func (p *parts) ready() error {
	var errs []error
	if err := p.gateway.Ready(); err != nil {
		errs = append(errs, err)
	}
	if !p.status.proved.Load() {
		errs = append(errs, errors.New("the token path is not proved: no login with the gateway's own token has worked yet; the log says why"))
	}
	return errors.Join(errs...)
}

// view is what the status page shows. It holds no secret, and no names of owners.
func (p *parts) view() any {
	type broker struct {
		ID      int32  `json:"id"`
		Address string `json:"address"`
		Rack    string `json:"rack,omitempty"`
		State   string `json:"state"`
		Fenced  bool   `json:"fenced,omitempty"`
		Refused string `json:"refused,omitempty"`
	}
	table := p.nodes.Table()
	brokers := []broker{}
	for _, n := range table.Nodes() {
		brokers = append(brokers, broker{
			ID: n.ID, Address: n.Address.String(), Rack: n.Rack, State: n.State.String(), Fenced: n.Fenced, Refused: n.Refused,
		})
	}
	return struct {
		Version     string    `json:"version"`
		Instance    string    `json:"instance"`
		Principal   string    `json:"principal"`
		Certificate time.Time `json:"certificate_not_after"`
		Cluster     string    `json:"cluster"`
		Brokers     []broker  `json:"brokers"`
	}{
		Version: version(), Instance: p.config.Instance, Principal: p.tokens.Own(),
		Certificate: p.tls.Current().CertificateNotAfter().UTC(), Cluster: table.ClusterID, Brokers: brokers,
	}
}
