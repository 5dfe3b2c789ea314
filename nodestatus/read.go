package nodestatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Conn is one logged-in connection to a broker; connections.KafkaConnection is
// one. Request writes one request, at the version that is set in it, and returns
// its answer; it ends when ctx does. One request at a time.
type Conn interface {
	Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	Close() error
}

const (
	// metadataVersion is the newest that this package reads; v1 is the first that
	// can ask for no topics.
	metadataVersion = 13
	// describeVersion is the newest of DescribeCluster; v2 shows fenced brokers
	// (KIP-1073; Kafka 4.0).
	describeVersion       = 2
	describeFencedVersion = 2

	// nodesMost bounds the brokers that an answer may name.
	nodesMost = 4096
)

// answer is what one reading gave.
type answer struct {
	clusterID string
	nodes     map[int32]Node // State is not set
	alive     map[int32]bool // listed by Metadata, and not fenced
	complete  bool           // a broker that is not in nodes is not registered
}

// Read makes one reading over conn, which goes to address, as a Watcher does it: which
// brokers there are, by id, those that are down too where the broker can tell. It is two
// or three requests, and ends when ctx does. Errors are *Error.
func Read(ctx context.Context, conn Conn, address Address) (clusterID string, nodes []Node, err error) {
	a, err := (&reader{conn: conn, address: address}).read(ctx)
	if err != nil {
		return "", nil, err
	}
	return a.clusterID, slices.SortedFunc(maps.Values(a.nodes), func(a, b Node) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// reader asks over one connection.
type reader struct {
	conn    Conn
	address Address // where the connection goes, for errors
	// The versions of this broker, from the first reading.
	metadata, describe int16
	asked              bool
}

// read makes one reading: Metadata without topics, and DescribeCluster for the
// brokers that Metadata leaves out.
func (r *reader) read(ctx context.Context) (answer, error) {
	if !r.asked {
		if err := r.versions(ctx); err != nil {
			return answer{}, r.wrap(PhaseRead, err)
		}
		r.asked = true
	}
	meta, err := r.readMetadata(ctx)
	if err != nil {
		return answer{}, r.wrap(PhaseRead, err)
	}
	a, err := fromMetadata(meta)
	if err != nil {
		return answer{}, r.wrap(PhaseJudge, err)
	}
	if r.describe >= 0 {
		described, err := r.readCluster(ctx)
		if err != nil {
			return answer{}, r.wrap(PhaseRead, err)
		}
		if err := a.merge(described, r.describe >= describeFencedVersion); err != nil {
			return answer{}, r.wrap(PhaseJudge, err)
		}
	}
	return a, nil
}

func (r *reader) wrap(p Phase, err error) *Error {
	return &Error{Phase: p, Address: r.address, Err: err}
}

// request makes one request and gives its answer as T.
func request[T kmsg.Response](ctx context.Context, c Conn, req kmsg.Request) (T, error) {
	var none T
	resp, err := c.Request(ctx, req)
	if err != nil {
		return none, err
	}
	t, ok := resp.(T)
	if !ok {
		return none, fmt.Errorf("the answer to %s is a %T", kmsg.NameForKey(req.Key()), resp)
	}
	return t, nil
}

// versions asks what this broker can do. It is asked anew on every connection:
// brokers of different versions may stand side by side.
func (r *reader) versions(ctx context.Context) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "doorkeeper", "status"
	resp, err := request[*kmsg.ApiVersionsResponse](ctx, r.conn, req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	r.metadata, r.describe = -1, -1
	for i := range resp.ApiKeys {
		k := &resp.ApiKeys[i]
		switch kmsg.Key(k.ApiKey) {
		case kmsg.Metadata:
			r.metadata = inRange(metadataVersion, 1, k.MinVersion, k.MaxVersion)
		case kmsg.DescribeCluster:
			r.describe = inRange(describeVersion, 0, k.MinVersion, k.MaxVersion)
		}
	}
	if r.metadata < 0 {
		return errors.New("the broker has no version of Metadata that the gateway reads")
	}
	return nil
}

// inRange gives the newest version that both sides have, or -1.
func inRange(most, least, brokerLeast, brokerMost int16) int16 {
	v := min(most, brokerMost)
	if v < max(least, brokerLeast) {
		return -1
	}
	return v
}

func (r *reader) readMetadata(ctx context.Context) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = r.metadata
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would be all
	req.AllowAutoTopicCreation = false
	return request[*kmsg.MetadataResponse](ctx, r.conn, req)
}

func (r *reader) readCluster(ctx context.Context) (*kmsg.DescribeClusterResponse, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.Version = r.describe
	req.IncludeFencedBrokers = r.describe >= describeFencedVersion
	return request[*kmsg.DescribeClusterResponse](ctx, r.conn, req)
}

// fromMetadata takes the brokers that are alive.
func fromMetadata(resp *kmsg.MetadataResponse) (answer, error) {
	a := answer{nodes: make(map[int32]Node), alive: make(map[int32]bool)}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return a, err
	}
	if resp.ClusterID != nil {
		a.clusterID = *resp.ClusterID
	}
	if len(resp.Brokers) == 0 {
		return a, errors.New("it is empty")
	}
	for i := range resp.Brokers {
		b := &resp.Brokers[i]
		if err := a.add(b.NodeID, Address{b.Host, b.Port}, b.Rack, false); err != nil {
			return a, err
		}
		a.alive[b.NodeID] = true
	}
	return a, nil
}

// merge adds what DescribeCluster knows beyond Metadata. A refusal is no fault:
// then only the brokers that are alive are known.
func (a *answer) merge(resp *kmsg.DescribeClusterResponse, fencedShown bool) error {
	if resp.ErrorCode != 0 {
		return nil
	}
	if a.clusterID == "" {
		a.clusterID = resp.ClusterID
	}
	if resp.ClusterID != a.clusterID {
		return fmt.Errorf("the answer to Metadata is of the cluster %q, that to DescribeCluster of %q", a.clusterID, resp.ClusterID)
	}
	seen := make(map[int32]bool)
	for i := range resp.Brokers {
		b := &resp.Brokers[i]
		if seen[b.NodeID] {
			return fmt.Errorf("node %d is named twice", b.NodeID)
		}
		seen[b.NodeID] = true
		if b.IsFenced {
			delete(a.alive, b.NodeID)
		}
		if n, known := a.nodes[b.NodeID]; known {
			// The two answers may lie a change apart; Metadata's address stands.
			n.Fenced = b.IsFenced
			a.nodes[b.NodeID] = n
			continue
		}
		if err := a.add(b.NodeID, Address{b.Host, b.Port}, b.Rack, b.IsFenced); err != nil {
			return err
		}
		if !b.IsFenced {
			a.alive[b.NodeID] = true
		}
	}
	a.complete = fencedShown
	return nil
}

func (a *answer) add(id int32, addr Address, rack *string, fenced bool) error {
	if id < 0 {
		return fmt.Errorf("node %d: ids are not negative", id)
	}
	if _, twice := a.nodes[id]; twice {
		return fmt.Errorf("node %d is named twice", id)
	}
	if len(a.nodes) == nodesMost {
		return fmt.Errorf("it names more than %d brokers", nodesMost)
	}
	n := Node{ID: id, Address: addr, Fenced: fenced}
	if rack != nil {
		n.Rack = *rack
	}
	a.nodes[id] = n
	return nil
}
