package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/connections"
	"doorkeeper/nodestatus"
	"doorkeeper/tokens"
)

// explained returns a dialer whose log goes to the buffer.
func explained(t *testing.T) (*statusDialer, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	return &statusDialer{loops: newLoopDetector(), log: newLogger(Log{Format: formatConsole}, &out)}, &out
}

func brokerFault(a nodestatus.Address, fault connections.Fault, text string) error {
	return &connections.Error{
		Phase: connections.PhaseAuthenticate, Target: connections.Target{Node: -1, Host: a.Host, Port: a.Port},
		Fault: fault, Cure: "do this", Err: errors.New(text),
	}
}

// TestFaultsOfTheTokenPathAreLoggedOncePerCause: attempts go on every few seconds for
// as long as a cluster is away, and each line must still be worth reading.
func TestFaultsOfTheTokenPathAreLoggedOncePerCause(t *testing.T) {
	d, out := explained(t)
	b1, b2 := nodestatus.Address{Host: "b1", Port: 9094}, nodestatus.Address{Host: "b2", Port: 9094}
	lines := func() int { return strings.Count(out.String(), "\n") }
	for i := range 100 {
		// The text differs by a port number each time.
		d.explain(b1, brokerFault(b1, connections.AnotherGateway, fmt.Sprint("peer ", i)))
		d.explain(b2, brokerFault(b2, connections.NoSasl, fmt.Sprint("peer ", i)))
		d.explain(b1, &tokens.Error{Phase: tokens.PhaseCreate, Reason: tokens.ReasonNotAuthorized, Cure: "grant this", Err: fmt.Errorf("no %d", i)})
	}
	if lines() != 3 || strings.Count(out.String(), "do this") != 2 || !strings.Contains(out.String(), "grant this") {
		t.Errorf("got\n%s", out)
	}
	d.explain(b1, brokerFault(b1, connections.WrongHost, "another cause"))
	if lines() != 4 {
		t.Errorf("a new cause is not logged:\n%s", out)
	}
}

func TestEndsThatAreNoFaultsAreNotLogged(t *testing.T) {
	d, out := explained(t)
	b := nodestatus.Address{Host: "b1", Port: 9094}
	d.explain(b, brokerFault(b, connections.Canceled, "stopping"))
	d.explain(b, brokerFault(b, connections.LocallyClosed, "stopping"))
	d.explain(b, &tokens.Error{Reason: tokens.ReasonStopped})
	d.explain(b, fmt.Errorf("dial: %w", context.Canceled))
	d.explain(b, &tokens.Error{Phase: tokens.PhaseAcquire, Err: context.Canceled})
	if out.Len() > 0 {
		t.Errorf("got %s", out)
	}
}

// TestSelfDetectedIsFatal is S23, found by the token listener's own check.
func TestSelfDetectedIsFatal(t *testing.T) {
	d, _ := explained(t)
	b := nodestatus.Address{Host: "b1", Port: 9094}
	d.explain(b, brokerFault(b, connections.SelfDetected, "own certificate"))
	select {
	case err := <-d.loops.found:
		if !strings.Contains(err.Error(), "pointed at itself") || !strings.Contains(err.Error(), "own certificate") {
			t.Errorf("got %v", err)
		}
	default:
		t.Error("not reported")
	}
}

func TestWhatWasSaidIsBounded(t *testing.T) {
	d, _ := explained(t)
	for i := range 3 * maxSaid {
		d.isNew(fmt.Sprint("b", i), "fault")
	}
	if len(d.said) > maxSaid {
		t.Errorf("%d addresses are remembered", len(d.said))
	}
}

// answers is a broker that answers DescribeCluster.
type answers kmsg.DescribeClusterResponse

func (a *answers) Request(_ context.Context, r kmsg.Request) (kmsg.Response, error) {
	if q, ok := r.(*kmsg.DescribeClusterRequest); !ok || !q.IncludeClusterAuthorizedOperations {
		return nil, errors.New("it was to be asked what one may do")
	}
	return (*kmsg.DescribeClusterResponse)(a), nil
}

// S21: a gateway that is a super user is told so.
func TestRightsBeyondTheNeedAreWarnedOf(t *testing.T) {
	const needless = 1<<kmsg.ACLOperationDescribe | 1<<kmsg.ACLOperationDescribeConfigs
	for _, row := range []struct {
		name   string
		rights int32
		code   int16
		want   string
	}{
		{"a super user", needless | 1<<kmsg.ACLOperationAlter | 1<<kmsg.ACLOperationClusterAction, 0, `["ALTER","CLUSTER_ACTION"]`},
		{"one who may look at the cluster", needless, 0, ""},
		{"one whose rights the broker does not tell", -1 << 31, 0, ""},
		{"refused", 1 << kmsg.ACLOperationAlter, kerr.ClusterAuthorizationFailed.Code, ""},
	} {
		d, out := explained(t)
		d.warnOfExcess(t.Context(), &answers{ClusterAuthorizedOperations: row.rights, ErrorCode: row.code}, "gateway")
		if told := strings.Contains(out.String(), "may do more than it needs"); told != (row.want != "") || !strings.Contains(strings.ReplaceAll(out.String(), " ", ""), row.want) {
			t.Errorf("%s: %q", row.name, out)
		}
	}
}
