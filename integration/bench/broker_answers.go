package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterID is what the broker calls its cluster.
const clusterID = "bench"

// servedVersions are the APIs that the broker knows, each up to a version.
func servedVersions() map[kmsg.Key]int16 {
	return map[kmsg.Key]int16{
		kmsg.Produce: produceVersion, kmsg.Fetch: fetchVersion, kmsg.Metadata: 12, kmsg.DescribeCluster: 0,
		kmsg.SASLHandshake: 1, kmsg.ApiVersions: 3, kmsg.SASLAuthenticate: 2,
		kmsg.CreateDelegationToken: 3, kmsg.RenewDelegationToken: 2, kmsg.ExpireDelegationToken: 2, kmsg.DescribeDelegationToken: 3,
	}
}

// repeats tells whether a request may get the same answer again.
func repeats(request []byte) bool {
	key := kmsg.Key(binary.BigEndian.Uint16(request))
	return key == kmsg.Produce || key == kmsg.Fetch
}

// respond decodes the request and makes the whole frame of its answer.
func (s *serving) respond() ([]byte, error) {
	key, version := kmsg.Key(binary.BigEndian.Uint16(s.request)), int16(binary.BigEndian.Uint16(s.request[2:]))
	most, served := servedVersions()[key]
	if key == kmsg.ApiVersions && version > most {
		return tooNew(), nil
	}
	if !served || version < 0 || version > most {
		return nil, fmt.Errorf("%s v%d is not served", key.Name(), version)
	}
	req := kmsg.RequestForKey(int16(key))
	req.SetVersion(version)
	body, err := requestBody(s.request, req.IsFlexible())
	if err != nil {
		return nil, err
	}
	if err := req.ReadFrom(body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if err := s.fill(req, resp); err != nil {
		return nil, err
	}
	frame := make([]byte, 8, 256)
	if resp.IsFlexible() && key != kmsg.ApiVersions { // whose header never is (KIP-511)
		frame = append(frame, 0)
	}
	frame = resp.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame, nil
}

// tooNew answers an ApiVersions that is too new: in version 0, and error 35 makes the
// client ask again (KIP-511).
func tooNew() []byte {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MaxVersion = int16(kmsg.ApiVersions), servedVersions()[kmsg.ApiVersions]
	resp.ApiKeys = append(resp.ApiKeys, k)
	frame := resp.AppendTo(make([]byte, 8, 64))
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// requestBody is what follows a request's header: of version 1, or 2 with an empty tag
// section, which is all that is sent here.
func requestBody(payload []byte, flexible bool) ([]byte, error) {
	at := 10
	if n := int16(binary.BigEndian.Uint16(payload[8:])); n > 0 {
		at += int(n)
	}
	if flexible {
		if at >= len(payload) || payload[at] != 0 {
			return nil, fmt.Errorf("a request header that is not known here")
		}
		at++
	}
	if at > len(payload) {
		return nil, fmt.Errorf("a request that ends within its header")
	}
	return payload[at:], nil
}

func (s *serving) fill(req kmsg.Request, resp kmsg.Response) error {
	switch resp := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		for key, most := range servedVersions() {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = int16(key), most
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
	case *kmsg.MetadataResponse:
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = node, s.broker.listens.Host, int32(s.port)
		resp.Brokers, resp.ControllerID, resp.ClusterID = append(resp.Brokers, b), node, kmsg.StringPtr(clusterID)
	case *kmsg.DescribeClusterResponse:
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port = node, s.broker.listens.Host, int32(s.port)
		resp.Brokers, resp.ControllerID, resp.ClusterID = append(resp.Brokers, b), node, clusterID
	case *kmsg.ProduceResponse:
		produced(req.(*kmsg.ProduceRequest), resp, s.number)
	case *kmsg.FetchResponse:
		fetched(req.(*kmsg.FetchRequest), resp)
	default:
		return s.authenticate(req, resp)
	}
	return nil
}

// node is the only broker's id.
const node = 1

// produced takes everything. Its base offset is the login's number: so whoever asks sees
// that there was another since.
func produced(req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse, login int64) {
	for i := range req.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		for _, asked := range req.Topics[i].Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.BaseOffset = asked.Partition, login
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
}

// fetched gives each partition as many bytes as the request takes. They are no records:
// what reads them compares them with records.
func fetched(req *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
	for i := range req.Topics {
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		for _, asked := range req.Topics[i].Partitions {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.RecordBatches = asked.Partition, records(int(asked.PartitionMaxBytes))
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
}

// records are size bytes that do not repeat, the same on every call.
func records(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}
