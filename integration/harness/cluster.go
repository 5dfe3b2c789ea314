//go:build integration

package harness

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"doorkeeper/internal/certtest"
)

// ClusterConfig describes a cluster. The zero value is three nodes of Kafka's
// newest version with tokens of a day.
type ClusterConfig struct {
	Version Version // empty: DOORKEEPER_KAFKA_VERSION or DefaultVersion
	Nodes   int     // 0: 3
	Heap    string  // empty: 320m
	Engine  Engine  // nil: the one that DOORKEEPER_ENGINE names

	TokenExpiry, TokenMax, TokenCheck time.Duration // 0: a day, a week, an hour
	Reauth                            time.Duration // connections.max.reauth.ms
	NoTokens                          bool          // no delegation.token.secret.key
	TokenClientAuth                   string        // ssl.client.auth of the token listener; empty: none
	NoGrant                           bool          // the gateway's principal does not get CREATE_TOKENS
	ClassPath                         string        // a directory with more classes for the brokers, in the Site's

	LogLevel, AuthorizerLevel string                    // empty: WARN, DEBUG
	Properties                map[string]string         // for all nodes; an empty value takes a setting away
	Node                      func(id int32) NodeConfig // for one; nil: nothing special
}

// DefaultVersion is the Kafka that the tests run against unless told otherwise.
const DefaultVersion Version = "4.4.0"

// KafkaVersion is the one that this run is for.
func KafkaVersion() Version {
	return first(Version(os.Getenv("DOORKEEPER_KAFKA_VERSION")), DefaultVersion)
}

// GatewayPrincipal is the name in the gateway's control certificate. All that it
// may do is create tokens.
const GatewayPrincipal = "gateway"

// Cluster is a running Kafka of several nodes, numbered from 1, deny by default.
type Cluster struct {
	Nodes []*Node
	Admin *Admin // the super user admin, over the control listener

	site   *Site
	cfg    ClusterConfig
	secret string
	dir    string
}

// StartCluster starts a cluster and returns when all its nodes are registered,
// their token listeners answer and the gateway's principal has its grant; ctx
// ends the wait. The caller closes the cluster; Site.Close does too.
func (s *Site) StartCluster(ctx context.Context, cfg ClusterConfig) (c *Cluster, err error) {
	c = s.newCluster(cfg)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for _, n := range c.Nodes {
		if err := c.cfg.Engine.Prepare(n.Version()); err != nil {
			return c, err
		}
	}
	if err := c.format(); err != nil {
		return c, err
	}
	s.atClose(c.Close)
	var starts errgroup.Group
	for _, n := range c.Nodes {
		starts.Go(n.Start)
	}
	if err := starts.Wait(); err != nil {
		return c, err
	}
	if c.Admin, err = newAdmin(c); err != nil {
		return c, err
	}
	if err := c.Await(ctx); err != nil {
		return c, err
	}
	if !c.cfg.NoGrant {
		err = c.Admin.GrantTokens(ctx, GatewayPrincipal, "*")
	}
	return c, err
}

func (s *Site) newCluster(cfg ClusterConfig) *Cluster {
	cfg.Version = first(cfg.Version, KafkaVersion())
	cfg.Nodes = first(cfg.Nodes, 3)
	cfg.Heap = first(cfg.Heap, "320m")
	cfg.TokenExpiry = first(cfg.TokenExpiry, 24*time.Hour)
	cfg.TokenMax = first(cfg.TokenMax, 7*24*time.Hour)
	cfg.TokenCheck = first(cfg.TokenCheck, time.Hour)
	cfg.TokenClientAuth = first(cfg.TokenClientAuth, "none")
	cfg.LogLevel = first(cfg.LogLevel, "WARN")
	cfg.AuthorizerLevel = first(cfg.AuthorizerLevel, "DEBUG")
	if cfg.Engine == nil {
		cfg.Engine = s.nodes
	}
	c := &Cluster{site: s, cfg: cfg, secret: randomHex(), dir: filepath.Join(s.Dir, "cluster-"+randomHex()[:8])}
	for i := range cfg.Nodes {
		n := &Node{ID: int32(i + 1), cluster: c, dir: filepath.Join(c.dir, fmt.Sprintf("node-%d", i+1))}
		if cfg.Node != nil {
			n.cfg = cfg.Node(n.ID)
		}
		if n.Host = n.cfg.Host; n.Host == "" {
			n.Host = s.LoopbackHost()
		}
		if n.certificate = n.cfg.Certificate; n.certificate == nil {
			n.certificate = s.broker(n.Host)
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

// format writes all files, has the first node's storage made and copies it: what
// differs between the nodes is two lines, and the tool takes seconds. Where versions are
// mixed, the first node's decides on the features: let it be the oldest.
func (c *Cluster) format() error {
	for _, n := range c.Nodes {
		if err := n.writeAll(); err != nil {
			return err
		}
	}
	if err := c.cfg.Engine.Format(c.Nodes[0].spec()); err != nil {
		return err
	}
	from := filepath.Join(c.Nodes[0].dir, "data")
	meta, err := os.ReadFile(filepath.Join(from, "meta.properties"))
	if err != nil {
		return err
	}
	for _, n := range c.Nodes[1:] {
		to := filepath.Join(n.dir, "data")
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			return err
		}
		own := replaceProperty(string(meta), "node.id", fmt.Sprint(n.ID))
		own = replaceProperty(own, "directory.id", newUUID())
		if err := os.WriteFile(filepath.Join(to, "meta.properties"), []byte(own), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func replaceProperty(text, key, value string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, key+"=") {
			lines[i] = key + "=" + value
		}
	}
	return strings.Join(lines, "\n")
}

// Await waits until every node that was started is registered, unfenced, and
// answers on its token listener; ctx ends the wait, and so does a node's death.
func (c *Cluster) Await(ctx context.Context) error {
	probe := &tls.Config{RootCAs: certtest.Pool(c.site.pki.Brokers), InsecureSkipVerify: true} // asked is whether it answers
	var last error
	for {
		running := 0
		last = nil
		for _, n := range c.Nodes {
			if n.running == nil || n.ended {
				continue
			}
			if err := n.died(); err != nil {
				return err
			}
			running++
			last = errors.Join(last, n.answers(probe))
		}
		if last == nil {
			last = c.Admin.registered(ctx, running)
		}
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster not ready: %w; last: %w", context.Cause(ctx), last)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Node returns the node of that id.
func (c *Cluster) Node(id int32) *Node { return c.Nodes[id-1] }

// Version is the Kafka that runs, on the nodes that have no other.
func (c *Cluster) Version() Version { return c.cfg.Version }

// TokenAddresses are the token listeners of all nodes, for bootstrapping.
func (c *Cluster) TokenAddresses() []string { return c.each((*Node).TokenAddress) }

// ControlAddresses are the control listeners of all nodes.
func (c *Cluster) ControlAddresses() []string { return c.each((*Node).ControlAddress) }

func (c *Cluster) each(f func(*Node) string) []string {
	var out []string
	for _, n := range c.Nodes {
		out = append(out, f(n))
	}
	return out
}

// Close kills all nodes, whose data nobody wants, and waits until they are gone.
func (c *Cluster) Close() error {
	if c.Admin != nil {
		c.Admin.close()
	}
	var g errgroup.Group
	for _, n := range c.Nodes {
		if n.running != nil {
			g.Go(func() error { n.running.Kill(); return nil })
		}
	}
	err := g.Wait()
	if keep() {
		return err
	}
	for _, n := range c.Nodes {
		err = errors.Join(err, os.RemoveAll(filepath.Join(n.dir, "data")))
	}
	return err
}

// first returns the first value that is not zero.
func first[T comparable](vs ...T) T {
	var zero T
	for _, v := range vs {
		if v != zero {
			return v
		}
	}
	return zero
}

// newUUID is a UUID as Kafka writes it.
func newUUID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] &= 0x7f        // Kafka wants none that begins with a dash
	return base64.RawURLEncoding.EncodeToString(b)
}

func randomHex() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
