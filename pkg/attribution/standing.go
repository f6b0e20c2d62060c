package attribution

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Standing is the content of the annotation attribution.alaudadevops.io/standing, which admission alone sets.
//
// On a ReleasePlan it says who stands for the plan: Author accepted at AcceptedAt, for the spec of Generation. On a Release
// it says what the Release stands on: the plan as it was when the Release was made; Author, AcceptedAt and ExpiresAt are
// there if a program made the Release and somebody stood for the plan.
type Standing struct {
	Kind      string    `json:"kind,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	// Generation is that of the plan's spec.
	Generation int64 `json:"generation,omitempty"`
	// Admission is the ReleasePlanAdmission that the plan's label names; empty if it names none. It says where Releases go as
	// much as the spec does, but no generation counts it.
	Admission string `json:"admission,omitempty"`
	// Author is the exact user name; empty if nobody stands.
	Author     string    `json:"author,omitempty"`
	AcceptedAt time.Time `json:"acceptedAt,omitzero"`
	// ExpiresAt is the first moment at which Author does not stand any more; nil is never.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// ErrNoStanding is returned for an annotation that is absent.
var ErrNoStanding = errors.New("there is no standing attribution")

// ParseStanding reads the annotation. It returns ErrNoStanding for the empty text, and another error for whatever String
// does not write.
func ParseStanding(annotation string) (*Standing, error) {
	if annotation == "" {
		return nil, ErrNoStanding
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(annotation)))
	decoder.DisallowUnknownFields()
	var s Standing
	if err := decoder.Decode(&s); err != nil {
		return nil, fmt.Errorf("the standing attribution cannot be read: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("the standing attribution cannot be read: something follows it")
	}
	return &s, nil
}

// String is the canonical form: JSON with fields in a fixed order and times in UTC, by the second.
func (s *Standing) String() string {
	out := *s
	out.AcceptedAt = canonicalTime(s.AcceptedAt)
	if s.ExpiresAt != nil {
		expires := canonicalTime(*s.ExpiresAt)
		out.ExpiresAt = &expires
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	// A struct of strings, numbers and times can always be written, but for years beyond 9999, which admission refuses.
	if err := encoder.Encode(out); err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

func canonicalTime(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// Expired tells whether the author does not stand any more.
func (s *Standing) Expired(now time.Time) bool {
	return s.ExpiresAt != nil && !now.Before(*s.ExpiresAt)
}
