package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// configCases: configuration, and clients' metrics.
func configCases() []Case {
	return []Case{
		{
			Key: kmsg.DescribeConfigs, Name: "of a topic", Shared: true,
			Request: func(s *Side, _ int16) kmsg.Request {
				r := describeConfigs(kmsg.ConfigResourceTypeTopic, s.Shared("topic"))
				r.IncludeSynonyms, r.IncludeDocumentation = true, true
				return r
			},
		},
		{ // with the addresses of the broker's listeners
			Key: kmsg.DescribeConfigs, Name: "of a broker", Shared: true,
			Request: func(*Side, int16) kmsg.Request { return describeConfigs(kmsg.ConfigResourceTypeBroker, "1") },
		},
		{
			Key: kmsg.DescribeConfigs, Name: "of a topic that is not there", Shared: true, Want: Failure, Codes: []int16{unknownTopic},
			Request: func(s *Side, _ int16) kmsg.Request {
				return describeConfigs(kmsg.ConfigResourceTypeTopic, s.Shared("none"))
			},
		},
		{
			Key: kmsg.AlterConfigs, Name: "of a topic",
			Request: func(s *Side, v int16) kmsg.Request {
				return alterConfigs(s.Own("alter"), fmt.Sprint(86_400_000+int(v)))
			},
		},
		{
			Key: kmsg.AlterConfigs, Name: "of a topic that is not there", Want: Failure, Codes: []int16{unknownTopic},
			Request: func(s *Side, _ int16) kmsg.Request { return alterConfigs(s.Own("none"), "86400000") },
		},
		{
			Key: kmsg.IncrementalAlterConfigs, Name: "of a topic",
			Request: func(s *Side, v int16) kmsg.Request {
				return setConfig(kmsg.ConfigResourceTypeTopic, s.Own("alter"), "retention.ms", fmt.Sprint(86_500_000+int(v)))
			},
		},
		{
			Key: kmsg.IncrementalAlterConfigs, Name: "to what is no number", Want: Failure, Codes: []int16{40}, // INVALID_CONFIG
			Request: func(s *Side, _ int16) kmsg.Request {
				return setConfig(kmsg.ConfigResourceTypeTopic, s.Own("alter"), "retention.ms", "soon")
			},
		},
		{
			Key: kmsg.ListConfigResources, Name: "all clients' metrics", Shared: true,
			Request: func(*Side, int16) kmsg.Request { return kmsg.NewPtrListConfigResourcesRequest() },
		},
		{
			Key: kmsg.ListConfigResources, Name: "without the right to", As: Poor, Shared: true, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(*Side, int16) kmsg.Request { return kmsg.NewPtrListConfigResourcesRequest() },
		},
		{
			Key: kmsg.GetTelemetrySubscriptions, Name: "as a new client",
			Request: func(*Side, int16) kmsg.Request { return kmsg.NewPtrGetTelemetrySubscriptionsRequest() },
			Masks: []Mask{
				{Field: "ClientInstanceID", Alike: bothSet, Why: "the broker draws it"},
				{Field: "SubscriptionID", Why: "the broker makes it of the client's id"},
			},
		},
		{
			Key: kmsg.PushTelemetry, Name: "of a client that nobody knows", Want: Failure, Codes: []int16{invalidRequest, 117}, // UNKNOWN_SUBSCRIPTION_ID
			Request: func(*Side, int16) kmsg.Request { return kmsg.NewPtrPushTelemetryRequest() },
		},
	}
}

func describeConfigs(kind kmsg.ConfigResourceType, name string) *kmsg.DescribeConfigsRequest {
	of := kmsg.NewDescribeConfigsRequestResource()
	of.ResourceType, of.ResourceName = kind, name
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Resources = append(r.Resources, of)
	return r
}

func alterConfigs(topic, retention string) *kmsg.AlterConfigsRequest {
	c := kmsg.NewAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "retention.ms", &retention
	of := kmsg.NewAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName, of.Configs = kmsg.ConfigResourceTypeTopic, topic, append(of.Configs, c)
	r := kmsg.NewPtrAlterConfigsRequest()
	r.Resources = append(r.Resources, of)
	return r
}

func setConfig(kind kmsg.ConfigResourceType, name, key, value string) *kmsg.IncrementalAlterConfigsRequest {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op, c.Value = key, kmsg.IncrementalAlterConfigOpSet, &value
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName, of.Configs = kind, name, append(of.Configs, c)
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Resources = append(r.Resources, of)
	return r
}
