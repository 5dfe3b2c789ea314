package conformance

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Address is where a node is found.
type Address struct {
	Host string
	Port int32
}

// Rewritten is what the gateway replaces in answers.
type Rewritten struct {
	// Brokers and Gateway are each node's address, as the brokers and as the gateway have
	// to give it.
	Brokers, Gateway map[int32]Address
	// Offered is what the gateway offers: key → lowest and highest version.
	Offered map[int16][2]int16
}

// addressed are the fields that hold the addresses of nodes: structs with a node's id,
// host and port.
func addressed(key kmsg.Key) []Path {
	switch key {
	case kmsg.Metadata, kmsg.DescribeCluster, kmsg.Produce, kmsg.Fetch:
		return []Path{"Brokers[]"}
	case kmsg.FindCoordinator:
		return []Path{"", "Coordinators[]"} // of one, up to version 3; of several
	case kmsg.ShareFetch, kmsg.ShareAcknowledge:
		return []Path{"NodeEndpoints[]"}
	}
	return nil
}

// printed are the error messages into which brokers print the request that they refuse,
// with the connection that it came over.
func printed(key kmsg.Key) []Path {
	switch key {
	case kmsg.DescribeACLs, kmsg.ListPartitionReassignments, kmsg.UnregisterBroker, kmsg.UnregisterController:
		return []Path{"ErrorMessage"}
	case kmsg.CreateACLs, kmsg.DeleteACLs, kmsg.AlterUserSCRAMCredentials:
		return []Path{"Results[].ErrorMessage"}
	case kmsg.ElectLeaders:
		return []Path{"Topics[].Partitions[].ErrorMessage"}
	case kmsg.AlterPartitionAssignments:
		return []Path{"ErrorMessage", "Topics[].Partitions[].ErrorMessage"}
	case kmsg.UpdateFeatures:
		return []Path{"ErrorMessage", "Results[].ErrorMessage"}
	}
	return nil
}

// requestPrinted goes from the parenthesis in front of the request to the last one.
var requestPrinted = regexp.MustCompile(`(?s)\([^(]*connectionId=.*\)`)

// unprint leaves out of a broker's answer what no client may see of its messages.
func unprint(direct kmsg.Response) {
	for _, p := range printed(kmsg.Key(direct.Key())) {
		p.descend(reflect.ValueOf(direct), func(v reflect.Value) {
			if !v.IsNil() {
				text := requestPrinted.ReplaceAllLiteralString(v.Elem().String(), "()")
				v.Set(reflect.ValueOf(&text))
			}
		})
	}
}

const listeners Path = "Nodes[].Listeners"

// RewrittenFields names, for the report, what is replaced in answers to a key.
func RewrittenFields(key kmsg.Key) []Path {
	switch key {
	case kmsg.DescribeQuorum:
		return []Path{listeners}
	case kmsg.ApiVersions:
		return []Path{"ApiKeys"}
	}
	var out []Path
	for _, p := range addressed(key) {
		if p != "" {
			p += "."
		}
		out = append(out, p+"Host", p+"Port")
	}
	return append(out, printed(key)...)
}

// undo puts into the gateway's answer what the broker's should have in its place, if the
// gateway has replaced it by exactly what it must; otherwise it says what is wrong.
func (r *Rewritten) undo(direct, gateway kmsg.Response) []string {
	var wrong []string
	for _, p := range addressed(kmsg.Key(gateway.Key())) {
		if p == "" && gateway.GetVersion() > 3 {
			continue
		}
		p.descend(reflect.ValueOf(gateway), func(v reflect.Value) {
			if err := r.undoAddress(v); err != nil {
				wrong = append(wrong, err.Error())
			}
		})
	}
	switch g := gateway.(type) {
	case *kmsg.DescribeQuorumResponse:
		for _, n := range g.Nodes {
			if len(n.Listeners) > 0 {
				wrong = append(wrong, fmt.Sprintf("%s of node %d are not empty: %v", listeners, n.NodeID, n.Listeners))
			}
		}
		for i := range direct.(*kmsg.DescribeQuorumResponse).Nodes {
			direct.(*kmsg.DescribeQuorumResponse).Nodes[i].Listeners = nil
		}
		for i := range g.Nodes {
			g.Nodes[i].Listeners = nil
		}
	case *kmsg.ApiVersionsResponse:
		r.trim(direct.(*kmsg.ApiVersionsResponse))
	}
	unprint(direct)
	return wrong
}

// undoAddress works on a struct with a node's id, host and port. One without a node, as
// answers in error have it, stays.
func (r *Rewritten) undoAddress(v reflect.Value) error {
	node := int32(v.FieldByName("NodeID").Int())
	host, port := v.FieldByName("Host"), v.FieldByName("Port")
	if node < 0 && host.Len() == 0 || host.Len() == 0 && port.Int() <= 0 {
		return nil
	}
	got := Address{host.String(), int32(port.Int())}
	want, known := r.Gateway[node]
	if !known || got != want {
		return fmt.Errorf("node %d is said to be at %s:%d, not at %s:%d", node, got.Host, got.Port, want.Host, want.Port)
	}
	host.SetString(r.Brokers[node].Host)
	port.SetInt(int64(r.Brokers[node].Port))
	return nil
}

// trim takes out of a broker's answer what the gateway does not offer. What that may be
// is Withheld, and is looked at for itself.
func (r *Rewritten) trim(direct *kmsg.ApiVersionsResponse) {
	direct.ApiKeys = slices.DeleteFunc(direct.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
		_, offered := r.Offered[k.ApiKey]
		return !offered
	})
	for i, k := range direct.ApiKeys {
		direct.ApiKeys[i].MaxVersion = min(k.MaxVersion, r.Offered[k.ApiKey][1])
	}
}
