package guarded

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/AlaudaDevops/countersign/config/policies"
)

// EpochName is the name of the ConfigMap that holds the epoch, in the system namespace.
const EpochName = "countersign-epoch"

// Keys of the ConfigMap's data. Since is RFC 3339 in UTC: creator records of objects created at or before it
// are not believed. Policies is JSON, <kind>/<name> to identity, of the policies it was established on.
const (
	keySince    = "since"
	keyPolicies = "policies"
)

// identity is one life and one content of a policy or binding.
type identity struct {
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	// Selection tells apart which objects a binding of the creator record selects; empty for all others.
	Selection string `json:"selection,omitempty"`
}

// record is the identities of policies and bindings, by <kind>/<name>.
type record map[string]identity

func recordOf(live policies.Set) record {
	r := record{}
	for key, object := range live {
		r[key.String()] = identity{object.GetUID(), object.GetGeneration(), digest(policies.Selection(object))}
	}
	return r
}

// reselected tells that a binding selects otherwise than it was recorded to.
func (r record) reselected(live record) bool {
	for key, now := range live {
		if was, known := r[key]; known && was.Selection != now.Selection {
			return true
		}
	}
	return false
}

func digest(selection *admissionregistrationv1.MatchResources) string {
	if selection == nil {
		return ""
	}
	text, _ := json.Marshal(selection) // strings only: it cannot fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// epoch is since when the recorded policies have been in force without a gap. A zero since is never.
type epoch struct {
	since    time.Time
	policies record
}

// parseEpoch returns the zero epoch for nil and for data that is not understood, which makes nothing proven.
func parseEpoch(configMap *corev1.ConfigMap) epoch {
	if configMap == nil {
		return epoch{}
	}
	since, err := time.Parse(time.RFC3339, configMap.Data[keySince])
	if err != nil {
		return epoch{}
	}
	var policies record
	if err := json.Unmarshal([]byte(configMap.Data[keyPolicies]), &policies); err != nil {
		return epoch{}
	}
	return epoch{since.UTC(), policies}
}

func (e epoch) data() (map[string]string, error) {
	text, err := json.Marshal(e.policies)
	if err != nil {
		return nil, fmt.Errorf("the policies of the epoch cannot be written: %w", err)
	}
	data := map[string]string{keyPolicies: string(text)}
	if !e.since.IsZero() {
		data[keySince] = e.since.UTC().Format(time.RFC3339)
	}
	return data, nil
}

// covers says that the live policies, which must be accepted ones, have been so ever since the epoch. A spec
// that left the accepted and came back moved the generation at least twice, and a policy that was deleted
// comes back with another UID. A policy that an upgrade adds is no gap in what held before. Another selection is one:
// what it adds had no record until then, so any that such an object carries may be forged.
func (e epoch) covers(live record) bool {
	if e.since.IsZero() || len(e.policies) == 0 {
		return false
	}
	for key, now := range live {
		was, known := e.policies[key]
		if known && (was.UID != now.UID || was.Selection != now.Selection || now.Generation < was.Generation || now.Generation > was.Generation+1) {
			return false
		}
	}
	return true
}

// next is the epoch after the live policies were seen to be in force; at is when a gap, if there was one, is
// sure to be over. It never goes back. A policy that a release dropped stays recorded, so that its return is
// seen to be a gap.
func (e epoch) next(live record, at time.Time) epoch {
	recorded := maps.Clone(e.policies)
	if recorded == nil {
		recorded = record{}
	}
	maps.Copy(recorded, live)
	if e.covers(live) || e.since.After(at) {
		return epoch{e.since, recorded}
	}
	return epoch{at, recorded}
}

func (e epoch) equal(other epoch) bool {
	return e.since.Equal(other.since) && maps.Equal(e.policies, other.policies)
}
