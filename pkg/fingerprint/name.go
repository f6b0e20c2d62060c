package fingerprint

import (
	"crypto/sha256"
	"strconv"
	"strings"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

const (
	// People type the names of requests, so they are short: prefixLength letters of the fingerprint and
	// requestHashLength of a hash, 80 bits together. Both are of questions, so names collide only where the question is
	// the same. Nobody types those of checks.
	prefixLength      = 8
	requestHashLength = 8
	hashLength        = 16
	// maxLabel is the length of a DNS label (RFC 1123).
	maxLabel = 63
)

// RequestName is the name of a request that the server names: equal asks get equal names and collide in the API
// server. use and timeRange are texts that equal asks share (see UseText and TimeRangeText); lastEndedUID is the UID of
// the last request of this fingerprint that ended, so that an ended one never blocks asking again.
func RequestName(key Key, use, timeRange, lastEndedUID string) string {
	hash := hashOf("request name", string(key[:]), use, timeRange, lastEndedUID)
	return approvalv1alpha1.ReservedNamePrefix + letters.EncodeToString(key[:])[:prefixLength] + "-" + hash[:requestHashLength]
}

// CheckName is the name of the check that asks one rule for one question: a DNS label that begins like the rule's
// name. Whoever asks the same gets the same name, so even a race ends in one check.
func CheckName(key Key, ruleName, ruleUID string, ruleGeneration int64, lastEndedUID string) string {
	hash := hashOf("check name", string(key[:]), ruleUID, strconv.FormatInt(ruleGeneration, 10), lastEndedUID)
	shown := strings.ReplaceAll(ruleName, ".", "-")
	shown = strings.Trim(shown[:min(len(shown), maxLabel-hashLength-1)], "-")
	if shown == "" {
		shown = "check"
	}
	return shown + "-" + hash
}

// hashOf hashes fields under a purpose of their own.
func hashOf(purpose string, fields ...string) string {
	b := appendField(nil, domain)
	b = appendField(b, purpose)
	for _, field := range fields {
		b = appendField(b, field)
	}
	sum := sha256.Sum256(b)
	return letters.EncodeToString(sum[:])[:hashLength]
}
