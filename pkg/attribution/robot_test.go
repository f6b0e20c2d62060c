package attribution

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestServiceAccount(t *testing.T) {
	tests := map[string]struct {
		namespace, name string
		ok              bool
	}{
		"system:serviceaccount:team-a:bot":     {"team-a", "bot", true},
		"system:serviceaccount:team-a":         {},
		"system:serviceaccount:team-a:":        {},
		"system:serviceaccount::bot":           {},
		"system:serviceaccount:team-a:bot:two": {},
		"system:serviceaccounts:team-a:bot":    {},
		"SYSTEM:serviceaccount:team-a:bot":     {},
		"alice":                                {},
		"":                                     {},
	}
	for username, want := range tests {
		t.Run(username, func(t *testing.T) {
			namespace, name, ok := ServiceAccount(username)
			assert.Equal(t, want.ok, ok)
			assert.Equal(t, want.namespace, namespace)
			assert.Equal(t, want.name, name)
		})
	}
}

func TestIsRobot(t *testing.T) {
	for _, robot := range []string{
		"", "system:serviceaccount:ci:bot", "system:serviceaccount:", "system:admin", "system:anonymous", "system:node:worker-1",
		"system:kube-controller-manager", "kube:admin", "kubernetes-admin", "kubernetes-super-admin",
	} {
		assert.True(t, IsRobot(robot), robot)
	}
	for _, person := range []string{
		"alice", "alice@example.com", "CN=dev,O=corp", "https://issuer/#sub", "systematic", "System:admin", "kube:admin2", "oidc:system:admin",
	} {
		assert.False(t, IsRobot(person), person)
	}
}

func TestVocabularies(t *testing.T) {
	for _, v := range Vocabularies() {
		found, err := LookupVocabulary(v.Name)
		assert.NoError(t, err)
		assert.Equal(t, v, found)
	}
	found, err := LookupVocabulary("")
	assert.NoError(t, err)
	assert.Equal(t, Default(), found)
	_, err = LookupVocabulary("klingon")
	assert.EqualError(t, err, `there is no release vocabulary "klingon": choose one of rhtap, appstudio, authorization`)
}

func TestVocabulariesHaveTheWordsOfTheADR(t *testing.T) {
	rhtap, older := Vocabularies()[0], Vocabularies()[2]
	assert.Equal(t, "release.rhtap.openshift.io/author", rhtap.AuthorLabel)
	assert.Equal(t, "release.rhtap.openshift.io/automated", rhtap.AutomatedLabel)
	assert.Equal(t, "release.rhtap.openshift.io/standing-attribution", rhtap.StandingLabel)
	assert.Equal(t, "release.rhtab.openshift.io/automated", older.AutomatedLabel)
	assert.Equal(t, "release.rhtap.openshift.io/standing-authorization", older.StandingLabel)
	assert.Equal(t, StatusAuthorization, older.StatusField)
	assert.Equal(t, PipelineFromStrategy, older.PipelineFrom)
	assert.Equal(t, "release.appstudio.openshift.io/block-releases", Vocabularies()[1].BlockReleasesLabel)
}
