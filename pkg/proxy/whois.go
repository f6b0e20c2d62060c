package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// WhoisQuestion is the body of POST /-/whois: at most MaxWhois user names, which are opaque. The caller needs the verb
// whois on people.authority.alaudadevops.io, because whoever may ask can find out who works here.
type WhoisQuestion struct {
	Names []string `json:"names"`
}

// Whois answers POST /-/whois: what the directory says of each name, in the order of the question. Texts in it are the
// directory's: whoever prints them escapes them.
type Whois struct {
	People []WhoisPerson `json:"people"`
}

// WhoisPerson is what the directory says of one name.
type WhoisPerson struct {
	Name  string     `json:"name"`
	State WhoisState `json:"state"`
	// UID, DisplayName and Email are those of somebody known; each may be empty. At is when the directory said so.
	UID         string     `json:"uid,omitempty"`
	DisplayName string     `json:"displayName,omitempty"`
	Email       string     `json:"email,omitempty"`
	At          *time.Time `json:"at,omitempty"`
	// Why is one sentence, of whoever is not known.
	Why string `json:"why,omitempty"`
}

// WhoisState is how sure the answer is.
type WhoisState string

// States of a WhoisPerson. Unavailable is neither a yes nor a no.
const (
	WhoisKnown       WhoisState = "Known"
	WhoisUnknown     WhoisState = "Unknown"
	WhoisUnavailable WhoisState = "Unavailable"
)

const (
	// MaxWhois is how many names one call takes.
	MaxWhois = 100
	// maxWhoisBody bounds the question in bytes: each byte of a name may take six in JSON.
	maxWhoisBody = 1<<10 + MaxWhois*(directory.MaxName*6+4)
	// whoisTimeout bounds the whole answer, so that a slow directory leaves what is known by then.
	whoisTimeout = 20 * time.Second
)

const noDirectory = "the proxy has no directory: start it with --directory-config"

// whois asks the right first, so that a body is only read of those who have it.
func (c *call) whois() {
	if c.r.Method != http.MethodPost {
		c.deny(invalid("names are sent in the body; use POST"))
		return
	}
	if no := c.mayAskWhois(); no != nil {
		c.deny(*no)
		return
	}
	question, no := c.whoisQuestion()
	if no != nil {
		c.deny(*no)
		return
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), whoisTimeout)
	defer cancel()
	c.reply(Whois{People: whoAre(ctx, c.people, question.Names)})
}

func (c *call) mayAskWhois() *refusal {
	if no := c.alive(); no != nil {
		return no
	}
	allowed, _, err := c.authz.Allowed(c.r.Context(), c.caller(), authz.ResourceAttributes{
		Group: approvalv1alpha1.AuthorityGroup, Resource: approvalv1alpha1.ResourcePeople, Verb: approvalv1alpha1.VerbWhois,
	})
	switch {
	case err != nil:
		return &refusal{reason: approvalv1alpha1.ReasonNotReady, message: "your permission cannot be looked up; try again in a moment", retryAfter: retrySoon}
	case !allowed:
		return &refusal{reason: approvalv1alpha1.ReasonNotPermitted,
			message: "you may not ask who people are; ask an administrator for the ClusterRole countersign-whois"}
	}
	return nil
}

func (c *call) whoisQuestion() (*WhoisQuestion, *refusal) {
	// A connection that knows no deadlines is none of net/http's. Who sends slowly is left, as with any body of ours.
	_ = http.NewResponseController(c.ResponseWriter).SetReadDeadline(time.Now().Add(c.patience))
	question := &WhoisQuestion{}
	if err := json.NewDecoder(http.MaxBytesReader(c.ResponseWriter, c.r.Body, maxWhoisBody)).Decode(question); err != nil {
		no := invalid(`the body cannot be read; send {"names": [...]} in JSON`)
		return nil, &no
	}
	if len(question.Names) > MaxWhois {
		no := invalid(fmt.Sprintf("the body has %d names; send at most %d at once", len(question.Names), MaxWhois))
		return nil, &no
	}
	return question, nil
}

// whoAre asks about all names at once; the directory bounds how many questions reach it.
func whoAre(ctx context.Context, people People, names []string) []WhoisPerson {
	found := make([]WhoisPerson, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() { found[i] = whoIs(ctx, people, name) })
	}
	asked.Wait()
	return found
}

func whoIs(ctx context.Context, people People, name string) WhoisPerson {
	who := WhoisPerson{Name: name, State: WhoisUnavailable, Why: noDirectory}
	if people == nil {
		return who
	}
	answer, err := people.Lookup(ctx, name)
	switch {
	case errors.Is(err, directory.ErrUnknown):
		who.State, who.Why = WhoisUnknown, err.Error()
	case err != nil:
		who.Why = err.Error()
	default:
		at := answer.At.UTC()
		return WhoisPerson{
			Name: name, State: WhoisKnown, At: &at,
			UID: answer.Person.UID, DisplayName: answer.Person.DisplayName, Email: answer.Person.Email,
		}
	}
	return who
}
