package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (p *program) describe() *cobra.Command {
	var at where
	var out output
	cmd := verb(&cobra.Command{
		Use:   "describe NAME",
		Short: "Tell everything about a request or a check",
		Long: `Tell everything about a request or a check: who asked, for what and why, the rules, who answered and who is still to
answer, how long the grant holds, and what to do next.

An approver names the request or the check, with the object's namespace: the checks there tell the whole story.` +
			exits(codes{ExitDone: "told", ExitNotFound: "no such request or check"}),
		Example: example(`
# As a requester
{{}} describe rcr-2c7f -n team-a

# As an approver, in the namespace of the object
{{}} describe rcr-2c7f -n prod`),
		Args: exactlyOne, ValidArgsFunction: p.completeRequests(&at),
	}, func(ctx context.Context, args []string) error { return p.runDescribe(ctx, &at, &out, args[0]) })
	at.addTo(cmd)
	out.addTo(cmd)
	return cmd
}

func (p *program) runDescribe(ctx context.Context, at *where, out *output, word string) error {
	namespace, err := at.namespace(p)
	if err != nil {
		return err
	}
	home, name, err := splitName(word, namespace)
	if err != nil {
		return err
	}
	c, err := p.dial(p)
	if err != nil {
		return err
	}
	req, err := c.request(ctx, home, name)
	switch {
	case err == nil && out.machine():
		return out.print(p.streams.Out, false, namedObject(setKind(c.Scheme(), req)))
	case err == nil:
		_, err = fmt.Fprint(p.streams.Out, p.requestSheet(req))
		return err
	case !unreadable(err):
		return err
	}
	return p.describeChecks(ctx, c, out, namespace, word, err)
}

// describeChecks describes what a name means that is no request the caller can read; refusal is why not.
func (p *program) describeChecks(ctx context.Context, c *cluster, out *output, namespace, word string, refusal error) error {
	found, err := c.checksNamed(ctx, namespace, word, c.checkKinds(ctx))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if apierrors.IsForbidden(refusal) {
			return refusal
		}
		return fail(ExitNotFound, "there is no request or check %s in namespace %s: name its namespace with -n", words(word), namespace)
	}
	if out.machine() {
		objects := make([]named, 0, len(found))
		for _, check := range found {
			objects = append(objects, namedObject(check.object))
		}
		return out.print(p.streams.Out, false, objects...)
	}
	sheets := make([]string, 0, len(found))
	for _, check := range found {
		sheets = append(sheets, p.checkSheet(check))
	}
	_, err = fmt.Fprint(p.streams.Out, strings.Join(sheets, "\n"))
	return err
}
