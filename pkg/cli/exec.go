package cli

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// facts are what a program run for an item learns, each in an environment variable of its own.
type facts struct {
	item, namespace, name, request, object, subject, requestedBy, use, reason, state, deadline string
}

func factsOfRequest(req *approvalv1alpha1.ResourceCheckRequest, s situation) facts {
	return facts{
		item: "request", namespace: req.Namespace, name: req.Name, request: req.Namespace + "/" + req.Name,
		object: objectText(req.Spec.ObjectRef), subject: subjectText(req.Spec.Context.Subject), requestedBy: requestedBy(req),
		use: useText(req.Spec.Use), reason: req.Spec.Reason, state: s.state,
	}
}

func factsOfCheck(c *waitingCheck) facts {
	f := facts{item: "check", namespace: c.Namespace, name: c.Name, state: string(duckv1alpha1.CheckPending), deadline: c.Deadline.UTC().Format(time.RFC3339)}
	if q := c.Request; q != nil {
		f.request, f.object = q.Ref.Namespace+"/"+q.Ref.Name, objectText(q.Object)
		f.subject, f.requestedBy = subjectText(&q.Subject), q.RequestedBy.Username
		f.use, f.reason = useText(q.Use), q.Reason
	}
	return f
}

// environment escapes what could draw, because such programs print it.
func (f facts) environment() []string {
	values := []struct{ name, value string }{
		{"ITEM", f.item}, {"NAMESPACE", f.namespace}, {"NAME", f.name}, {"REQUEST", f.request}, {"OBJECT", f.object},
		{"SUBJECT", f.subject}, {"REQUESTED_BY", f.requestedBy}, {"USE", f.use}, {"REASON", f.reason},
		{"STATE", f.state}, {"DEADLINE", f.deadline},
	}
	environment := make([]string, 0, len(values))
	for _, v := range values {
		environment = append(environment, "COUNTERSIGN_"+v.name+"="+show(v.value))
	}
	return environment
}

// runner runs the program of --exec; a nil runner runs nothing.
type runner struct{ words []string }

func newRunner(line string) (*runner, error) {
	if line == "" {
		return nil, nil
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, usage("--exec names no program")
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return nil, usage("--exec: %s is no program that can be run", show(words[0]))
	}
	return &runner{words: words}, nil
}

// run passes texts of others in the environment only, where nothing interprets them.
func (r *runner) run(ctx context.Context, streams genericiooptions.IOStreams, f facts) error {
	if r == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, r.words[0], r.words[1:]...)
	cmd.Env = append(os.Environ(), f.environment()...)
	cmd.Stdout, cmd.Stderr = streams.Out, streams.ErrOut
	return cmd.Run()
}
