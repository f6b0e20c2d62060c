package connector

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// change is one write of a connector. On create, old is an empty connector.
type change struct {
	old, new connectorsv1alpha1.Connector
	created  bool
}

func read(r *admit.Review) (*change, error) {
	c := &change{created: r.Old == nil}
	if err := admit.Decode(r.Object, &c.new); err != nil {
		return nil, err
	}
	c.new.Namespace = r.Namespace
	if c.created {
		return c, nil
	}
	return c, admit.Decode(r.Old, &c.old)
}

// wellFormed refuses what the schema cannot. What was stored before and did not change stays.
func (c *change) wellFormed() error {
	if !same(c.old.Spec.Operations, c.new.Spec.Operations) {
		for i, o := range c.new.Spec.Operations {
			if _, err := operation.NewHTTPMatch(o.Methods, o.Paths); err != nil {
				return admit.Invalid(fmt.Sprintf("spec.operations[%d]", i), err.Error())
			}
		}
	}
	for _, ref := range []struct {
		field    string
		old, new *connectorsv1alpha1.SecretReference
	}{
		{"spec.auth.secretRef", login(&c.old.Spec), login(&c.new.Spec)},
		{"spec.caCertSecretRef", c.old.Spec.CACertSecretRef, c.new.Spec.CACertSecretRef},
	} {
		if ref.new != nil && ref.new.Namespace != "" && ref.new.Namespace != c.new.Namespace && !same(ref.old, ref.new) {
			return admit.Invalid(ref.field+".namespace", fmt.Sprintf(
				"a connector uses Secrets of its own namespace only: leave it out, and put the Secret into %s", c.new.Namespace))
		}
	}
	return nil
}

// credentialsAtStake names the Secrets that the write sends somewhere else than before, or that it lets be sent for the
// first time.
func (c *change) credentialsAtStake() []string {
	moved := slices.ContainsFunc(destination, func(f field) bool { return c.differs(f) })
	var names []string
	for _, ref := range []struct {
		old, new *connectorsv1alpha1.SecretReference
	}{
		{login(&c.old.Spec), login(&c.new.Spec)}, {c.old.Spec.CACertSecretRef, c.new.Spec.CACertSecretRef},
	} {
		if ref.new != nil && (moved || ref.old == nil || ref.old.Name != ref.new.Name) && !slices.Contains(names, ref.new.Name) {
			names = append(names, ref.new.Name)
		}
	}
	return names
}

func login(spec *connectorsv1alpha1.ConnectorSpec) *connectorsv1alpha1.SecretReference {
	if spec.Auth == nil {
		return nil
	}
	return spec.Auth.SecretRef
}

// field is a part of the spec. A connector for which it yields the same means the same by it.
type field struct {
	path string
	of   func(*connectorsv1alpha1.ConnectorSpec) any
}

// destination is where credentials are sent. The parameters name token services.
var destination = []field{
	{"spec.address", func(s *connectorsv1alpha1.ConnectorSpec) any { return s.Address }},
	{"spec.addressExtensions", func(s *connectorsv1alpha1.ConnectorSpec) any { return s.AddressExtensions }},
	{"spec.params", func(s *connectorsv1alpha1.ConnectorSpec) any { return s.Params }},
}

// meaning is what counts as a write, and for whom an approval holds. The class chooses the built-in table.
var meaning = []field{
	{"spec.operations", func(s *connectorsv1alpha1.ConnectorSpec) any { return s.Operations }},
	{"spec.requireChecks", func(s *connectorsv1alpha1.ConnectorSpec) any { return s.RequireChecks }},
	{"spec.contextScope", func(s *connectorsv1alpha1.ConnectorSpec) any { return scope(s) }},
	{"spec.allowUnboundServiceAccounts", func(s *connectorsv1alpha1.ConnectorSpec) any { return s.AllowUnboundServiceAccounts }},
}

// identity is what the tool is and as whom it is used.
var identity = []field{
	{"spec.connectorClassName", func(s *connectorsv1alpha1.ConnectorSpec) any { return s.ConnectorClassName }},
	{"spec.auth", func(s *connectorsv1alpha1.ConnectorSpec) any { return s.Auth }},
}

// scope is the default of the schema where nothing is said.
func scope(spec *connectorsv1alpha1.ConnectorSpec) connectorsv1alpha1.ContextScope {
	if spec.ContextScope == "" {
		return connectorsv1alpha1.ContextScopeRun
	}
	return spec.ContextScope
}

// guarded names the first changed field that rules rely on; empty if there is none. A new connector has to name a tool
// somehow, so there only what bends or closes the gate counts.
func (c *change) guarded() string {
	fields := meaning
	if !c.created {
		fields = slices.Concat(destination, meaning, identity)
	}
	for _, f := range fields {
		if c.differs(f) {
			return f.path
		}
	}
	if !c.created && admit.GainsOwner(&c.new, &c.old) {
		return "metadata.ownerReferences"
	}
	return ""
}

func (c *change) differs(f field) bool { return !same(f.of(&c.old.Spec), f.of(&c.new.Spec)) }

// same takes an absent list for an empty one.
func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }
