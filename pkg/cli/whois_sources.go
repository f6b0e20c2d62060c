package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// openShiftUser is a kind that only OpenShift serves.
var openShiftUser = schema.GroupVersionKind{Group: "user.openshift.io", Version: "v1", Kind: "User"}

// objectFinder finds the objects behind user names, with the rights of the caller.
type objectFinder struct {
	c *cluster

	mu      sync.Mutex
	noUsers bool
}

// find looks for a ServiceAccount by a reserved name, and for a User by any other.
func (f *objectFinder) find(ctx context.Context, who *somebody) {
	if namespace, name, ok := attribution.ServiceAccount(who.Name); ok {
		f.serviceAccount(ctx, who, namespace, name)
		return
	}
	f.user(ctx, who)
}

func (f *objectFinder) serviceAccount(ctx context.Context, who *somebody, namespace, name string) {
	if !segment(namespace) || !segment(name) {
		who.unknown("no service account can have this name")
		return
	}
	account := &corev1.ServiceAccount{}
	switch err := f.c.Get(ctx, keyOf(namespace, name), account); {
	case err == nil:
		who.known(behind{Kind: behindServiceAccount, APIVersion: "v1", Namespace: namespace, Name: name, UID: string(account.UID)})
	case apierrors.IsNotFound(err):
		who.unknown("there is no such service account now")
	default:
		who.unavailable("the service account cannot be read: " + sentence(err))
	}
}

// user says nothing where OpenShift is not there, or the caller may not read Users: the directory knows.
func (f *objectFinder) user(ctx context.Context, who *somebody) {
	// "~" is OpenShift's word for whoever asks.
	if !segment(who.Name) || who.Name == "~" || f.absent() {
		return
	}
	user := &unstructured.Unstructured{}
	user.SetGroupVersionKind(openShiftUser)
	switch err := f.c.Get(ctx, keyOf("", who.Name), user); {
	case err == nil && user.GetName() == who.Name:
		who.known(behind{Kind: behindUser, APIVersion: user.GetAPIVersion(), Name: user.GetName(), UID: string(user.GetUID())})
		who.DisplayName, _, _ = unstructured.NestedString(user.Object, "fullName")
	case err == nil, apierrors.IsNotFound(err):
	case apimeta.IsNoMatchError(err), apierrors.IsForbidden(err):
		f.mu.Lock()
		f.noUsers = true
		f.mu.Unlock()
	default:
		who.unavailable("the User of OpenShift cannot be read: " + sentence(err))
	}
}

func (f *objectFinder) absent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.noUsers
}

// segment tells whether a name can stand in a path of the API without meaning something else.
func segment(name string) bool { return name != "" && len(content.IsPathSegmentName(name)) == 0 }

// whoisAtOnce is how many names the proxy takes at once.
const whoisAtOnce = 100

// whoisQuestion and whoisAnswer are what goes to the proxy's /-/whois and comes back; Reason and Detail are those of a
// denial.
type whoisQuestion struct {
	Names []string `json:"names"`
}

type whoisAnswer struct {
	People []struct {
		Name        string     `json:"name"`
		State       string     `json:"state"`
		UID         string     `json:"uid"`
		DisplayName string     `json:"displayName"`
		Email       string     `json:"email"`
		At          *time.Time `json:"at"`
		Why         string     `json:"why"`
	} `json:"people"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// askDirectory asks about everybody who is no service account.
func (p *program) askDirectory(ctx context.Context, c *cluster, o *whoisOptions, found []*somebody) {
	var people []*somebody
	for _, who := range found {
		if _, _, robot := attribution.ServiceAccount(who.Name); !robot && who.possible() {
			people = append(people, who)
		}
	}
	if len(people) == 0 {
		return
	}
	x, err := p.directory(ctx, c, o)
	for len(people) > 0 {
		batch := people[:min(len(people), whoisAtOnce)]
		people = people[len(batch):]
		if err == nil {
			err = x.whois(ctx, batch)
		}
		if err != nil {
			for _, who := range batch {
				who.unavailable("the directory cannot be asked: " + sentence(err))
			}
		}
	}
}

// directory is the proxy, as the one who asks about people.
func (p *program) directory(ctx context.Context, c *cluster, o *whoisOptions) (*proxy, error) {
	if p.impersonates() {
		return nil, errors.New("--as does not reach the proxy")
	}
	return p.proxy(ctx, c, o.proxy)
}

// whois asks about a batch, and takes the answer only if it speaks of all of it.
func (x *proxy) whois(ctx context.Context, batch []*somebody) error {
	question := whoisQuestion{}
	for _, who := range batch {
		question.Names = append(question.Names, who.Name)
	}
	answer := &whoisAnswer{}
	status, err := x.post(ctx, "/-/whois", question, answer)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return fail(ExitError, "the proxy refuses: %s (%s)", show(orElse(answer.Detail, http.StatusText(status))), showName(answer.Reason))
	case len(answer.People) != len(batch):
		return fail(ExitError, "the proxy at %s answers about others than were asked about: is it of this release?", x.base.Host)
	}
	for i, who := range batch {
		switch person := answer.People[i]; {
		case person.Name != who.Name:
			who.unavailable("the proxy answers about somebody else")
		case person.State == whoisKnown:
			who.known(behind{Kind: behindDirectory, UID: person.UID, At: person.At})
			who.DisplayName, who.Email = orElse(person.DisplayName, who.DisplayName), person.Email
		case person.State == whoisUnknown:
			who.unknown("the directory: " + person.Why)
		default:
			who.unavailable("the directory: " + person.Why)
		}
	}
	return nil
}

// post sends a JSON document and reads the one that comes back.
func (x *proxy) post(ctx context.Context, path string, document, into any) (status int, err error) {
	body, err := json.Marshal(document)
	if err != nil {
		return 0, err
	}
	address := *x.base
	address.Path += path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	return x.send(r, into)
}
