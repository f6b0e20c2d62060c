package chain

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// maxUses bounds how many kinds of use are told of one request or pod.
const maxUses = 200

// Use is an entry of the proxy's access log.
type Use struct {
	At time.Time
	// Verdict is allow, deny or cut; Reason is its reason.
	Verdict, Reason string
	// Connector and Request are namespace/name.
	Connector, Request string
	// Subject is the exact user name.
	Subject, JTI       string
	PodUID, ContextUID types.UID
	Operation          string
	Method, Path       string
	Status             int
}

// useGroup is the uses that are alike.
type useGroup struct {
	Use
	until time.Time
	count int
	grade Grade
	why   string
}

func (g *useGroup) alike(other *useGroup) bool {
	a, b := g.Use, other.Use
	a.At, b.At = time.Time{}, time.Time{}
	a.JTI, b.JTI = "", ""
	return a == b && g.grade == other.grade
}

// AddUse takes a use up if it was made under a request of the chain, or by a pod or run of it.
func (f *Facts) AddUse(u *Use) bool {
	namespace, name, _ := strings.Cut(u.Request, "/")
	for _, e := range f.names[ours(kindRequest, namespace, name, "").key()] {
		if e.request == nil {
			continue
		}
		if grade, why, is := underRequest(e.request, u); is {
			e.used(&useGroup{Use: *u, until: u.At, count: 1, grade: grade, why: why})
			return true
		}
	}
	e := f.byUID[u.PodUID]
	if e == nil || u.PodUID == "" || !e.role.caused() {
		if e = f.byUID[u.ContextUID]; e == nil || u.ContextUID == "" || e.role != target && e.role != below {
			return false
		}
	}
	e.used(&useGroup{Use: *u, until: u.At, count: 1, grade: Authenticated})
	return true
}

// underRequest tells whether a use that names a request was made under this one, and not under another of its name.
func underRequest(r *approvalv1alpha1.ResourceCheckRequest, u *Use) (Grade, string, bool) {
	c := &r.Spec.Context
	if c.Pod != nil || c.Resource != nil {
		is := c.Pod != nil && c.Pod.UID == u.PodUID || c.Resource != nil && c.Resource.UID == u.ContextUID
		return Authenticated, "", is
	}
	if c.Token != nil {
		return Authenticated, "", c.Token.JTI == u.JTI
	}
	if c.Subject == nil || userOf(c.Subject) != u.Subject || u.At.Before(r.CreationTimestamp.Time) {
		return "", "", false
	}
	if ended := r.Status.Ended; ended != nil && u.Verdict != "deny" && u.At.After(ended.At.Add(time.Minute)) {
		return "", "", false
	}
	return Inferred, "the access log names the request without its UID", true
}

// userOf is the user name under which the API server knows a subject.
func userOf(s *approvalv1alpha1.Subject) string {
	if s.Kind == approvalv1alpha1.SubjectServiceAccount {
		return "system:serviceaccount:" + s.Namespace + ":" + s.Name
	}
	return s.Name
}

func (e *entry) used(g *useGroup) {
	for _, known := range e.uses {
		if known.alike(g) {
			known.count++
			if g.At.Before(known.At) {
				known.At = g.At
			}
			if g.At.After(known.until) {
				known.until = g.At
			}
			return
		}
	}
	if len(e.uses) >= maxUses {
		e.more++
		return
	}
	e.uses = append(e.uses, g)
}
