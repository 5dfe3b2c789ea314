//go:build integration

package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// RegisterAbsent makes the cluster's controller believe in brokers and controllers that
// were there once and are no more: registered, the brokers fenced, and known by secret
// names.
func (c *Cluster) RegisterAbsent(ctx context.Context, brokers, controllers []int32) error {
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = "__cluster_metadata", append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	quorum.Topics = append(quorum.Topics, t)
	resp, err := quorum.RequestWith(ctx, c.Admin.Kafka)
	if err != nil {
		return err
	}
	leader := resp.Topics[0].Partitions[0].LeaderID
	leg, err := DialRaw(ctx, c.Node(leader).at(controllerPort), c.site.Direct("broker").ClientTLS())
	if err != nil {
		return err
	}
	can, err := abilities(leg)
	for _, id := range brokers {
		if err == nil {
			err = registerBroker(leg, can, id)
		}
	}
	for _, id := range controllers {
		if err == nil {
			err = registerController(leg, can, id)
		}
	}
	return errors.Join(err, leg.Close())
}

// abilities are what a controller serves, and its features: from version 4 of the answer
// on, also those that may be off. Older controllers have no other, and no such version.
func abilities(leg *Raw) (*kmsg.ApiVersionsResponse, error) {
	var errs []error
	for _, version := range []int16{4, 3} {
		ask := kmsg.NewPtrApiVersionsRequest()
		ask.Version, ask.ClientSoftwareName, ask.ClientSoftwareVersion = version, "harness", "1"
		said, err := leg.Request(ask)
		if err == nil {
			err = kerr.ErrorForCode(said.(*kmsg.ApiVersionsResponse).ErrorCode)
		}
		if err == nil {
			return said.(*kmsg.ApiVersionsResponse), nil
		}
		errs = append(errs, fmt.Errorf("versions of the controller, asked in version %d: %w", version, err))
	}
	return nil, errors.Join(errs...)
}

func registerBroker(leg *Raw, can *kmsg.ApiVersionsResponse, id int32) error {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	for _, k := range can.ApiKeys {
		if k.ApiKey == req.Key() {
			req.Version = min(k.MaxVersion, req.MaxVersion())
		}
	}
	for _, f := range can.SupportedFeatures {
		of := kmsg.NewBrokerRegistrationRequestFeature()
		of.Name, of.MinSupportedVersion, of.MaxSupportedVersion = f.Name, f.MinVersion, f.MaxVersion
		req.Features = append(req.Features, of)
	}
	req.BrokerID, req.ClusterID, req.PreviousBrokerEpoch = id, clusterID, -1
	var dir [16]byte
	_, _ = rand.Read(req.IncarnationID[:]) // never fails
	_, _ = rand.Read(dir[:])
	req.LogDirs = [][16]byte{dir}
	for _, l := range []struct {
		name     string
		port     uint16
		protocol int16
	}{{"TOKEN", tokenPort, 3}, {"CONTROL", controlPort, 1}, {"INTERNAL", internalPort, 1}} {
		of := kmsg.NewBrokerRegistrationRequestListener()
		of.Name, of.Host, of.Port, of.SecurityProtocol = l.name, SecretName(id), l.port, l.protocol
		req.Listeners = append(req.Listeners, of)
	}
	done, err := leg.Request(req)
	if err == nil {
		err = kerr.ErrorForCode(done.(*kmsg.BrokerRegistrationResponse).ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("register broker %d: %w", id, err)
	}
	return nil
}

func registerController(leg *Raw, can *kmsg.ApiVersionsResponse, id int32) error {
	req := kmsg.NewPtrControllerRegistrationRequest()
	for _, f := range can.SupportedFeatures {
		of := kmsg.NewControllerRegistrationRequestFeature()
		of.Name, of.MinSupportedVersion, of.MaxSupportedVersion = f.Name, f.MinVersion, f.MaxVersion
		req.Features = append(req.Features, of)
	}
	of := kmsg.NewControllerRegistrationRequestListener()
	of.Name, of.Host, of.Port, of.SecurityProtocol = "CONTROLLER", SecretName(id), controllerPort, 1
	req.ControllerID, req.Listeners = id, append(req.Listeners, of)
	_, _ = rand.Read(req.IncarnationID[:]) // never fails
	done, err := leg.Request(req)
	if err == nil {
		err = kerr.ErrorForCode(done.(*kmsg.ControllerRegistrationResponse).ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("register controller %d: %w", id, err)
	}
	return nil
}
