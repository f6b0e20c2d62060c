package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// maxSentence bounds what is printed of an error, in runes.
const maxSentence = 2048

// What the API server puts around the sentence of a webhook, a policy, RBAC or a schema.
var (
	webhookNoise   = regexp.MustCompile(`^admission webhook "[^"]*" denied the request(: |$)`)
	policyNoise    = regexp.MustCompile(`(?:ValidatingAdmissionPolicy|policy) ['"][^'"]*['"](?: with binding ['"][^'"]*['"])? denied request: `)
	objectNoise    = regexp.MustCompile(`^[\w.-]+ "[^"]*" is (?:forbidden|invalid): `)
	rbacRefusal    = regexp.MustCompile(`^(?:\S+ (?:"[^"]*" )?is forbidden: )?User "(.*)" cannot (\w+) resource "([^"]*)" in API group "[^"]*"(?: in the namespace "([^"]*)")?`)
	webhookTrouble = regexp.MustCompile(`failed calling webhook|failed to call webhook`)
	kindNotFound   = regexp.MustCompile(`^(\w+)\.[\w.-]+ ("[^"]*" not found)$`)
)

// sentence says in one line, without the noise of Go and of the API server, what went wrong.
func sentence(err error) string {
	return plaintext.Line(plainSentence(err), maxSentence)
}

func plainSentence(err error) string {
	var status apierrors.APIStatus
	var urlError *url.Error
	switch {
	case errors.As(err, &status):
		return statusSentence(status.Status())
	case apimeta.IsNoMatchError(err):
		return "the cluster does not know this kind (" + err.Error() + "): check the spelling, or ask an administrator whether Countersign is installed"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		return "the server did not answer in time: try again"
	case errors.As(err, &urlError):
		return "the server at " + hostOf(urlError.URL) + " cannot be reached: " + urlError.Err.Error()
	}
	return err.Error()
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return u.Host
}

func statusSentence(status metav1.Status) string {
	message := status.Message
	switch {
	case status.Code == http.StatusUnauthorized:
		return "the API server does not know you: log in again"
	case webhookTrouble.MatchString(message):
		return "Countersign's admission webhook does not answer, so nothing was changed: try again, and if it stays so tell an administrator"
	case rbacRefusal.MatchString(message):
		return rbacSentence(rbacRefusal.FindStringSubmatch(message))
	}
	if fields := fieldSentences(status); fields != "" {
		return fields
	}
	message = webhookNoise.ReplaceAllString(message, "")
	message = objectNoise.ReplaceAllString(message, "")
	if at := policyNoise.FindStringIndex(message); at != nil {
		message = message[at[1]:]
	}
	message = kindNotFound.ReplaceAllString(message, "$1 $2")
	if message == "" {
		return "the API server refused without saying why"
	}
	return message
}

// fieldSentences are what a schema says of fields; it adds causes without a field, about its own working.
func fieldSentences(status metav1.Status) string {
	if status.Reason != metav1.StatusReasonInvalid || status.Details == nil || !objectNoise.MatchString(status.Message) {
		return ""
	}
	var sentences []string
	for _, cause := range status.Details.Causes {
		if cause.Field != "" && cause.Field != "<nil>" {
			sentences = append(sentences, cause.Field+": "+cause.Message)
		}
	}
	return strings.Join(sentences, "; ")
}

func rbacSentence(match []string) string {
	user, verb, resource, namespace := match[1], match[2], match[3], match[4]
	where, whom := "in any namespace", "an administrator"
	if namespace != "" {
		where, whom = "in namespace "+namespace, "an owner of it"
	}
	return user + " may not " + verb + " " + resource + " " + where + ": ask " + whom + " for the right"
}

// refusedByAdmission tells a decision of a webhook or policy from other errors.
func refusedByAdmission(err error) bool {
	var api apierrors.APIStatus
	if !errors.As(err, &api) || api.Status().Code >= http.StatusInternalServerError {
		return false
	}
	message := api.Status().Message
	return webhookNoise.MatchString(message) || policyNoise.MatchString(message)
}
