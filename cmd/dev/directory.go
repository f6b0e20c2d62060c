package main

import (
	"os"

	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/pkg/directory/open"
	"github.com/AlaudaDevops/countersign/pkg/directory/static"
)

// automatedAccount is who may make automated Releases.
const automatedAccount = "system:serviceaccount:team-a:integration"

// directoryConfig writes the directory's configuration, and the people's file unless it is there: it may be edited while
// the environment runs.
func (e *environment) directoryConfig() (string, error) {
	people, config := e.conf("people.yaml"), e.conf("directory.yaml")
	if exists(config) {
		return config, nil
	}
	sample, err := os.ReadFile(e.sample("people.yaml"))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(people, sample, 0o600); err != nil {
		return "", err
	}
	content, err := yaml.Marshal(open.Config{Type: "static", Static: &static.Config{Path: people}})
	if err != nil {
		return "", err
	}
	return config, os.WriteFile(config, content, 0o600)
}

// proxyDirectory is the directory that the controller asks, for the proxy to say who people are.
func (e *environment) proxyDirectory() (string, error) {
	if given := e.settings["directory-config"]; given != "" {
		return given, nil
	}
	return e.directoryConfig()
}
