//go:build integration

package integration

// This file proves that the rights of a client are its own: one who has none is refused
// by Kafka itself, with the very errors that it would get directly, over every API and
// version that the gateway offers; nothing that it asked for has happened, and no broker's
// address is in what it is told (S5, S6, S11).

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

// powers are the APIs that change or show what only administrators may: each has to end
// with an error for somebody without rights.
var powers = []kmsg.Key{
	kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.DeleteRecords, kmsg.CreatePartitions,
	kmsg.DescribeACLs, kmsg.CreateACLs, kmsg.DeleteACLs,
	kmsg.DescribeConfigs, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs,
	kmsg.AlterReplicaLogDirs, kmsg.ElectLeaders, kmsg.AlterPartitionAssignments, kmsg.ListPartitionReassignments,
	kmsg.DescribeClientQuotas, kmsg.AlterClientQuotas, kmsg.DescribeUserSCRAMCredentials, kmsg.AlterUserSCRAMCredentials,
	kmsg.DescribeQuorum, kmsg.UpdateFeatures, kmsg.UnregisterBroker, kmsg.UnregisterController,
	kmsg.AddRaftVoter, kmsg.RemoveRaftVoter, kmsg.DeleteGroups, kmsg.OffsetDelete, kmsg.InitProducerID, kmsg.DescribeProducers,
}

func TestDeniedAsDirectly(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 3*time.Minute)
	topic := name(t, "somebodys")
	series{topic: topic}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	through, directly := newAsker(ctx, t, bothSides(c, g, "nemo")[0]), newAsker(ctx, t, bothSides(c, g, "nemo")[1])

	offered := served(t, through.leg)
	served := served(t, directly.leg)
	asked, answered := 0, map[kmsg.Key]bool{}
	var printing []string
	for key, versions := range offered {
		switch kmsg.Key(key) {
		case kmsg.SASLHandshake, kmsg.SASLAuthenticate, kmsg.ApiVersions: // about the connection
			continue
		case kmsg.Produce: // brokers offer older ones, and close the connection over them
			versions[0] = 3
		}
		if served[key][0] > versions[0] || served[key][1] < versions[1] {
			t.Errorf("%s: offered are %v, the broker serves %v", kmsg.NameForKey(key), versions, served[key])
		}
		for v := versions[0]; v <= versions[1]; v++ {
			req := demand(key, v, topic)
			a, b := through.ask(ctx, t, req), directly.ask(ctx, t, demand(key, v, topic))
			asked++
			if holdsBroker(a, c) {
				t.Errorf("%s: a broker's address is in %q", call(req), a)
			}
			if holdsBroker(b, c) {
				printing = append(printing, call(req))
			}
			codes, direct := errorCodes(t, req, a), errorCodes(t, req, b)
			if !slices.Equal(codes, direct) || (a == nil) != (b == nil) {
				t.Errorf("%s: errors %v through the gateway, %v directly", call(req), codes, direct)
			}
			if slices.ContainsFunc(codes, func(code int16) bool { return code != 0 }) {
				answered[kmsg.Key(key)] = true
			} else if slices.Contains(powers, kmsg.Key(key)) {
				t.Errorf("%s is not refused: %x", call(req), a)
			}
		}
	}
	for _, key := range powers {
		if _, there := served[int16(key)]; there && !answered[key] {
			t.Errorf("%s was not asked", key.Name())
		}
	}
	t.Logf("%d calls; directly a broker's address is in %v", asked, printing)
	if !slices.Contains(printing, "DescribeACLs v1") {
		t.Error("the search does not find brokers in a direct answer")
	}
	untouched(ctx, t, c, topic)
	noFaults(ctx, t, g)
}

// untouched checks that nothing of what was demanded has happened.
func untouched(ctx context.Context, t *testing.T, c *harness.Cluster, topic string) {
	t.Helper()
	topics, err := c.Admin.ListTopics(ctx)
	must(t, err)
	if d := topics[topic]; len(d.Partitions) != partitions {
		t.Errorf("the topic has %d partitions now", len(d.Partitions))
	}
	configs, err := c.Admin.DescribeTopicConfigs(ctx, topic)
	must(t, err)
	for _, one := range configs[0].Configs {
		if one.Source == kmsg.ConfigSourceDynamicTopicConfig {
			t.Errorf("the topic has the setting %s now", one.Key)
		}
	}
	credentials, err := c.Admin.DescribeUserSCRAMs(ctx)
	must(t, err)
	for user := range credentials {
		if user == topic {
			t.Errorf("there is a password for %s", user)
		}
	}
}

// demand is a request at a version about somebody else's things, which all have the one
// name: one element in each list, and what numbers there are as the client libraries leave
// them.
func demand(key, version int16, name string) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fillIn(reflect.ValueOf(req), name)
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest: // a topic of its own, or there would be nothing to refuse
		r.Topics[0].Topic, r.Topics[0].NumPartitions, r.Topics[0].ReplicationFactor = name+"-more", 1, 1
		r.Topics[0].ReplicaAssignment = nil
	case *kmsg.ProduceRequest: // without acknowledgement or records, the connection would be closed
		r.Acks, r.Topics[0].Partitions[0].Records = 1, batch(nil, []byte("x"))
	case *kmsg.CreatePartitionsRequest:
		r.Topics[0].Count, r.Topics[0].Assignment = partitions+1, nil
	}
	return req
}

// fillIn gives a request one of everything.
func fillIn(v reflect.Value, name string) {
	switch v.Interface().(type) {
	case kmsg.Tags:
		return
	case kmsg.ACLResourceType, kmsg.ConfigResourceType:
		v.SetInt(2) // a topic
		return
	case kmsg.ACLOperation, kmsg.ACLPermissionType, kmsg.ACLResourcePatternType:
		v.SetInt(3) // reading; allowed; that very name
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() && v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			fillIn(v.Elem(), name)
		}
	case reflect.Struct:
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
			version := v.FieldByName("Version")
			var kept int64
			if version.IsValid() && version.Kind() == reflect.Int16 {
				kept = version.Int()
			}
			d.Default()
			if version.IsValid() && version.Kind() == reflect.Int16 {
				version.SetInt(kept)
			}
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				fillIn(v.Field(i), name)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fillIn(v.Index(0), name)
		}
	case reflect.String:
		v.SetString(name)
	}
}

// asker sends requests on one connection, and on a new one behind each that a broker has
// closed it over.
type asker struct {
	side side
	leg  *harness.Raw
}

func newAsker(ctx context.Context, t *testing.T, s side) *asker {
	return &asker{s, rawLeg(ctx, t, s.node(1), s.as, "rights")}
}

// ask returns the answer behind its correlation id, nil where the connection was closed.
func (a *asker) ask(ctx context.Context, t *testing.T, req kmsg.Request) []byte {
	t.Helper()
	_, err := a.leg.Send(req)
	must(t, err)
	must(t, a.leg.SetReadDeadline(time.Now().Add(patience)))
	_, answer, err := a.leg.Receive()
	if errors.Is(err, io.EOF) {
		_ = a.leg.Close()
		a.leg = rawLeg(ctx, t, a.side.node(1), a.side.as, "rights")
		return nil
	}
	if err != nil {
		t.Fatalf("%s, %s: %v", a.side.name, call(req), err)
	}
	return answer
}

// errorCodes are those in an answer, in their order.
func errorCodes(t *testing.T, req kmsg.Request, answer []byte) (codes []int16) {
	t.Helper()
	if answer == nil {
		return nil
	}
	resp, err := harness.Parse(req, answer)
	if err != nil {
		t.Fatalf("%s: %v: %x", call(req), err, answer)
	}
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Field(i); f.Kind() == reflect.Int16 && strings.HasSuffix(v.Type().Field(i).Name, "ErrorCode") {
					codes = append(codes, int16(f.Int()))
				} else if v.Type().Field(i).IsExported() {
					walk(f)
				}
			}
		}
	}
	walk(reflect.ValueOf(resp))
	return codes
}
