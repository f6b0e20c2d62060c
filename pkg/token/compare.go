package token

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// CompareReading authenticates one token both offline and with the API server, and returns a sentence
// for each difference; none means that both read it alike. It is for the start of a program, to find
// out that its configuration and that of the API server differ before anybody relies on it.
//
// The error is set if one of the two could not answer, so that nothing was compared.
func (r *Reviewer) CompareReading(ctx context.Context, offline Authenticator, token string) ([]string, error) {
	here, errHere := offline.Authenticate(ctx, token)
	there, errThere := r.Authenticate(ctx, token)
	if err := errors.Join(unanswered(errHere), unanswered(errThere)); err != nil {
		return nil, fmt.Errorf("comparing with the API server: %w", err)
	}
	switch {
	case errHere != nil && errThere != nil:
		return nil, nil
	case errHere != nil:
		return []string{"the API server accepts the token, the offline check does not: " + errHere.Error()}, nil
	case errThere != nil:
		return []string{"the offline check accepts the token, the API server does not: " + errThere.Error()}, nil
	}
	return differences(here, there), nil
}

// unanswered drops a refusal, which is an answer.
func unanswered(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) && e.Reason == ReasonUnauthenticated {
		return nil
	}
	return err
}

func differences(offline, reviewed *Identity) []string {
	var found []string
	note := func(what string, here, there any) {
		found = append(found, fmt.Sprintf("%s: offline %q, API server %q", what, here, there))
	}
	if offline.Username != reviewed.Username {
		note("user name", offline.Username, reviewed.Username)
	}
	if offline.UID != reviewed.UID {
		note("uid", offline.UID, reviewed.UID)
	}
	if here, there := sorted(offline.Groups), sorted(reviewed.Groups); !slices.Equal(here, there) {
		note("groups", here, there)
	}
	keys := maps.Clone(offline.Extra)
	if keys == nil {
		keys = map[string][]string{}
	}
	maps.Copy(keys, reviewed.Extra)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if here, there := offline.Extra[key], reviewed.Extra[key]; !slices.Equal(here, there) {
			note("extra "+key, here, there)
		}
	}
	return found
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
