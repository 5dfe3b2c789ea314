//go:build integration

package harness

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// A client in the namespace reaches one address of the machine: the gateway's
// front, over a pair of virtual interfaces. The brokers are on the machine's
// loopback network, and the namespace's is another: a client that was given a
// broker's address cannot use it.
//
// The addresses are from the block for benchmarks (RFC 2544), which no real
// network has. Everything vanishes with the process that holds the namespace.

// Front is the address on which gateways listen: reachable from the namespace
// and from this machine, on no network.
func (s *Site) Front() (string, error) {
	if _, err := s.netns(); err != nil {
		return "", err
	}
	return fmt.Sprintf("198.18.%d.1", s.number), nil
}

// namespace makes the network namespace and returns the process that holds it.
func (s *Site) namespace() (holder *Process, err error) {
	holder, err = start(command{Name: "namespace holder", Args: []string{"sleep", "infinity"}, New: syscall.CLONE_NEWNET})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			holder.Kill()
		}
	}()
	outer, inner := fmt.Sprintf("dk%da", s.number), fmt.Sprintf("dk%db", s.number)
	ip := func(args ...string) {
		if err == nil {
			_, err = run(command{Name: "ip", Args: append([]string{"ip"}, args...)})
		}
	}
	inside := func(args ...string) {
		if err == nil {
			_, err = run(command{Name: "ip", Args: append(enter(holder), append([]string{"ip"}, args...)...)})
		}
	}
	ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", fmt.Sprint(holder.PID()))
	ip("address", "add", fmt.Sprintf("198.18.%d.1/30", s.number), "dev", outer)
	ip("link", "set", outer, "up")
	inside("link", "set", "lo", "up")
	inside("address", "add", fmt.Sprintf("198.18.%d.2/30", s.number), "dev", inner)
	inside("link", "set", inner, "up")
	if err != nil {
		return nil, err
	}
	s.atClose(func() error { return s.leaveNamespace(holder, outer) })
	return holder, nil
}

// leaveNamespace ends the holder and waits until the interface has gone, which
// the kernel does a moment after the last process.
func (s *Site) leaveNamespace(holder *Process, outer string) error {
	holder.Kill()
	for range 50 {
		if _, err := run(command{Name: "ip", Args: []string{"ip", "link", "show", outer}}); err != nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("interface " + outer + " is still there: a process lives in its namespace")
}

func enter(holder *Process) []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", holder.PID())}
}
