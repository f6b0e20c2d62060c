package attribution

import (
	"fmt"
	"strings"
)

// StatusField is the field of a Release's status that says who answers for it.
type StatusField string

// Fields of the status.
const (
	StatusAttribution   StatusField = "attribution"
	StatusAuthorization StatusField = "authorization"
)

// PipelineSource is where the pipeline of a Release is named.
type PipelineSource string

// Sources of the pipeline: the admission itself, or the ReleaseStrategy that it names.
const (
	PipelineFromAdmission PipelineSource = "Admission"
	PipelineFromStrategy  PipelineSource = "Strategy"
)

// Names of the vocabularies.
const (
	// VocabularyRHTAP has the words of the ADR. It is the default.
	VocabularyRHTAP = "rhtap"
	// VocabularyAppStudio has the prefix that the public release-service uses today.
	VocabularyAppStudio = "appstudio"
	// VocabularyAuthorization has the older wording of the ADR, its spelling of the label automated included.
	VocabularyAuthorization = "authorization"
)

// Vocabulary is the one table of the names by which people and other tools know the attribution of a Release. The labels
// are projections of the annotations attribution.alaudadevops.io/*, which alone are relied on.
type Vocabulary struct {
	Name string
	// AuthorLabel holds LabelValue of the author, on Releases and ReleasePlans.
	AuthorLabel string
	// AutomatedLabel is "true" on a Release that a program made.
	AutomatedLabel string
	// StandingLabel is "true" on a ReleasePlan whose author answers for its automated Releases.
	StandingLabel string
	// BlockReleasesLabel is "true" on a ReleasePlanAdmission that lets nothing through.
	BlockReleasesLabel string
	// AdmissionLabel names on a ReleasePlan the one ReleasePlanAdmission that it means.
	AdmissionLabel string
	StatusField    StatusField
	PipelineFrom   PipelineSource
}

// Vocabularies lists every vocabulary, the default one first.
func Vocabularies() []Vocabulary {
	authorization := vocabulary(VocabularyAuthorization, "release.rhtap.openshift.io")
	authorization.AutomatedLabel = "release.rhtab.openshift.io/automated"
	authorization.StandingLabel = "release.rhtap.openshift.io/standing-authorization"
	authorization.StatusField = StatusAuthorization
	authorization.PipelineFrom = PipelineFromStrategy
	return []Vocabulary{
		vocabulary(VocabularyRHTAP, "release.rhtap.openshift.io"),
		vocabulary(VocabularyAppStudio, "release.appstudio.openshift.io"),
		authorization,
	}
}

func vocabulary(name, prefix string) Vocabulary {
	return Vocabulary{
		Name:               name,
		AuthorLabel:        prefix + "/author",
		AutomatedLabel:     prefix + "/automated",
		StandingLabel:      prefix + "/standing-attribution",
		BlockReleasesLabel: prefix + "/block-releases",
		AdmissionLabel:     prefix + "/releasePlanAdmission",
		StatusField:        StatusAttribution,
		PipelineFrom:       PipelineFromAdmission,
	}
}

// Default is the vocabulary of the ADR.
func Default() Vocabulary { return Vocabularies()[0] }

// LookupVocabulary finds a vocabulary by its name; the empty name is the default one.
func LookupVocabulary(name string) (Vocabulary, error) {
	if name == "" {
		return Default(), nil
	}
	names := make([]string, 0, len(Vocabularies()))
	for _, v := range Vocabularies() {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	return Vocabulary{}, fmt.Errorf("there is no release vocabulary %q: choose one of %s", name, strings.Join(names, ", "))
}
