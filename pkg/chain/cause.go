package chain

import "fmt"

// Ties are what is known of the tie between an object and the one that it was made for.
type Ties struct {
	// Reference: the object names the other one, with its UID, as its controller owner.
	Reference bool
	// Recorded: the creator record says that the object was created for the UID of the other one.
	Recorded bool
	// Logged: the audit log shows the object being created with that owner, under its UID.
	Logged bool
	// Proven: archived evidence says that this was proven when it was written.
	Proven bool
	// Creator is who created the object, as far as known.
	Creator Finding
	// Doubt says why the creator record is not believed; empty if it is.
	Doubt string
	// Controller: the creator, by the name that the API server acted on, is a controller that makes such objects for such
	// owners. Anybody else may name any owner.
	Controller bool
}

// Cause grades the link from an owner to what was made for it.
func Cause(t Ties) (Grade, string, []Evidence) {
	if t.Proven && t.Creator.Through == "" {
		return Authenticated, "", []Evidence{FromArchive}
	}
	evidence := []Evidence{FromOwner}
	switch {
	case t.Logged:
		evidence = []Evidence{FromAudit}
	case t.Recorded:
		evidence = []Evidence{FromRecord}
	default:
		return Inferred, "only an owner reference or label says so, and anybody who may change the object can set that", evidence
	}
	switch {
	case t.Creator.User == "":
		return Inferred, "who created it is not known", evidence
	case t.Creator.Grade == Inferred:
		return Inferred, "who created it is inferred", evidence
	case t.Creator.Through != "":
		return Asserted, "it was created by impersonation", evidence
	case !t.Logged && t.Doubt != "":
		return Asserted, t.Doubt, evidence
	case !t.Controller:
		return Asserted, fmt.Sprintf("%q, who created it, is not the controller of such objects, and named the owner himself", t.Creator.User), evidence
	}
	return t.Creator.Grade, t.Creator.Why, evidence
}
