package devkafka_test

import (
	"sync"
	"testing"
	"time"

	"doorkeeper/internal/devkafka"
	"doorkeeper/internal/devkafka/contract"
)

func TestContract(t *testing.T) {
	var mu sync.Mutex
	late := map[int32]time.Duration{}
	s := newSite()
	const sweep, maxReauth = 4 * time.Second, 4 * time.Second
	keyless := (&site{ca: s.ca, server: s.server}).start(t, devkafka.Config{Brokers: 1, NoSecretKey: true})
	limited := (&site{ca: s.ca, server: s.server}).start(t, devkafka.Config{Brokers: 1, MaxReauth: maxReauth})
	s.start(t, devkafka.Config{Sweep: sweep, Propagation: func(node int32) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return late[node]
	}})
	contract.Run(t, contract.Subject{
		Brokers: brokers(s.Cluster), Keyless: brokers(keyless.Cluster)[0], Limited: brokers(limited.Cluster)[0],
		MaxReauth: maxReauth, Sweep: sweep, Admin: "admin", TLS: s.as,
		HoldBack: func(node int32, by time.Duration) func() {
			set := func(d time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				late[node] = d
			}
			set(by)
			return func() { set(0) }
		},
	})
}

func brokers(c *devkafka.Cluster) []contract.Broker {
	var out []contract.Broker
	for i, id := range c.Nodes() {
		out = append(out, contract.Broker{Node: id, Token: c.TokenAddresses()[i], Control: c.ControlAddresses()[i]})
	}
	return out
}
