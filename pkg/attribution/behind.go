package attribution

import (
	"fmt"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// Facts are what admission recorded about a resource. Everything but names for messages decides.
type Facts struct {
	// Kind is the resource's; a Release has its own rules, anything else is a run. Namespace and Name are for the message.
	Kind, Namespace, Name string
	// Creator is whom the creator record names; CreatorKnown tells that the record can be relied on. Of a Release both may
	// be left out by who has settled that the author is the creator.
	Creator      string
	CreatorKnown bool
	// Changed tells that Creator is not who made the resource, but who set its present content.
	Changed bool
	// Author is the direct author of a Release. Automated tells that a program that may say so made it, for which only
	// a standing author can answer.
	Author    string
	Automated bool
	// Standing is what the Release stands on, as fixed at its admission, or for a run who stands for the plan that the
	// check names. Nil means nothing.
	Standing *Standing
	// StandingNow is the plan as it is now, as OfPlan says it. Nil means that it is gone.
	StandingNow *Standing
	// AnyAuthor lets a program be the author: nobody asked for a person.
	AnyAuthor bool
	Now       time.Time
}

// Verdict is who is accountable, or why nobody is.
type Verdict struct {
	// Author is the exact user name, where one is known; also of a robot.
	Author string
	Source approvalv1alpha1.AttributionSource
	// Standing is what the author stands on, if he does not stand for himself.
	Standing *Standing
	// Reason is ReasonAttributed, ReasonNoAuthor, ReasonOnlyRobot, ReasonStandingChanged or ReasonStandingExpired.
	Reason string
	// Message is one sentence for people. Unless somebody is accountable, it says how to mend that.
	Message string
}

// Attributed tells that somebody is accountable. It does not tell that the directory knows him.
func (v *Verdict) Attributed() bool { return v.Reason == approvalv1alpha1.ReasonAttributed }

// Behind decides who is accountable.
//
// For a Release that is its direct author; for an automated one, whoever stood for its plan when the Release was made. It
// must still be that plan in that generation, which names the same admission: nobody answers for a text that he did not see,
// and the plan says where the Release goes. Who stood for it must not have taken his word back either, and what a Release
// says of it is not believed without the plan.
// For a run it is the creator; for a robot's run, whoever stands for the plan that the check names.
func Behind(f Facts) Verdict {
	if f.Kind == releasev1alpha1.KindRelease {
		return f.release()
	}
	return f.run()
}

func (f *Facts) release() Verdict {
	switch {
	case f.Creator != "" && !f.CreatorKnown:
		return f.unproven()
	case f.Standing == nil:
		return f.no(approvalv1alpha1.ReasonStandingChanged, f.Author,
			"%s stands on no ReleasePlan, because there was none when it was made: create the ReleasePlan, then the Release anew", f.what())
	case f.StandingNow == nil:
		return f.no(approvalv1alpha1.ReasonStandingChanged, f.Author,
			"the ReleasePlan %s that %s stands on is gone: create the Release anew with a plan that exists", f.Standing.Name, f.what())
	case f.Standing.UID != f.StandingNow.UID:
		return f.no(approvalv1alpha1.ReasonStandingChanged, f.Author,
			"the ReleasePlan %s was deleted and made anew after %s was made: create the Release anew", f.Standing.Name, f.what())
	case f.Standing.Admission != f.StandingNow.Admission:
		return f.no(approvalv1alpha1.ReasonStandingChanged, f.Author,
			"the ReleasePlan %s names another ReleasePlanAdmission than when %s was made: create the Release anew", f.Standing.Name, f.what())
	case f.Automated:
		return f.standing()
	case f.Standing.Generation != f.StandingNow.Generation:
		return f.no(approvalv1alpha1.ReasonStandingChanged, f.Author,
			"the ReleasePlan %s was changed after %s was made: create the Release anew", f.Standing.Name, f.what())
	case f.Author != "" && f.CreatorKnown && f.Author != f.Creator:
		return f.no(approvalv1alpha1.ReasonNoAuthor, "",
			"the records of %s contradict each other, because its author is not who made it: create the Release anew", f.what())
	case f.Author != "":
		return f.direct(f.Author)
	}
	return f.no(approvalv1alpha1.ReasonNoAuthor, "",
		"nobody is recorded as the author of %s, because it is older than the records: create the Release anew", f.what())
}

func (f *Facts) run() Verdict {
	switch {
	case !f.CreatorKnown || f.Creator == "":
		return f.unproven()
	case !IsRobot(f.Creator) || f.AnyAuthor:
		return f.direct(f.Creator)
	case f.Standing == nil || f.Standing.Author == "":
		return f.no(approvalv1alpha1.ReasonOnlyRobot, f.Creator,
			"only the robot %s stands behind %s, and no person stands for it: %s", f.Creator, f.what(), f.mendRun())
	}
	return f.standing()
}

func (f *Facts) unproven() Verdict {
	return f.no(approvalv1alpha1.ReasonNoAuthor, "",
		"nobody can be shown to have made %s, because its creator record is missing or not to be relied on: make it anew", f.what())
}

// mendRun says what a person can do about a robot's run.
func (f *Facts) mendRun() string {
	if f.StandingNow == nil {
		return "start it yourself, or name in the rule a ReleasePlan that somebody has accepted"
	}
	return fmt.Sprintf("let somebody accept the ReleasePlan %s, or start it yourself", f.StandingNow.Name)
}

func (f *Facts) direct(author string) Verdict {
	if IsRobot(author) && !f.AnyAuthor {
		return f.no(approvalv1alpha1.ReasonOnlyRobot, author,
			"only the robot %s stands behind %s, and it may not say that it is automated: create the Release yourself, or have the robot listed as automated and accept the ReleasePlan",
			author, f.what())
	}
	did := "made"
	if f.Changed {
		did = "set what is now in"
	}
	return Verdict{
		Author: author, Source: approvalv1alpha1.SourceDirect, Reason: approvalv1alpha1.ReasonAttributed,
		Message: fmt.Sprintf("%s %s %s", author, did, f.what()),
	}
}

// standing answers for what a program made.
func (f *Facts) standing() Verdict {
	s := f.Standing
	switch {
	case s.Author == "":
		return f.no(approvalv1alpha1.ReasonNoAuthor, "",
			"%s was made by a program, and nobody stood for the ReleasePlan %s then: accept the plan, then create the Release anew", f.what(), s.Name)
	case f.StandingNow == nil:
		return f.changed("the ReleasePlan %s that %s stood for is gone: %s", s.Name, s.Author, f.anew())
	case s.UID != f.StandingNow.UID:
		return f.changed("the ReleasePlan %s is not the one that %s stood for, but made anew: %s", s.Name, s.Author, f.anew())
	case s.Generation != f.StandingNow.Generation || s.Admission != f.StandingNow.Admission:
		return f.changed("the ReleasePlan %s was changed after %s: %s", s.Name, f.fixed(), f.anew())
	case f.Kind == releasev1alpha1.KindRelease && s.Author != f.StandingNow.Author:
		return f.changed("%s does not stand for the ReleasePlan %s any more: %s", s.Author, s.Name, f.anew())
	case s.Expired(f.Now):
		return f.expired(s)
	case f.StandingNow.Expired(f.Now):
		// He gave his word again, for a shorter time.
		return f.expired(f.StandingNow)
	case IsRobot(s.Author) && !f.AnyAuthor:
		return f.withStanding(f.no(approvalv1alpha1.ReasonOnlyRobot, s.Author,
			"only the robot %s stands for the ReleasePlan %s, behind %s: %s", s.Author, s.Name, f.what(), f.anew()))
	}
	return f.withStanding(Verdict{
		Author: s.Author, Reason: approvalv1alpha1.ReasonAttributed,
		Message: fmt.Sprintf("%s stands for %s by the ReleasePlan %s", s.Author, f.what(), s.Name),
	})
}

// fixed says what the plan's generation was fixed by.
func (f *Facts) fixed() string {
	if f.Kind == releasev1alpha1.KindRelease {
		return "the Release was made"
	}
	return f.Standing.Author + " accepted it"
}

// anew says how to mend a standing attribution that does not hold.
func (f *Facts) anew() string {
	if f.Kind == releasev1alpha1.KindRelease {
		return "let somebody accept the plan as it is now, then create the Release anew"
	}
	return "let somebody accept the plan as it is now"
}

func (f *Facts) expired(s *Standing) Verdict {
	return f.withStanding(f.no(approvalv1alpha1.ReasonStandingExpired, s.Author,
		"%s stood for the ReleasePlan %s until %s, and that is over: %s", s.Author, s.Name, s.ExpiresAt.UTC().Format(time.RFC3339), f.anew()))
}

func (f *Facts) changed(format string, args ...any) Verdict {
	return f.withStanding(f.no(approvalv1alpha1.ReasonStandingChanged, f.Standing.Author, format, args...))
}

func (f *Facts) withStanding(v Verdict) Verdict {
	v.Source, v.Standing = approvalv1alpha1.SourceStanding, f.Standing
	return v
}

func (f *Facts) no(reason, author, format string, args ...any) Verdict {
	return Verdict{Author: author, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (f *Facts) what() string {
	if f.Name == "" {
		return "the " + f.Kind
	}
	return fmt.Sprintf("%s %s/%s", f.Kind, f.Namespace, f.Name)
}
