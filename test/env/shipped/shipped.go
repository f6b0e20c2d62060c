// Package shipped builds what config/ ships, as `kubectl apply -k` would send it.
package shipped

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Build returns the manifests of config/default with components, in the order given, less what is left out by kind and
// name. The directory is config.
func Build(config string, leaveOut func(kind, name string) bool, components ...string) (string, error) {
	memory, err := read(config)
	if err != nil {
		return "", err
	}
	mine := "resources: [../default]\ncomponents:\n"
	for _, component := range components {
		mine += "  - ../components/" + component + "\n"
	}
	if err := memory.WriteFile("/config/mine/kustomization.yaml", []byte(mine)); err != nil {
		return "", err
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/config/mine")
	if err != nil {
		return "", err
	}
	if err := remove(resources, leaveOut); err != nil {
		return "", err
	}
	text, err := resources.AsYaml()
	return string(text), err
}

// read copies the directory, so that a kustomization can be put beside the shipped ones.
func read(config string) (filesys.FileSystem, error) {
	memory, directory := filesys.MakeFsInMemory(), os.DirFS(config)
	return memory, fs.WalkDir(directory, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := fs.ReadFile(directory, path)
		if err != nil {
			return err
		}
		return memory.WriteFile("/config/"+path, content)
	})
}

func remove(resources resmap.ResMap, leaveOut func(kind, name string) bool) error {
	for _, resource := range slices.Clone(resources.Resources()) {
		if leaveOut(resource.GetKind(), resource.GetName()) {
			if err := resources.Remove(resource.CurId()); err != nil {
				return err
			}
		}
	}
	return nil
}
