package conformance

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterCases: brokers, controllers, features.
func clusterCases() []Case {
	return []Case{
		{
			Key: kmsg.UpdateFeatures, Name: "to the version that it has", Good: anything,
			Request: func(s *Side, _ int16) kmsg.Request {
				return updateFeature("metadata.version", s.Finalized["metadata.version"][1])
			},
		},
		{
			Key: kmsg.UpdateFeatures, Name: "to a version that it cannot have", Want: Failure, Codes: []int16{invalidUpdate},
			Request: func(*Side, int16) kmsg.Request { return updateFeature("metadata.version", 9_999) },
		},
		{
			Key: kmsg.UpdateFeatures, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(*Side, int16) kmsg.Request { return updateFeature("metadata.version", 9_999) },
		},
		{
			Key: kmsg.UnregisterBroker, Name: "one that is not there any more",
			Request: func(s *Side, _ int16) kmsg.Request {
				r := kmsg.NewPtrUnregisterBrokerRequest()
				r.BrokerID = s.leaving
				s.numbers = append(s.numbers, kbin.AppendInt32(nil, s.leaving))
				return r
			},
		},
		{
			Key: kmsg.UnregisterBroker, Name: "one that never was", Want: Failure, Codes: []int16{notRegistered},
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrUnregisterBrokerRequest()
				r.BrokerID = 4711
				return r
			},
		},
		{
			Key: kmsg.UnregisterBroker, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrUnregisterBrokerRequest()
				r.BrokerID = 4711
				return r
			},
		},
		{
			Key: kmsg.UnregisterController, Name: "one that is not there any more",
			Request: func(s *Side, _ int16) kmsg.Request {
				r := kmsg.NewPtrUnregisterControllerRequest()
				r.ControllerID = s.resigning
				s.numbers = append(s.numbers, kbin.AppendInt32(nil, s.resigning))
				return r
			},
		},
		{
			Key: kmsg.UnregisterController, Name: "one that never was", Want: Either,
			Request: func(*Side, int16) kmsg.Request {
				r := kmsg.NewPtrUnregisterControllerRequest()
				r.ControllerID = 4711
				return r
			},
		},
		{
			Key: kmsg.UnregisterController, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(*Side, int16) kmsg.Request { return kmsg.NewPtrUnregisterControllerRequest() },
		},
		{
			Key: kmsg.AddRaftVoter, Name: "one that is there", Want: Either,
			Request: func(s *Side, _ int16) kmsg.Request { return addVoter(s) },
		},
		{
			Key: kmsg.AddRaftVoter, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return addVoter(s) },
		},
		{
			Key: kmsg.RemoveRaftVoter, Name: "one that never was", Want: Either,
			Request: func(s *Side, _ int16) kmsg.Request { return removeVoter(s) },
		},
		{
			Key: kmsg.RemoveRaftVoter, Name: "without the right to", As: Poor, Want: Failure, Codes: []int16{clusterDenied},
			Request: func(s *Side, _ int16) kmsg.Request { return removeVoter(s) },
		},
	}
}

func updateFeature(name string, level int16) *kmsg.UpdateFeaturesRequest {
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType = name, level, 1
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.TimeoutMillis, r.ValidateOnly, r.FeatureUpdates = 20_000, true, append(r.FeatureUpdates, f)
	return r
}

func addVoter(s *Side) *kmsg.AddRaftVoterRequest {
	l := kmsg.NewAddRaftVoterRequestListener()
	l.Name, l.Host, l.Port = "CONTROLLER", "192.0.2.7", 9093
	r := kmsg.NewPtrAddRaftVoterRequest()
	r.ClusterID, r.TimeoutMillis, r.VoterID, r.Listeners = &s.ClusterID, 20_000, 1, append(r.Listeners, l)
	r.VoterDirectoryID = nobody()
	return r
}

func removeVoter(s *Side) *kmsg.RemoveRaftVoterRequest {
	r := kmsg.NewPtrRemoveRaftVoterRequest()
	r.ClusterID, r.VoterID, r.VoterDirectoryID = &s.ClusterID, 4711, nobody()
	return r
}
