package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/proxy/denial"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// Explanation answers GET /-/explain: what a request would get, without the tool being touched. Status, reason and
// detail are those of the answer.
type Explanation struct {
	// Verdict is allow or deny.
	Verdict string `json:"verdict"`
	denial.Document
	// Operations is what the request would do, as text.
	Operations []string `json:"operations,omitempty"`
	// Rules are those that apply.
	Rules []ExplainedRule `json:"rules,omitempty"`
	// Context is the run that an approval is reused for.
	Context *approvalv1alpha1.ObjectReference `json:"context,omitempty"`
	// Until is when an allow ends by itself.
	Until *time.Time `json:"until,omitempty"`
}

// ExplainedRule is a rule as it applies.
type ExplainedRule struct {
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

// question is what GET /-/explain asks.
type question struct {
	request operation.Request
	// user and groups are those of somebody else; user is empty for the caller himself.
	user   string
	groups []string
}

const (
	serviceAccountPrefix = "system:serviceaccount:"
	groupAuthenticated   = "system:authenticated"
)

// explain judges the asked request for the caller, or for a person whom he may ask about.
func (c *call) explain() {
	q, no := c.question()
	if no != nil {
		c.deny(*no)
		return
	}
	connector, known := c.gate.Connector(c.route.Namespace, c.route.Name)
	if known {
		c.connector = connector
	}
	var bad error
	c.operations, bad = classify(connector, q.request)
	who := c.identity
	if q.user != "" {
		who = &token.Identity{Username: q.user, UID: c.gate.PersonUID(q.user), Groups: append(q.groups, groupAuthenticated)}
		if no := c.mayExplain(); no != nil {
			c.deny(*no)
			return
		}
	}
	c.answer = c.decide(c.r.Context(), who)
	c.reply(c.explanation(who, bad))
}

// question reads the query. The route becomes the connector's, so that verdict and log speak of it.
func (c *call) question() (*question, *refusal) {
	values, err := url.ParseQuery(c.route.RawQuery)
	if err != nil {
		no := invalid("the query cannot be read; percent-encode its values")
		return nil, &no
	}
	c.route.Namespace, c.route.Name = values.Get("namespace"), values.Get("connector")
	if c.route.Namespace == "" || c.route.Name == "" {
		no := invalid("the query names no connector; give namespace= and connector=")
		return nil, &no
	}
	q := &question{user: values.Get("user"), groups: split(values["groups"])}
	if strings.HasPrefix(q.user, serviceAccountPrefix) {
		no := invalid("the verdict for a service account depends on its pod; ask from there")
		return nil, &no
	}
	raw, query, _ := strings.Cut(orElse(values.Get("path"), "/"), "?")
	path, err := operation.Parse(raw)
	if err != nil {
		no := invalid(err.Error())
		return nil, &no
	}
	q.request = operation.NewRequest(orElse(values.Get("method"), http.MethodGet), path, query, nil)
	return q, nil
}

func orElse(s, usual string) string {
	if s == "" {
		return usual
	}
	return s
}

// split takes groups=a,b and groups=a&groups=b alike.
func split(values []string) []string {
	var all []string
	for _, value := range values {
		all = append(all, strings.FieldsFunc(value, func(r rune) bool { return r == ',' })...)
	}
	return slices.Clip(all)
}

// mayExplain is the right to ask about others. Without it the answer does not tell more than the caller may know.
func (c *call) mayExplain() *refusal {
	if no := c.alive(); no != nil {
		return no
	}
	allowed, _, err := c.authz.Allowed(c.r.Context(), c.caller(), authz.ResourceAttributes{
		Namespace: c.route.Namespace, Name: c.route.Name, Verb: connectorsv1alpha1.VerbExplain,
		Group: connectorsv1alpha1.GroupVersion.Group, Version: connectorsv1alpha1.GroupVersion.Version, Resource: "connectors",
	})
	switch {
	case err != nil:
		return &refusal{reason: approvalv1alpha1.ReasonNotReady, message: "your permission cannot be looked up; try again in a moment", retryAfter: retrySoon}
	case allowed:
		return nil
	}
	if own := c.decide(c.r.Context(), c.identity); own.Reason == approvalv1alpha1.ReasonConnectorUnknown {
		return &refusal{reason: own.Reason, message: own.Message}
	}
	return &refusal{reason: approvalv1alpha1.ReasonNotPermitted, message: "you may not ask about others; ask the connector's owners for the verb explain on connectors"}
}

// caller is who asks, as SubjectAccessReviews have it.
func (c *call) caller() authz.UserInfo {
	return authz.UserInfo{Username: c.identity.Username, UID: c.identity.UID, Groups: c.identity.Groups, Extra: c.identity.Extra}
}

func (c *call) explanation(who *token.Identity, bad error) Explanation {
	e := Explanation{Verdict: denial.VerdictAllow}
	no := c.refused(bad)
	if no == nil {
		no = &refusal{reason: c.answer.Reason, message: c.allowedMessage()}
	} else {
		e.Verdict = denial.VerdictDeny
	}
	d := c.denial(*no, who)
	e.Document = d.Document()
	if e.Verdict == denial.VerdictAllow {
		e.Title, e.Status = http.StatusText(http.StatusOK), http.StatusOK
	}
	if no.reason != approvalv1alpha1.ReasonConnectorUnknown {
		c.addDetails(&e)
	}
	return e
}

func (c *call) allowedMessage() string {
	if until := c.answer.Until; !until.IsZero() {
		return "the request is allowed until " + until.UTC().Format(time.RFC3339)
	}
	return "the request is allowed"
}

// addDetails tells what only those may know who hold a right on the connector.
func (c *call) addDetails(e *Explanation) {
	for i := range c.operations {
		e.Operations = append(e.Operations, c.operations[i].Describe())
	}
	for _, r := range c.answer.Rules {
		e.Rules = append(e.Rules, ExplainedRule{Name: r.Name, UID: string(r.UID), Generation: r.Generation})
	}
	if run := c.answer.Run; run != nil {
		reference := run.Reference()
		e.Context = &reference
	}
	if until := c.answer.Until; !until.IsZero() {
		e.Until = &until
	}
}
