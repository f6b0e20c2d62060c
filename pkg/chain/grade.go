package chain

import (
	"fmt"
	"time"
)

// Grade says how far a link can be relied on.
type Grade string

// Grades, from the strongest.
const (
	// Authenticated: the API server, or the proxy, saw the credential of who did it, and the record of that could not be
	// changed since.
	Authenticated Grade = "authenticated"
	// Asserted: somebody else said so: by impersonation, or in a record that nobody guarded when it was written.
	Asserted Grade = "asserted"
	// Inferred: nothing says so, but a name, an owner reference or a moment fits.
	Inferred Grade = "inferred"
)

// Evidence is where a link is known from.
type Evidence string

// Kinds of evidence.
const (
	FromRecord    Evidence = "record"
	FromAudit     Evidence = "auditLog"
	FromArchive   Evidence = "archive"
	FromOwner     Evidence = "ownerReference"
	FromAccessLog Evidence = "accessLog"
)

// Record is what an object says itself of who did something to it.
type Record struct {
	// By is the exact user name; empty if the object says nothing.
	By string
	// Doubt says in half a sentence why the record is not believed; empty if it is.
	Doubt string
	// Evidence is where the record was read.
	Evidence Evidence
}

// Match says by what an event of the audit log is known to be about an object.
type Match int

// Matches, from the weakest.
const (
	// ByTime: an event without a name, in the second in which the object was created.
	ByTime Match = iota
	// ByName: an event with the object's name, while the object was there, but without its UID.
	ByName
	// ByUID is certain.
	ByUID
)

// Sighting is an event of the audit log that is, or may be, the deed.
type Sighting struct {
	// User is whose credential the API server saw; As is whom he impersonated, empty if nobody.
	User, As string
	At       time.Time
	Match    Match
}

// effective is the user name that the API server acted on, and recorded.
func (s *Sighting) effective() string {
	if s.As != "" {
		return s.As
	}
	return s.User
}

// Finding is who did something.
type Finding struct {
	// User is who did it; Through is the user whom he impersonated for it.
	User, Through string
	At            time.Time
	Grade         Grade
	// Why says in half a sentence what a grade below Authenticated rests on, and what the evidence does not agree on.
	Why      string
	Evidence []Evidence
}

// Judge decides who did it, from what the object says and what the audit log shows; false if neither tells. An event
// that is certain goes before the record. Events that are not can lower the grade of a record, never raise one.
func Judge(record Record, seen []Sighting) (Finding, bool) {
	if exact := matching(seen, ByUID); len(exact) > 0 {
		return judgeEvent(record, &exact[len(exact)-1]), true
	}
	if record.By != "" {
		return judgeRecord(record, seen), true
	}
	return judgeCoincidence(seen)
}

func matching(seen []Sighting, match Match) []Sighting {
	var found []Sighting
	for _, s := range seen {
		if s.Match == match {
			found = append(found, s)
		}
	}
	return found
}

func judgeEvent(record Record, s *Sighting) Finding {
	f := Finding{User: s.User, Through: s.As, At: s.At, Grade: Authenticated, Evidence: []Evidence{FromAudit}}
	if s.As != "" {
		f.Grade, f.Why = Asserted, "the audit log shows the impersonation"
	}
	switch {
	case record.By == "":
	case record.By == s.effective():
		f.Evidence = append(f.Evidence, record.Evidence)
	case record.Doubt != "":
		f.Why = join(f.Why, fmt.Sprintf("the record names %q, but %s", record.By, record.Doubt))
	default:
		f.Grade, f.Why = Asserted, join(f.Why, fmt.Sprintf("the record names %q, so one of the two is of another origin", record.By))
	}
	return f
}

func judgeRecord(record Record, seen []Sighting) Finding {
	f := Finding{User: record.By, Grade: Authenticated, Evidence: []Evidence{record.Evidence}}
	if record.Doubt != "" {
		f.Grade, f.Why = Asserted, record.Doubt
	}
	fitting := fitting(record.By, seen)
	if len(fitting) == 0 {
		return f
	}
	f.At, f.Evidence = fitting[0].At, append(f.Evidence, FromAudit)
	switch user, acting := impersonators(fitting); {
	case acting == 0:
	case acting == len(fitting) && user != "":
		f.User, f.Through, f.Grade = user, record.By, Asserted
		f.Why = join(f.Why, "the audit log shows the impersonation, by name and moment")
	default:
		f.Grade = Asserted
		f.Why = join(f.Why, fmt.Sprintf("%d of %d events of the audit log that fit are impersonations", acting, len(fitting)))
	}
	return f
}

// fitting are the events by which the recorded user may have done it: those with the name, if there are any.
func fitting(user string, seen []Sighting) []Sighting {
	for _, match := range []Match{ByName, ByTime} {
		var found []Sighting
		for _, s := range matching(seen, match) {
			if s.effective() == user {
				found = append(found, s)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// impersonators counts the impersonations; user is who impersonated, empty if it was more than one.
func impersonators(seen []Sighting) (user string, acting int) {
	for _, s := range seen {
		if s.As == "" {
			continue
		}
		if acting > 0 && s.User != user {
			return "", count(seen)
		}
		user, acting = s.User, acting+1
	}
	return user, acting
}

func count(seen []Sighting) int {
	acting := 0
	for _, s := range seen {
		if s.As != "" {
			acting++
		}
	}
	return acting
}

// judgeCoincidence is for objects without a record: one event that fits is a hint, several are none.
func judgeCoincidence(seen []Sighting) (Finding, bool) {
	why := "the audit log names it without its UID"
	found := matching(seen, ByName)
	if len(found) == 0 {
		found, why = matching(seen, ByTime), "the audit log shows a creation without a name at that moment"
	}
	if len(found) == 0 {
		return Finding{}, false
	}
	for _, s := range found[1:] {
		if s.User != found[0].User || s.As != found[0].As {
			return Finding{}, false
		}
	}
	s := &found[0]
	return Finding{User: s.User, Through: s.As, At: s.At, Grade: Inferred, Why: why, Evidence: []Evidence{FromAudit}}, true
}

func join(first, second string) string {
	switch {
	case first == "":
		return second
	case second == "":
		return first
	}
	return first + "; " + second
}
