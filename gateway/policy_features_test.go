package gateway

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// brokerOf is an ApiVersions answer of a broker that has everything that kmsg knows, so
// many versions more, and these features.
func brokerOf(more int16, features map[string]int16) *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	r.SetVersion(4)
	for key := range int16(95) {
		r.ApiKeys = append(r.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: kmsg.RequestForKey(key).MaxVersion() + more})
	}
	for name, level := range features {
		r.FinalizedFeatures = append(r.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: name, MaxVersionLevel: level, MinVersionLevel: level})
	}
	return r
}

// B14: a feature whose versions the gateway hides is a reason not to start.
func TestFeaturesThatRelyOnWhatIsHidden(t *testing.T) {
	all := map[string]int16{"transaction.version": 2, "group.version": 1, "share.version": 1, "streams.version": 1, "metadata.version": 30, "kraft.version": 1}
	lowered := newPolicy()
	lowered[kmsg.Produce].max = 11
	noShares := newPolicy()
	noShares[kmsg.ShareFetch].action = actionRefuse
	for name, c := range map[string]struct {
		policy policy
		broker *kmsg.ApiVersionsResponse
		says   string
	}{
		"all there is": {newPolicy(), brokerOf(0, all), ""},
		"newer versions, features that are known": {newPolicy(), brokerOf(1, all), ""},
		"no features":                              {lowered, brokerOf(0, nil), ""},
		"Produce 11 and the first protocol":        {lowered, brokerOf(0, map[string]int16{"transaction.version": 1}), ""},
		"Produce 11 and the second protocol":       {lowered, brokerOf(0, all), "transaction.version 2 needs Produce v12 (the broker has 13, the gateway offers 11)"},
		"share groups without their APIs":          {noShares, brokerOf(0, all), "share.version 1 needs ShareFetch v1"},
		"share groups that are off":                {noShares, brokerOf(0, map[string]int16{"share.version": 0}), ""},
		"a level that nobody knows, nothing newer": {newPolicy(), brokerOf(0, map[string]int16{"transaction.version": 3}), ""},
		"a level that nobody knows, with versions": {newPolicy(), brokerOf(1, map[string]int16{"transaction.version": 3}), "transaction.version 3 needs Produce v14"},
		"a broker that lacks the API itself":       {lowered, &kmsg.ApiVersionsResponse{FinalizedFeatures: brokerOf(0, all).FinalizedFeatures}, ""},
	} {
		err := c.policy.checkFeatures(c.broker)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if err := CheckFeatures(brokerOf(0, all)); err != nil {
		t.Error(err)
	}
}
