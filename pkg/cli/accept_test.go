package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// plan is made by a robot, which proposes dev.
func plan() *releasev1alpha1.ReleasePlan {
	return &releasev1alpha1.ReleasePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "shop", Generation: 3, Annotations: map[string]string{
			approvalv1alpha1.AnnotationProposed: "dev@example.com", approvalv1alpha1.AnnotationCreatedBy: "system:serviceaccount:argocd:controller",
			approvalv1alpha1.AnnotationChangedBy: "eve\x1b[2J",
		}},
		Spec: releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: "managed"},
	}
}

func standingOf(p *releasev1alpha1.ReleasePlan, author string, until *time.Time) *releasev1alpha1.ReleasePlan {
	standing := attribution.Standing{Generation: 3, Author: author, AcceptedAt: now, ExpiresAt: until}
	p.Annotations[approvalv1alpha1.AnnotationAuthor] = author
	p.Annotations[approvalv1alpha1.AnnotationStanding] = standing.String()
	return p
}

// sheetOfShop is what dev is shown.
const sheetOfShop = `Plan:         shop in team-a
Application:  shop
Target:       managed
Generation:   3
Created by:   system:serviceaccount:argocd:controller
Changed by:   eve\x1b[2J
Proposed:     dev@example.com
`

// admitted acts as admission does: it takes up the annotation accept of who calls.
func (b *bench) admitted(sent *[]string) *bench {
	b.kinds = append(b.kinds, releasev1alpha1.AddToScheme)
	b.funcs.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
		raw, err := patch.Data(o)
		if err != nil {
			return err
		}
		*sent = append(*sent, string(raw))
		word := o.GetAnnotations()[approvalv1alpha1.AnnotationAccept]
		if err := c.Patch(ctx, o, patch, opts...); err != nil {
			return err
		}
		annotations := o.GetAnnotations()
		delete(annotations, approvalv1alpha1.AnnotationAuthor)
		if word != "false" {
			standing := attribution.Standing{Generation: 3, Author: b.user, AcceptedAt: b.clock.Now()}
			if until, err := time.Parse(time.RFC3339, word); err == nil {
				standing.ExpiresAt = &until
			}
			annotations[approvalv1alpha1.AnnotationAuthor], annotations[approvalv1alpha1.AnnotationStanding] = b.user, standing.String()
		}
		o.SetAnnotations(annotations)
		return nil
	}
	return b
}

func TestAccept(t *testing.T) {
	ended := now.Add(time.Hour)
	tests := map[string]struct {
		args     []string
		plan     *releasev1alpha1.ReleasePlan
		code     int
		out, err string
		sent     string
	}{
		"accepted": {args: []string{"accept", "releaseplan/shop"}, plan: plan(), err: sheetOfShop,
			out:  "accepted releaseplan/shop in team-a: dev@example.com, since 2026-03-02T09:00:00Z (0s ago)\n",
			sent: `"attribution.alaudadevops.io/accept":"true"`},
		"for a time": {args: []string{"accept", "releaseplan/shop", "--expires", "720h"}, plan: plan(), err: sheetOfShop,
			out:  "accepted releaseplan/shop in team-a: dev@example.com, since 2026-03-02T09:00:00Z (0s ago), until 2026-04-01T09:00:00Z (in 30d)\n",
			sent: `"attribution.alaudadevops.io/accept":"2026-04-01T09:00:00Z"`},
		"until a time": {args: []string{"accept", "releaseplan/shop", "--expires", "2027-01-01T02:00:00+02:00"}, plan: plan(), err: sheetOfShop,
			out:  "accepted releaseplan/shop in team-a: dev@example.com, since 2026-03-02T09:00:00Z (0s ago), until 2027-01-01T00:00:00Z (in 304d)\n",
			sent: `"attribution.alaudadevops.io/accept":"2027-01-01T00:00:00Z"`},
		"withdrawn": {args: []string{"accept", "releaseplan/shop", "--withdraw"}, plan: standingOf(plan(), "dev@example.com", &ended),
			err:  sheetOfShop + "Stands:       dev@example.com, since 2026-03-02T09:00:00Z (0s ago), until 2026-03-02T10:00:00Z (in 60m)\n",
			out:  "withdrawn from releaseplan/shop in team-a: nobody stands for it\n",
			sent: `"attribution.alaudadevops.io/accept":"false","attribution.alaudadevops.io/proposed-author":null`},
		"machine output": {args: []string{"accept", "releaseplan/shop", "-o", "name"}, plan: plan(), err: sheetOfShop,
			out: "releaseplan.appstudio.redhat.com/shop\n", sent: `"resourceVersion":"999"`},
		"no such plan": {args: []string{"accept", "releaseplan/none"}, plan: plan(), code: ExitNotFound,
			err: "error: releaseplans"},
		"another kind": {args: []string{"accept", "connector/harbor"}, plan: plan(), code: ExitUsage,
			err: "error: \"connector/harbor\" is no release plan, and nothing else is accepted: write releaseplan/NAME\n"},
		"no kind":   {args: []string{"accept", "shop"}, plan: plan(), code: ExitUsage, err: "error: \"shop\" is no KIND/NAME"},
		"two plans": {args: []string{"accept", "releaseplan/a", "releaseplan/b"}, plan: plan(), code: ExitUsage, err: "error: give one releaseplan/NAME, not 2\n"},
		"two wishes": {args: []string{"accept", "releaseplan/shop", "--withdraw", "--expires", "1h"}, plan: plan(), code: ExitUsage,
			err: "error: give either --withdraw or --expires\n"},
		"no time": {args: []string{"accept", "releaseplan/shop", "--expires", "soon"}, plan: plan(), code: ExitUsage,
			err: "error: --expires \"soon\" is neither a duration nor a time: write 720h, or 2030-01-31T18:00:00Z\n"},
		"over": {args: []string{"accept", "releaseplan/shop", "--expires", "-1h"}, plan: plan(), code: ExitUsage,
			err: "error: --expires \"-1h\" is over already: give a time to come\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var sent []string
			b := makeBench(t, tt.plan).admitted(&sent)
			assert.Equal(t, tt.code, b.run(append(tt.args, "--yes")...))
			assert.Equal(t, tt.out, b.out.String())
			assert.True(t, strings.HasPrefix(b.err.String(), tt.err), b.err.String())
			if tt.sent == "" {
				assert.Empty(t, sent)
				return
			}
			require.Len(t, sent, 1)
			assert.Contains(t, sent[0], tt.sent)
			assert.Contains(t, sent[0], `"resourceVersion"`)
		})
	}
}

func TestAcceptAsksOnATerminal(t *testing.T) {
	tests := map[string]struct {
		answer string
		args   []string
		code   int
	}{
		"yes":    {answer: "y\n"},
		"YES":    {answer: "Yes\n"},
		"no":     {answer: "n\n", code: ExitError},
		"return": {answer: "\n", code: ExitError},
		"end":    {code: ExitError},
		"--yes":  {args: []string{"--yes"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var sent []string
			b := makeBench(t, plan()).admitted(&sent)
			p := b.program()
			p.asks, p.streams.In = true, strings.NewReader(tt.answer)
			code := p.run(t.Context(), append([]string{"--kubeconfig", b.kubeconfig, "accept", "releaseplan/shop"}, tt.args...))
			assert.Equal(t, tt.code, code)
			assert.Equal(t, tt.code == ExitDone, len(sent) == 1)
			assert.Equal(t, len(tt.args) == 0, strings.Contains(b.err.String(), "Do you answer for the Releases that programs make by this plan? [y/N]"))
		})
	}
}

func TestAcceptDoesNothingUnaskedWhereNobodyCanBeAsked(t *testing.T) {
	for _, args := range [][]string{{}, {"--withdraw"}, {"--expires", "1h"}} {
		var sent []string
		b := makeBench(t, plan()).admitted(&sent)
		b.in = "y\n"
		assert.Equal(t, ExitUsage, b.run(append([]string{"accept", "releaseplan/shop"}, args...)...))
		assert.Contains(t, b.err.String(), "error: standard input or standard error is no terminal, so nobody can be asked: run it on one, or give --yes\n")
		assert.Empty(t, sent)
	}
}

func TestAcceptShowsWhatElseThePlanSays(t *testing.T) {
	var sent []string
	p := plan()
	p.Spec.Data = &runtime.RawExtension{Raw: []byte(`{"mapping":{"registry":"quay.example","tags":["a","b"]},"note":"two\nlines"}`)}
	p.Spec.ReleaseGracePeriodDays = 7
	b := makeBench(t, p).admitted(&sent)
	require.Equal(t, ExitDone, b.run("accept", "releaseplan/shop", "--yes"), b.err.String())
	assert.Contains(t, b.err.String(), `Target:       managed
Else:         data:
                mapping:
                  registry: quay.example
                  tags:
                  - a
                  - b
                note: |-
                  two
                  lines
              releaseGracePeriodDays: 7
Generation:   3
`)
}

func TestAcceptSaysWhatItDoesNotShow(t *testing.T) {
	many := strings.Repeat(`"x",`, 2*maxElse)
	for name, data := range map[string]string{"many lines": `[` + many + `"end"]`, "a long line": `["` + strings.Repeat("x", 2*maxText) + `"]`} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			p := plan()
			p.Spec.Data = &runtime.RawExtension{Raw: []byte(`{"d":` + data + `}`)}
			b := makeBench(t, p).admitted(&sent)
			require.Equal(t, ExitDone, b.run("accept", "releaseplan/shop", "--yes"), b.err.String())
			assert.Contains(t, b.err.String(), "\n              ... and more, that you answer for, too: look at it with kubectl get releaseplan shop -n team-a -o yaml\n")
			assert.Less(t, len(b.err.String()), maxText+maxElse*40)
		})
	}
}

func TestAcceptIsRefused(t *testing.T) {
	tests := map[string]struct {
		err  error
		code int
		want string
	}{
		"by admission": {apierrors.NewForbidden(schema.GroupResource{Resource: "releaseplans"}, "shop",
			assert.AnError), ExitDenied, "error: "},
		"because the plan changed": {apierrors.NewConflict(schema.GroupResource{Resource: "releaseplans"}, "shop", assert.AnError),
			ExitError, "error: the plan changed after it was shown, so nothing was said: look at it again\n"},
		"by nobody, because nobody looks": {nil, ExitError, "error: the server stored your word but did not act on it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := makeBench(t, plan())
			b.kinds = append(b.kinds, releasev1alpha1.AddToScheme)
			b.funcs.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if tt.err != nil {
					return tt.err
				}
				return c.Patch(ctx, o, patch, opts...)
			}
			assert.Equal(t, tt.code, b.run("accept", "releaseplan/shop", "--yes"))
			assert.Contains(t, b.err.String(), sheetOfShop+tt.want)
			assert.Empty(t, b.out.String())
		})
	}
}
