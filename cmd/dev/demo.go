package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// demoGrant is how long the demo's approval holds: long enough to push, short enough to see it end.
const demoGrant = 20 * time.Second

// demoPatience is how much later than promised the end may be seen before the demo calls it a fault.
const demoPatience = 10 * time.Second

// The names of the demo's story.
const (
	demoObject     = "connector/prod-harbor"
	demoRepository = "namespaces/prod/connectors/prod-harbor/app"
)

// runDemo tells the whole story in an environment of its own, verifies every step, and cleans up.
func runDemo(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "countersign-demo-")
	if err != nil {
		return err
	}
	bin, err := binaries()
	if err != nil {
		return err
	}
	s := &story{out: out, dir: dir, bin: bin, tag: 1}
	defer func() { err = errors.Join(err, s.cleanUp(ctx)) }()
	if err := s.begin(ctx); err != nil {
		return err
	}
	for _, chapter := range []func(context.Context) error{
		s.refusedWithoutAsking, s.asks, s.nobodyAnswersForHimself, s.firstOwner, s.secondOwner,
		s.othersStayOut, s.timeIsOver, s.record,
		s.releases, s.leaverCannotRelease, s.robotNeedsSomebody, s.developerStands,
	} {
		if err := chapter(ctx); err != nil {
			return fmt.Errorf("step %d did not show what it should: %w", s.step, err)
		}
	}
	s.say("\nEverything above happened for real and was verified: %d steps.", s.step)
	return nil
}

func binaries() (string, error) {
	self, err := os.Executable()
	return filepath.Dir(self), err
}

func (s *story) refusedWithoutAsking(ctx context.Context) error {
	s.title("A developer pushes to production without asking",
		"The connector prod-harbor guards the registry: the credentials are in its Secret, the rule on the connector itself.")
	r := s.crane(ctx, "developer", "push", s.image, s.target())
	if err := r.fails("NoRequest", "kubectl countersign request"); err != nil {
		return err
	}
	s.say("  The registry never saw it; the refusal names the reason and the command that asks.")
	return s.crane(ctx, "developer", "digest", s.target()).fails()
}

func (s *story) asks(ctx context.Context) error {
	s.title("The developer asks, and says why",
		"Who asks is captured by the server; the rule decides whom it asks.")
	r := s.cli(ctx, "developer", "request", demoObject, "-n", "prod", "--in", "team-a",
		"--reason", "release app 1", "--for", demoGrant.String(), "-o", "name")
	if err := r.succeeds(); err != nil {
		return err
	}
	s.request = nameIn(r.output)
	again := s.cli(ctx, "developer", "request", demoObject, "-n", "prod", "--in", "team-a",
		"--reason", "release app 1", "--for", demoGrant.String())
	if err := again.succeeds("already asked: " + s.request); err != nil {
		return err
	}
	s.say("  Asking twice asks once.")
	return s.crane(ctx, "developer", "push", s.image, s.target()).fails("ChecksPending", "prod-owners")
}

func (s *story) nobodyAnswersForHimself(ctx context.Context) error {
	s.title("Nobody else can answer",
		"Neither the developer nor a colleague is an owner of production.")
	for _, person := range []string{"developer", "intruder"} {
		if err := s.cli(ctx, person, "approve", s.request, "-n", "prod").fails(); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) firstOwner(ctx context.Context) error {
	s.title("The first owner finds the request in the inbox and approves",
		"The rule wants two answers, so the gate stays shut.")
	if err := s.cli(ctx, "owner1", "list", "--inbox").succeeds("prod-harbor", "developer@example.com"); err != nil {
		return err
	}
	if err := s.cli(ctx, "owner1", "approve", s.request, "-n", "prod", "--comment", "the tests are green").succeeds(); err != nil {
		return err
	}
	if err := s.cli(ctx, "owner1", "approve", s.request, "-n", "prod").fails(); err != nil {
		return fmt.Errorf("one person must not answer twice: %w", err)
	}
	return s.crane(ctx, "developer", "push", s.image, s.target()).fails("ChecksPending")
}

func (s *story) secondOwner(ctx context.Context) error {
	s.title("The second owner approves, and the same push goes through",
		"The approval opens the gate at once, for this developer, for "+demoGrant.String()+".")
	if err := s.cli(ctx, "owner2", "approve", s.request, "-n", "prod").succeeds(); err != nil {
		return err
	}
	if err := s.cli(ctx, "developer", "wait", s.request, "-n", "team-a", "--timeout", "30s").succeeds(); err != nil {
		return err
	}
	s.granted = time.Now()
	if err := s.crane(ctx, "developer", "push", s.image, s.target()).succeeds(); err != nil {
		return err
	}
	return s.crane(ctx, "developer", "digest", s.target()).succeeds("sha256:")
}

func (s *story) othersStayOut(ctx context.Context) error {
	s.title("A colleague with the same rights is still refused",
		"The approval is the developer's; the intruder holds the same roles and gets nothing from it.")
	return s.crane(ctx, "intruder", "push", s.image, s.newTarget()).fails("NoRequest", "intruder@example.com")
}

func (s *story) timeIsOver(ctx context.Context) error {
	s.title("When the time is over, the gate is shut again",
		"Nobody has to remember to take the right away. The demo waits for it.")
	explain := []string{"explain", demoObject, "-n", "prod", "--method", "PUT", "--path", "/v2/app/manifests/1"}
	for s.quietCLI(ctx, "developer", explain...).code == 0 {
		if time.Since(s.granted) > demoGrant+demoPatience {
			return fmt.Errorf("the approval for %s still holds after %s", demoGrant, time.Since(s.granted).Round(time.Second))
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return s.crane(ctx, "developer", "push", s.image, s.newTarget()).fails("Expired")
}

func (s *story) record(ctx context.Context) error {
	s.title("Everything is on record", "The request tells who asked, who agreed, and how it ended; the access log, who used it for what.")
	r := s.cli(ctx, "developer", "describe", s.request, "-n", "team-a")
	if err := r.succeeds("developer@example.com", "owner1@example.com", "owner2@example.com", "release app 1"); err != nil {
		return err
	}
	return s.accessLog(`"verdict":"allow"`, `"reason":"Expired"`, `"subject":"developer@example.com"`)
}

// accessLog shows the last lines of the proxy's access log and verifies what they hold.
func (s *story) accessLog(wants ...string) error {
	text, err := os.ReadFile(filepath.Join(s.dir, "logs", "access.log"))
	if err != nil {
		return err
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			return fmt.Errorf("the access log holds no line with %s", want)
		}
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	s.say("  the last line of %d in the access log:\n    %s", len(lines), lines[len(lines)-1])
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
