package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// render builds a folder of manifests, without the kinds given, as `kubectl apply -k` does.
func render(dir string, without ...string) (string, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return "", fmt.Errorf("the manifests in %s cannot be built: %w", dir, err)
	}
	if err := drop(resources, without); err != nil {
		return "", err
	}
	rendered, err := resources.AsYaml()
	return string(rendered), err
}

func drop(resources resmap.ResMap, kinds []string) error {
	for _, resource := range resources.Resources() {
		if !slices.Contains(kinds, resource.GetKind()) {
			continue
		}
		if err := resources.Remove(resource.CurId()); err != nil {
			return err
		}
	}
	return nil
}

// applyManifests installs Countersign as shipped. Only what would run in pods is left out: here it runs as
// processes.
func (e *environment) applyManifests(ctx context.Context) error {
	rendered, err := render(e.manifest("default"), "Deployment", "DaemonSet")
	if err != nil {
		return err
	}
	return e.cluster.Apply(ctx, e.cluster.Admin(), rendered)
}

// applyRights makes the namespaces with who may do what in them.
func (e *environment) applyRights(ctx context.Context) error {
	where, err := e.whereabouts()
	if err != nil {
		return err
	}
	if err := e.cluster.ApplyFiles(ctx, e.cluster.Admin(), e.sample("namespaces.yaml"), e.sample("rights.yaml"), e.sample("tools.yaml")); err != nil {
		return err
	}
	return e.cluster.Apply(ctx, e.cluster.Admin(), where)
}

// applyConnectors makes what is protected, and the rules, and waits until the controller is content with them.
func (e *environment) applyConnectors(ctx context.Context) error {
	if err := e.ensureToolSecrets(ctx); err != nil {
		return err
	}
	var manifests []string
	for _, name := range []string{"connectors.yaml", "rules.yaml"} {
		manifest, err := os.ReadFile(e.sample(name))
		if err != nil {
			return err
		}
		manifests = append(manifests, e.addresses().Replace(string(manifest)))
	}
	if err := e.cluster.Apply(ctx, e.cluster.Admin(), manifests...); err != nil {
		return err
	}
	return e.awaitReady(ctx)
}

// addresses fills in what differs from one environment to the next.
func (e *environment) addresses() *strings.Replacer {
	return strings.NewReplacer(
		"${REGISTRY_URL}", e.at.registryURL(),
		"${API_SERVER_URL}", e.cluster.Admin().Host,
	)
}
