package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// excessCure is what to do about excessRights.
const excessCure = "CREATE_TOKENS on its clients' names is all that the gateway needs: take it out of super.users, and take other grants away; " +
	"or the brokers have no authorizer.class.name, and everybody may do everything"

// asker is a connection to a broker that is logged in.
type asker interface {
	Request(ctx context.Context, r kmsg.Request) (kmsg.Response, error)
}

// excessRights tells which rights on the cluster itself whoever is logged in on conn has,
// of those that only who administers clusters has (KIP-430): a super user has all, the
// gateway needs none. It is one request, and waits for its answer until ctx ends.
func excessRights(ctx context.Context, conn asker) ([]string, error) {
	request := kmsg.NewPtrDescribeClusterRequest()
	request.IncludeClusterAuthorizedOperations = true
	answer, err := conn.Request(ctx, request)
	if err != nil {
		return nil, err
	}
	response, ok := answer.(*kmsg.DescribeClusterResponse)
	if !ok {
		return nil, fmt.Errorf("the answer to DescribeCluster is a %T", answer)
	}
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return nil, err
	}
	var excess []string
	for _, op := range []kmsg.ACLOperation{
		kmsg.ACLOperationCreate, kmsg.ACLOperationAlter, kmsg.ACLOperationClusterAction, kmsg.ACLOperationAlterConfigs,
	} {
		if bits := response.ClusterAuthorizedOperations; bits > 0 && bits&(1<<op) != 0 {
			excess = append(excess, op.String())
		}
	}
	return excess, nil
}
