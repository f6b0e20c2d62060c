package env

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const fieldOwner = "countersign-env"

var crdKind = schema.GroupKind{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"}

// Apply applies YAML manifests, each of any number of documents, by server-side apply as whoever
// cfg authenticates, taking over fields from other owners. CRDs and namespaces go first, whatever
// their place; it returns when all CRDs among the manifests serve their objects.
func (c *Cluster) Apply(ctx context.Context, cfg *rest.Config, manifests ...string) error {
	objects, err := decode(manifests)
	if err != nil {
		return err
	}
	applier, err := client.New(cfg, client.Options{})
	if err != nil {
		return err
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return phase(a) - phase(b) })
	waited := false
	for _, object := range objects {
		if !waited && phase(object) > phaseCRD {
			waited = true
			if err := c.established(ctx, objects); err != nil {
				return err
			}
		}
		if err := c.apply(ctx, applier, object); err != nil {
			return err
		}
	}
	return c.established(ctx, objects)
}

// ApplyFiles applies the files and, of directories, the .yaml and .yml files directly in them.
func (c *Cluster) ApplyFiles(ctx context.Context, cfg *rest.Config, paths ...string) error {
	manifests, err := readManifests(paths)
	if err != nil {
		return err
	}
	return c.Apply(ctx, cfg, manifests...)
}

// InstallCRDs applies the CRDs in the directories as administrator and returns when all are served.
func (c *Cluster) InstallCRDs(ctx context.Context, dirs ...string) error {
	if len(dirs) == 0 {
		return nil
	}
	return c.ApplyFiles(ctx, c.Admin(), dirs...)
}

// apply tries again while the API server says that it is not ready for the object: for some seconds after a
// CRD was installed it refuses its objects, because mutating policies do not know the schema yet.
func (c *Cluster) apply(ctx context.Context, applier client.Client, object *unstructured.Unstructured) error {
	var err error
	late := c.processes.await(ctx, "applying "+describe(object), func(ctx context.Context) error {
		attempt := object.DeepCopy() // a failed call may empty the object
		err = applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(attempt), client.FieldOwner(fieldOwner), client.ForceOwnership)
		if passes(err) {
			return err
		}
		return nil
	})
	if late != nil {
		return late
	}
	if err != nil {
		return fmt.Errorf("%s cannot be applied: %w", describe(object), err)
	}
	return nil
}

// passes tells an error that passes by itself: new kinds are not known everywhere at once, and neither is the
// certificate of a webhook that has just begun to serve.
func passes(err error) bool {
	return apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

func describe(object *unstructured.Unstructured) string {
	what := object.GetKind() + " " + object.GetName()
	if namespace := object.GetNamespace(); namespace != "" {
		what += " in " + namespace
	}
	return what
}

const (
	phaseCRD = iota
	phaseNamespace
	phaseRest
)

func phase(object *unstructured.Unstructured) int {
	switch object.GroupVersionKind().GroupKind() {
	case crdKind:
		return phaseCRD
	case schema.GroupKind{Kind: "Namespace"}:
		return phaseNamespace
	default:
		return phaseRest
	}
}

// established waits until the CRDs among the objects are established and answer a list.
func (c *Cluster) established(ctx context.Context, objects []*unstructured.Unstructured) error {
	admin, err := client.New(c.admin, client.Options{})
	if err != nil {
		return err
	}
	for _, object := range objects {
		if phase(object) != phaseCRD {
			continue
		}
		err := c.processes.await(ctx, "establishing of CRD "+object.GetName(), func(ctx context.Context) error {
			return served(ctx, admin, object.GetName())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func served(ctx context.Context, admin client.Client, name string) error {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(crdKind.WithVersion("v1"))
	if err := admin.Get(ctx, client.ObjectKey{Name: name}, stored); err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, crd); err != nil {
		return err
	}
	if !isEstablished(crd) {
		return fmt.Errorf("the CRD %s is not established; its conditions are %v", name, crd.Status.Conditions)
	}
	return listed(ctx, admin, crd)
}

func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
	})
}

// listed succeeds when every served version answers: establishing runs ahead of serving.
func listed(ctx context.Context, admin client.Client, crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind})
		err := admin.List(ctx, list, client.Limit(1))
		if err != nil && (apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err)) {
			return err
		}
	}
	return nil
}

func decode(manifests []string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, manifest := range manifests {
		reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if objects, err = decodeDocument(objects, document); err != nil {
				return nil, err
			}
		}
	}
	return objects, nil
}

func decodeDocument(objects []*unstructured.Unstructured, document []byte) ([]*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
		return nil, fmt.Errorf("a manifest is no valid YAML; correct it: %w", err)
	}
	if len(object.Object) == 0 {
		return objects, nil // only comments
	}
	if object.GetKind() == "" || object.GetAPIVersion() == "" {
		return nil, fmt.Errorf("a manifest names no apiVersion and kind; add both to %q", object.GetName())
	}
	return append(objects, object), nil
}

func readManifests(paths []string) ([]string, error) {
	var manifests []string
	for _, path := range paths {
		files, err := manifestFiles(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			manifests = append(manifests, string(content))
		}
	}
	return manifests, nil
}

func manifestFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		extension := filepath.Ext(entry.Name())
		if !entry.IsDir() && (extension == ".yaml" || extension == ".yml") && entry.Name() != "kustomization.yaml" {
			found = append(found, filepath.Join(path, entry.Name()))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the directory %s holds no manifest; name one that does", path)
	}
	return found, nil
}
