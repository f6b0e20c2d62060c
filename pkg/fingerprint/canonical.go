package fingerprint

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// UseText is a text that two uses share exactly if they say the same: lists are sets, and what is absent is spelled out
// (see operation.Use). It is for comparing and for RequestName, not for people.
func UseText(use *approvalv1alpha1.OperationSelector) string {
	var http approvalv1alpha1.HTTPSelector
	if use != nil && use.HTTP != nil {
		http = *use.HTTP
	}
	b := appendSet(nil, classes(use, len(http.Methods)+len(http.Paths) > 0))
	b = appendSet(b, http.Methods)
	return string(appendSet(b, http.Paths))
}

// classes spells out the default: writes, or everything that methods and paths select.
func classes(use *approvalv1alpha1.OperationSelector, selectsHTTP bool) []string {
	var named []string
	if use != nil {
		for _, class := range use.Operations {
			named = append(named, string(class))
		}
	}
	switch {
	case len(named) > 0:
		return named
	case selectsHTTP:
		return []string{string(approvalv1alpha1.OperationRead), string(approvalv1alpha1.OperationWrite)}
	}
	return []string{string(approvalv1alpha1.OperationWrite)}
}

// TimeRangeText is a text that two time ranges share exactly if they say the same.
func TimeRangeText(r *approvalv1alpha1.TimeRange) string {
	if r == nil {
		r = &approvalv1alpha1.TimeRange{}
	}
	duration := ""
	if r.Duration != nil {
		duration = r.Duration.Duration.String()
	}
	return strings.Join([]string{duration, timeText(r.After), timeText(r.Before)}, "|")
}

func timeText(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func appendSet(b []byte, set []string) []byte {
	set = slices.Clone(set)
	slices.Sort(set)
	set = slices.Compact(set)
	b = append(b, '[')
	for _, member := range set {
		b = appendField(b, member)
	}
	return append(b, ']')
}
