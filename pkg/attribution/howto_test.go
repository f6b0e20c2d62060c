package attribution

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var howToRow = regexp.MustCompile("(?m)^\\| `([^`|]+)` \\| (\\w+) \\|")

// refusedReleases is every way in which nobody answers for a Release.
func refusedReleases() map[string]Facts {
	byHand := func(fixed, is *Standing) Facts {
		return release(func(f *Facts) { f.Author, f.Standing, f.StandingNow = "alice", fixed, is })
	}
	automated := func(fixed, is *Standing) Facts {
		return release(func(f *Facts) { f.Automated, f.Standing, f.StandingNow = true, fixed, is })
	}
	elsewhere := func(s *Standing) { s.Admission = "elsewhere" }
	return map[string]Facts{
		"nobody stood":           automated(plan(), plan(by("bob"))),
		"older than the records": release(func(f *Facts) { f.Standing, f.StandingNow = plan(), plan() }),
		"made by a robot":        release(func(f *Facts) { f.Author, f.Standing, f.StandingNow = robot, plan(), plan() }),
		"a robot stands":         automated(plan(by("kube:admin")), plan(by("kube:admin"))),
		"changed, by hand":       byHand(plan(), plan(generation(4))),
		"changed, automated":     automated(plan(by("bob")), plan(by("bob"), generation(4))),
		"elsewhere, by hand":     byHand(plan(), plan(elsewhere)),
		"elsewhere, automated":   automated(plan(by("bob")), plan(by("bob"), elsewhere)),
		"taken back":             automated(plan(by("bob")), plan()),
		"somebody else stands":   automated(plan(by("bob")), plan(by("alice"))),
		"made anew":              byHand(plan(), plan(another)),
		"gone":                   automated(plan(by("bob")), nil),
		"there was none":         byHand(nil, plan()),
		"for a time":             automated(plan(by("bob"), until(now)), plan(by("bob"), until(now))),
	}
}

// The how-to for release managers finds a failed Release by words of its message. They are those of the program, with its
// reason, and no refusal is missing.
func TestHowToTellsEveryRefusalOfARelease(t *testing.T) {
	text, err := os.ReadFile("../../docs/how-to/release-manager.md")
	require.NoError(t, err)
	rows := howToRow.FindAllStringSubmatch(string(text), -1)
	// Two answers are the check's own: what the directory and the connectors say.
	met := []string{"is not known to the directory", "a connector acts as"}
	for name, facts := range refusedReleases() {
		verdict := Behind(facts)
		require.False(t, verdict.Attributed(), name)
		var found []string
		for _, row := range rows {
			if strings.Contains(verdict.Message, row[1]) {
				found = append(found, row[1])
				assert.Equal(t, verdict.Reason, row[2], row[1])
			}
		}
		assert.Lenf(t, found, 1, "%s: the table has one row for: %s", name, verdict.Message)
		met = append(met, found...)
	}
	for _, row := range rows {
		assert.Contains(t, met, row[1], "no message says so")
	}
}
