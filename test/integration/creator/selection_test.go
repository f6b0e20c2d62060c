package creator

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/config/policies"
)

// selected is what the API server serves of the kinds that the shipped selection names: the resources that are created,
// and the subresources that are written.
func (p *plane) selected(t *testing.T) (created map[schema.GroupResource]bool, written map[schema.GroupVersionResource][]subresource) {
	t.Helper()
	server, err := discovery.NewDiscoveryClientForConfig(p.Admin())
	require.NoError(t, err)
	_, lists, err := server.ServerGroupsAndResources()
	require.NoError(t, err)
	selection := policies.Selection(policies.Current()[policies.Key{Kind: policies.KindMutatingBinding, Name: policies.CreatorRecord}])
	created, written = map[schema.GroupResource]bool{}, map[schema.GroupVersionResource][]subresource{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for i := range list.APIResources {
			verbs := list.APIResources[i].Verbs
			name, sub, isSub := strings.Cut(list.APIResources[i].Name, "/")
			resource := version.WithResource(name)
			switch {
			case !policies.SelectsRecord(selection, resource.GroupResource()):
			case isSub && (slices.Contains(verbs, "update") || slices.Contains(verbs, "patch")):
				written[resource] = append(written[resource], subresource{sub, verbs})
			case !isSub && slices.Contains(verbs, "create"):
				created[resource.GroupResource()] = true
			}
		}
	}
	return created, written
}

type subresource struct {
	name  string
	verbs metav1.Verbs
}

func TestEveryKindThatTheShippedSelectionNamesIsTried(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		created, _ := p.selected(t)
		tried := map[schema.GroupResource]bool{}
		for _, object := range kinds("any", "any") {
			tried[p.resourceOf(t, object).GroupResource()] = true
		}
		assert.Equal(t, created, tried)

		for _, rule := range policies.Selection(policies.Current()[policies.Key{Kind: policies.KindMutatingBinding, Name: policies.CreatorRecord}]).ResourceRules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					if name, _, _ := strings.Cut(resource, "/"); name != "*" {
						assert.Contains(t, created, schema.GroupResource{Group: group, Resource: name}, "it is served")
					}
				}
			}
		}
	})
}

func (p *plane) resourceOf(t *testing.T, object client.Object) schema.GroupVersionResource {
	t.Helper()
	kind := object.GetObjectKind().GroupVersionKind()
	mapping, err := p.admin(t).RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err)
	return mapping.Resource
}

// What leads to the pod itself is no write of anything.
var connecting = []string{"pods/proxy"}

func TestS2_NoSubresourceForgesARecord(t *testing.T) {
	each(t, func(t *testing.T, p *plane) {
		namespace, makers := p.namespace(t), p.makers(t)
		decides, err := dynamic.NewForConfig(p.acting(decider, "system:masters"))
		require.NoError(t, err)
		_, written := p.selected(t)
		tried := map[string]bool{}
		for _, object := range kinds(namespace, "object") {
			resource := p.resourceOf(t, object)
			user, maker := makers(object)
			require.NoError(t, maker.Create(t.Context(), object))
			writer := decides.Resource(resource).Namespace(object.GetNamespace())
			for _, sub := range written[resource] {
				full := resource.Resource + "/" + sub.name
				for _, verb := range sub.verbs {
					if verb != "patch" && verb != "update" {
						continue
					}
					tried[full] = true
					err := forge(t, writer, object.GetName(), sub.name, verb)
					assert.Equal(t, slices.Contains(connecting, full), err != nil, "%s %s: %v", verb, full, err)
					assert.Equal(t, createdBy(user), record(reread(t, p, object)), "%s %s", verb, full)
				}
			}
			delete(written, resource)
		}
		assert.Empty(t, written, "every subresource of every version is tried")
		assert.Subset(t, slices.Collect(maps.Keys(tried)), []string{
			"pods/status", "pods/resize", "pods/ephemeralcontainers", "deployments/scale", "replicationcontrollers/scale", "releases/status", "releaseplans/status",
			"connectors/status", "resourcecheckrequests/status", "attributionchecks/status", "pipelineruns/status", "plains/status",
		})
	})
}

// forge writes a forged record through a subresource.
func forge(t *testing.T, writer dynamic.ResourceInterface, name, sub, verb string) error {
	t.Helper()
	if verb == "patch" {
		_, err := writer.Patch(t.Context(), name, types.MergePatchType, []byte(forgedJSON), metav1.PatchOptions{}, sub)
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object, err := writer.Get(t.Context(), name, metav1.GetOptions{}, sub)
		if err != nil {
			return err
		}
		object.SetAnnotations(forged())
		_, err = writer.Update(t.Context(), object, metav1.UpdateOptions{}, sub)
		return err
	})
}
