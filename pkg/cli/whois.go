package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// maxUserName bounds a user name in bytes; directories and our API take no longer ones.
const maxUserName = 4096

// States of somebody. Unavailable is neither a yes nor a no.
const (
	whoisKnown       = "Known"
	whoisUnknown     = "Unknown"
	whoisUnavailable = "Unavailable"
)

// Kinds of what stands behind a user name.
const (
	behindServiceAccount = "ServiceAccount"
	behindUser           = "User"
	behindDirectory      = "DirectoryEntry"
)

// somebody is what is known of one user name. Why says, in sentences, what could not be told and why.
type somebody struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`
	DisplayName string   `json:"displayName,omitempty"`
	Email       string   `json:"email,omitempty"`
	Is          []behind `json:"is,omitempty"`
	Why         []string `json:"why,omitempty"`
}

// behind is an object of the cluster, or an entry of the directory, that stands behind a user name.
type behind struct {
	Kind       string     `json:"kind"`
	APIVersion string     `json:"apiVersion,omitempty"`
	Namespace  string     `json:"namespace,omitempty"`
	Name       string     `json:"name,omitempty"`
	UID        string     `json:"uid,omitempty"`
	At         *time.Time `json:"at,omitempty"`
}

type whoisOptions struct {
	output output
	proxy  proxyFlags
}

func (p *program) whois() *cobra.Command {
	o := &whoisOptions{}
	cmd := verb(&cobra.Command{
		Use:   "whois NAME...",
		Short: "Say who user names are",
		Long: `Say who user names are: display name, e-mail, and what stands behind them: a ServiceAccount, a User of OpenShift, an entry
of the organisation's directory. Names are taken as they are; only the reserved prefix system:serviceaccount: is read. With
- they come from standard input, one on a line.

The directory is asked through the Countersign proxy, which needs the ClusterRole countersign-whois (verb whois on
people.authority.alaudadevops.io); without it ServiceAccounts and Users are still told, as far as you may read them.` +
			exits(codes{ExitDone: "all are known", ExitError: "it cannot be told of some", ExitNotFound: "some are unknown"}),
		Example: example(`
# Who are they?
{{}} whois alice@example.com system:serviceaccount:team-a:pipeline

# Everybody who created a pod
kubectl get pods -A -o jsonpath='{range .items[*]}{.metadata.annotations.attribution\.alaudadevops\.io/created-by}{"\n"}{end}' |
  {{}} whois -`),
		Args: atLeastOne, ValidArgsFunction: cobra.NoFileCompletions,
	}, func(ctx context.Context, args []string) error { return p.runWhois(ctx, o, args) })
	o.proxy.addTo(cmd)
	o.output.addTo(cmd)
	return cmd
}

func (p *program) runWhois(ctx context.Context, o *whoisOptions, args []string) error {
	names, err := userNames(args, p.streams.In)
	if err != nil {
		return err
	}
	c, err := p.dial(p)
	if err != nil {
		return err
	}
	found := make([]*somebody, 0, len(names))
	for _, name := range names {
		found = append(found, newSomebody(name))
	}
	p.askCluster(ctx, c, found)
	p.askDirectory(ctx, c, o, found)
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, who := range found {
		who.settle()
	}
	return p.tellWhois(o, found)
}

// userNames are the arguments, and for - the lines of in, each once. What cannot be a user name stays, to be called
// unknown: it came from somewhere.
func userNames(args []string, in io.Reader) ([]string, error) {
	var names []string
	for _, arg := range args {
		if arg != "-" {
			names = append(names, arg)
			continue
		}
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if line := strings.TrimSuffix(lines.Text(), "\r"); line != "" {
				names = append(names, line)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fail(ExitError, "the names cannot be read from standard input: %s", sentence(err))
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	}), nil
}

func newSomebody(name string) *somebody {
	who := &somebody{Name: name, State: whoisKnown}
	if name == "" || len(name) > maxUserName || !utf8.ValidString(name) {
		who.State = whoisUnknown
		who.Why = []string{fmt.Sprintf("no user name is empty, longer than %d bytes or anything but UTF-8", maxUserName)}
	}
	return who
}

// possible tells that somebody could have the name.
func (w *somebody) possible() bool { return w.State != whoisUnknown }

func (w *somebody) known(as behind) { w.Is = append(w.Is, as) }

func (w *somebody) unknown(why string) { w.Why = append(w.Why, why) }

// unavailable says that a source did not answer.
func (w *somebody) unavailable(why string) {
	w.State = whoisUnavailable
	w.Why = append(w.Why, why)
}

// settle decides the state once every source was asked: who is known to one source is known.
func (w *somebody) settle() {
	switch {
	case len(w.Is) > 0:
		w.State = whoisKnown
	case w.State == whoisKnown:
		w.State = whoisUnknown
	}
}

// clusterAtOnce is how many objects are read at a time.
const clusterAtOnce = 8

// askCluster looks for the objects behind the names.
func (p *program) askCluster(ctx context.Context, c *cluster, found []*somebody) {
	finder := &objectFinder{c: c}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clusterAtOnce)
	for _, who := range found {
		if who.possible() {
			group.Go(func() error {
				finder.find(ctx, who)
				return nil
			})
		}
	}
	_ = group.Wait() // what fails is said of each name
}

func (p *program) tellWhois(o *whoisOptions, found []*somebody) error {
	if o.output.machine() {
		items := make([]named, 0, len(found))
		for _, who := range found {
			if o.output.format != outputName || who.State == whoisKnown {
				items = append(items, named{who.Name, who})
			}
		}
		return errors.Join(o.output.print(p.streams.Out, true, items...), told(whoisCode(found)))
	}
	t := &table{header: []string{"NAME", "DISPLAY NAME", "E-MAIL", "IS"}}
	if o.output.format == outputWide {
		t.header = append(t.header, "UID", "WHY")
	}
	for _, who := range found {
		row := []string{showName(who.Name), showName(who.DisplayName), showName(who.Email), who.is(o.output.format == outputWide)}
		if o.output.format == outputWide {
			row = append(row, who.uids(), orElse(show(strings.Join(who.Why, "; ")), none))
		}
		t.rows = append(t.rows, row)
	}
	if err := t.print(p.streams.Out, true); err != nil {
		return err
	}
	return told(whoisCode(found))
}

func whoisCode(found []*somebody) int {
	code := ExitDone
	for _, who := range found {
		switch who.State {
		case whoisUnknown:
			return ExitNotFound
		case whoisUnavailable:
			code = ExitError
		}
	}
	return code
}

// is names what stands behind somebody, and what could not be told and why, unless a column of its own does.
func (w *somebody) is(whyElsewhere bool) string {
	texts := make([]string, 0, len(w.Is))
	for _, b := range w.Is {
		texts = append(texts, b.text())
	}
	text := strings.Join(texts, ", ")
	switch w.State {
	case whoisUnknown:
		text = "unknown"
	case whoisUnavailable:
		text = "cannot be told"
	}
	if len(w.Why) > 0 && !whyElsewhere {
		text += "; " + show(strings.Join(w.Why, "; "))
	}
	return text
}

func (b behind) text() string {
	switch b.Kind {
	case behindServiceAccount:
		return "serviceaccount " + showName(b.Namespace+"/"+b.Name)
	case behindUser:
		return "OpenShift user"
	}
	return "directory entry"
}

func (w *somebody) uids() string {
	var uids []string
	for _, b := range w.Is {
		if b.UID != "" {
			uids = append(uids, showName(b.UID))
		}
	}
	return orElse(strings.Join(uids, ","), none)
}
