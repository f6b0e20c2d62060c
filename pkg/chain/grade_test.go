package chain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
)

var at = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const (
	alice = "alice@example.com"
	bot   = "system:serviceaccount:team-a:bot"
)

func by(user string) Record { return Record{By: user, Evidence: FromRecord} }

func doubted(user, doubt string) Record {
	return Record{By: user, Doubt: doubt, Evidence: FromRecord}
}

func seen(user, as string, match Match) Sighting {
	return Sighting{User: user, As: as, At: at, Match: match}
}

func TestJudge(t *testing.T) {
	tests := map[string]struct {
		record  Record
		seen    []Sighting
		want    Finding
		unknown bool
	}{
		"nothing is known": {unknown: true},
		"a believed record": {record: by(alice),
			want: Finding{User: alice, Grade: Authenticated, Evidence: []Evidence{FromRecord}}},
		"a record that is not believed": {record: doubted(alice, "it is too old"),
			want: Finding{User: alice, Grade: Asserted, Why: "it is too old", Evidence: []Evidence{FromRecord}}},
		"an event with the UID": {seen: []Sighting{seen(alice, "", ByUID)},
			want: Finding{User: alice, Grade: Authenticated, Evidence: []Evidence{FromAudit}}},
		"an event with the UID, impersonated": {seen: []Sighting{seen(alice, bot, ByUID)},
			want: Finding{User: alice, Through: bot, Grade: Asserted, Why: "the audit log shows the impersonation", Evidence: []Evidence{FromAudit}}},
		"record and event agree": {record: by(alice), seen: []Sighting{seen(alice, "", ByUID)},
			want: Finding{User: alice, Grade: Authenticated, Evidence: []Evidence{FromAudit, FromRecord}}},
		"a believed record does not hide an impersonation": {record: by(bot), seen: []Sighting{seen(alice, bot, ByUID)},
			want: Finding{User: alice, Through: bot, Grade: Asserted, Why: "the audit log shows the impersonation", Evidence: []Evidence{FromAudit, FromRecord}}},
		"an event proves what a record could not": {record: doubted(alice, "it is too old"), seen: []Sighting{seen(alice, "", ByUID)},
			want: Finding{User: alice, Grade: Authenticated, Evidence: []Evidence{FromAudit, FromRecord}}},
		"a believed record and an event disagree": {record: by(bot), seen: []Sighting{seen(alice, "", ByUID)},
			want: Finding{User: alice, Grade: Asserted, Why: `the record names "` + bot + `", so one of the two is of another origin`, Evidence: []Evidence{FromAudit}}},
		"an event goes before a migrated record": {record: doubted(bot, "it was migrated"), seen: []Sighting{seen(alice, "", ByUID)},
			want: Finding{User: alice, Grade: Authenticated, Why: `the record names "` + bot + `", but it was migrated`, Evidence: []Evidence{FromAudit}}},
		"an event by name agrees with the record": {record: by(alice), seen: []Sighting{seen(alice, "", ByName)},
			want: Finding{User: alice, Grade: Authenticated, Evidence: []Evidence{FromRecord, FromAudit}}},
		"an event by name does not raise a doubted record": {record: doubted(alice, "it is too old"), seen: []Sighting{seen(alice, "", ByName)},
			want: Finding{User: alice, Grade: Asserted, Why: "it is too old", Evidence: []Evidence{FromRecord, FromAudit}}},
		"an event by name lowers a record": {record: by(bot), seen: []Sighting{seen(alice, bot, ByName)},
			want: Finding{User: alice, Through: bot, Grade: Asserted, Why: "the audit log shows the impersonation, by name and moment", Evidence: []Evidence{FromRecord, FromAudit}}},
		"an event by name of somebody else is not it": {record: by(alice), seen: []Sighting{seen(bot, "", ByName)},
			want: Finding{User: alice, Grade: Authenticated, Evidence: []Evidence{FromRecord}}},
		"some of the creations in the second are impersonations": {record: by(bot), seen: []Sighting{seen(bot, "", ByTime), seen(alice, bot, ByTime)},
			want: Finding{User: bot, Grade: Asserted, Why: "1 of 2 events of the audit log that fit are impersonations", Evidence: []Evidence{FromRecord, FromAudit}}},
		"two impersonate the same": {record: by(bot), seen: []Sighting{seen(alice, bot, ByTime), seen("eve", bot, ByTime)},
			want: Finding{User: bot, Grade: Asserted, Why: "2 of 2 events of the audit log that fit are impersonations", Evidence: []Evidence{FromRecord, FromAudit}}},
		"an event by name alone": {seen: []Sighting{seen(alice, "", ByName)},
			want: Finding{User: alice, Grade: Inferred, Why: "the audit log names it without its UID", Evidence: []Evidence{FromAudit}}},
		"an impersonation by name alone": {seen: []Sighting{seen(alice, bot, ByName)},
			want: Finding{User: alice, Through: bot, Grade: Inferred, Why: "the audit log names it without its UID", Evidence: []Evidence{FromAudit}}},
		"a coincidence alone": {seen: []Sighting{seen(alice, "", ByTime)},
			want: Finding{User: alice, Grade: Inferred, Why: "the audit log shows a creation without a name at that moment", Evidence: []Evidence{FromAudit}}},
		"several coincidences tell nothing": {seen: []Sighting{seen(alice, "", ByTime), seen(bot, "", ByTime)}, unknown: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, known := Judge(test.record, test.seen)
			assert.Equal(t, !test.unknown, known)
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(Finding{}, "At")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNothingWithoutUIDIsBetterThanInferred(t *testing.T) {
	for _, match := range []Match{ByTime, ByName} {
		for _, as := range []string{"", bot} {
			got, _ := Judge(Record{}, []Sighting{seen(alice, as, match)})
			assert.Equal(t, Inferred, got.Grade)
		}
	}
}

func TestCause(t *testing.T) {
	controller := Finding{User: bot, Grade: Authenticated}
	tests := map[string]struct {
		ties Ties
		want Grade
		says string
	}{
		"recorded by its controller": {ties: Ties{Reference: true, Recorded: true, Creator: controller, Controller: true}, want: Authenticated},
		"logged by its controller":   {ties: Ties{Reference: true, Logged: true, Creator: controller, Controller: true, Doubt: "no epoch"}, want: Authenticated},
		"proven when it was archived": {ties: Ties{Proven: true, Creator: Finding{User: bot, Grade: Authenticated}},
			want: Authenticated},
		"proven, but the log shows an impersonation": {ties: Ties{Proven: true, Logged: true, Controller: true,
			Creator: Finding{User: alice, Through: bot, Grade: Asserted}}, want: Asserted, says: "impersonation"},
		"recorded by somebody who is no controller": {ties: Ties{Reference: true, Recorded: true, Creator: Finding{User: alice, Grade: Authenticated}},
			want: Asserted, says: "is not the controller"},
		"recorded by an impersonated controller": {ties: Ties{Recorded: true, Controller: true, Creator: Finding{User: alice, Through: bot, Grade: Asserted}},
			want: Asserted, says: "impersonation"},
		"a record that is not believed": {ties: Ties{Recorded: true, Controller: true, Doubt: "it is too old", Creator: Finding{User: bot, Grade: Asserted}},
			want: Asserted, says: "too old"},
		"an inferred creator":       {ties: Ties{Recorded: true, Controller: true, Creator: Finding{User: bot, Grade: Inferred}}, want: Inferred, says: "inferred"},
		"an unknown creator":        {ties: Ties{Recorded: true}, want: Inferred, says: "not known"},
		"only the reference":        {ties: Ties{Reference: true, Creator: controller, Controller: true}, want: Inferred, says: "only an owner reference"},
		"an owner set afterwards":   {ties: Ties{Reference: true, Creator: Finding{User: alice, Grade: Authenticated}}, want: Inferred, says: "only an owner reference"},
		"a name in common, no more": {ties: Ties{}, want: Inferred},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			grade, why, evidence := Cause(test.ties)
			assert.Equal(t, test.want, grade)
			assert.Contains(t, why, test.says)
			assert.NotEmpty(t, evidence)
			assert.Equal(t, grade == Authenticated, why == "", "a lower grade says why")
		})
	}
}
