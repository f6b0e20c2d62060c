package creates

import (
	"cmp"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/config/policies"
)

// Mode is a way to record creators, or not to.
type Mode int

// The modes, in the order of a Round's samples.
const (
	Without Mode = iota
	Policy
	Webhook
)

// names of the modes, for people.
var names = []string{Without: "without", Policy: "policy", Webhook: "webhook"}

// shipped are copies of what is installed to record creators in this way.
func (m Mode) shipped() (objects []client.Object) {
	if m == Without {
		return nil
	}
	for key, object := range policies.Accepted(policies.Options{CreatorWebhook: m == Webhook})[0] {
		if key.Name == policies.CreatorRecord {
			objects = append(objects, object.(client.Object).DeepCopyObject().(client.Object))
		}
	}
	slices.SortFunc(objects, func(a, b client.Object) int {
		return cmp.Compare(a.GetObjectKind().GroupVersionKind().Kind, b.GetObjectKind().GroupVersionKind().Kind)
	})
	return objects
}

// server is where the webhooks are served.
type server struct {
	url string
	ca  []byte
}

// redirect sends webhooks there instead of to a Service: the kernel carries their calls, as it does in a cluster, and
// not the environment's stand-in for the network.
func (s *server) redirect(object client.Object) {
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			s.take(&o.Webhooks[i].ClientConfig)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			s.take(&o.Webhooks[i].ClientConfig)
		}
	}
}

func (s *server) take(config *admissionregistrationv1.WebhookClientConfig) {
	*config = admissionregistrationv1.WebhookClientConfig{URL: ptr.To(s.url + *config.Service.Path), CABundle: s.ca}
}
