package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// The names of the release story.
const (
	demoPlan     = "releaseplan/shop"
	demoReleases = "team-a"
)

func (s *story) releases(ctx context.Context) error {
	s.title("A developer releases the shop",
		"The API server saw who made the Release; the directory knows her; Tekton runs production's pipeline, and its task is told.")
	if err := s.release(ctx, "release-1", "", "developer"); err != nil {
		return err
	}
	if err := s.awaitRelease(ctx, "release-1", "Released=True"); err != nil {
		return err
	}
	if err := s.kubectl(ctx, "developer", "get", "release", "release-1", "-n", demoReleases).succeeds("developer@example.com", "true", "Succeeded"); err != nil {
		return err
	}
	return s.kubectl(ctx, "admin", "get", "taskruns", "-n", "prod", "-o", `jsonpath={range .items[*]}{.metadata.name}{" saw "}{.spec.params}{"\n"}{end}`).
		succeeds("developer@example.com")
}

func (s *story) leaverCannotRelease(ctx context.Context) error {
	s.title("Somebody who has left tries the same", "His login still works, and his rights are the developer's. The directory knows that he has left.")
	if err := s.release(ctx, "release-2", "", "leaver"); err != nil {
		return err
	}
	if err := s.awaitRelease(ctx, "release-2", "Validated=False"); err != nil {
		return err
	}
	return s.why(ctx, "release-2", "leaver@example.com")
}

func (s *story) robotNeedsSomebody(ctx context.Context) error {
	s.title("A program releases, and nobody stands for it", "A service account is nobody's author. The plan proposes a person, who has not said yes.")
	if err := s.automatedRelease(ctx, "release-3"); err != nil {
		return err
	}
	if err := s.awaitRelease(ctx, "release-3", "Validated=False"); err != nil {
		return err
	}
	if err := s.why(ctx, "release-3", "accept"); err != nil {
		return err
	}
	return s.cli(ctx, "intruder", "accept", demoPlan, "-n", demoReleases, "--yes").fails()
}

func (s *story) developerStands(ctx context.Context) error {
	s.title("The person whom the plan names accepts, and the program's next Release goes through",
		"What it stands on is fixed when the Release is made; whoever answers for it stands in its status.")
	if err := s.cli(ctx, "developer", "accept", demoPlan, "-n", demoReleases, "--yes", "--expires", "720h").succeeds(); err != nil {
		return err
	}
	if err := s.automatedRelease(ctx, "release-4"); err != nil {
		return err
	}
	if err := s.awaitRelease(ctx, "release-4", "Released=True"); err != nil {
		return err
	}
	return s.kubectl(ctx, "developer", "get", "release", "release-4", "-n", demoReleases, "-o", "jsonpath={.status.attribution}").
		succeeds(`"author":"developer@example.com"`, `"standingAttribution":true`, `"verified":true`)
}

// why shows what the Release says of its validation.
func (s *story) why(ctx context.Context, name, says string) error {
	return s.kubectl(ctx, "developer", "get", "release", name, "-n", demoReleases,
		"-o", `jsonpath={.status.conditions[?(@.type=="Validated")].reason}: {.status.conditions[?(@.type=="Validated")].message}`).
		succeeds("ValidationError", says)
}

func (s *story) awaitRelease(ctx context.Context, name, condition string) error {
	return s.run(ctx, nil, "kubectl", "wait", "release/"+name, "-n", demoReleases, "--for=condition="+condition, "--timeout=50s", "--context", "developer").succeeds()
}

// release makes a Release as somebody; labels are lines of YAML.
func (s *story) release(ctx context.Context, name, labels, person string, flags ...string) error {
	manifest := fmt.Sprintf(`apiVersion: appstudio.redhat.com/v1alpha1
kind: Release
metadata: {name: %s, namespace: %s, labels: {%s}}
spec: {releasePlan: shop, snapshot: shop-1-4-2}
`, name, demoReleases, labels)
	path := filepath.Join(s.dir, name+".yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		return err
	}
	return s.kubectl(ctx, person, append([]string{"create", "-f", path}, flags...)...).succeeds()
}

func (s *story) automatedRelease(ctx context.Context, name string) error {
	return s.release(ctx, name, `release.rhtap.openshift.io/automated: "true"`, "admin", "--as="+automatedAccount)
}

// kubectl runs kubectl as a person and shows it.
func (s *story) kubectl(ctx context.Context, person string, args ...string) result {
	return s.show(person, s.run(ctx, nil, "kubectl", append(args, "--context", person)...))
}
