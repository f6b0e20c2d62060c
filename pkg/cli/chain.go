package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/chain"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// defaultSystemNamespace is where Countersign is installed, unless somebody chose another namespace.
const defaultSystemNamespace = "countersign-system"

// controllerAccount is the service account there that makes the runs of Releases.
const controllerAccount = "countersign-controller"

// maxReadings bounds how often logs are read: each hop upwards that only a log knows takes one reading.
const maxReadings = 32

// chainOptions are the flags of chain.
type chainOptions struct {
	output       chainOutput
	uid          string
	tree         bool
	offline      bool
	files        chainFiles
	originConfig string
	epoch        epochOptions
}

func (p *program) chain() *cobra.Command {
	o := &chainOptions{}
	cmd := verb(&cobra.Command{
		Use:   "chain KIND/NAME",
		Short: "Tell who caused what: people, runs, pods, requests, answers, uses",
		Long: `Tell who caused an object, and what it did: who created what it was made for, who asked, who answered, who wrote the
rules, and what was used at the proxy.

Each link says how far it can be relied on:
  authenticated  the API server saw the credential of who did it, and what it recorded cannot have been changed
  asserted       somebody else said so: by impersonation, or in a record that was not guarded when it was written
  inferred       nothing says so, but an owner reference, a name or a moment fits

Creator records hold the user that the API server acted on. Impersonation is seen in the audit log only: give it with
--audit-log. At level RequestResponse the log names objects by UID; at level Metadata it mostly does not, and then it
can lower a grade, but proves nothing.

With --offline only files are read, so the chain of objects that are gone can be told. Files may be compressed with gzip;
a value may be a pattern. They are read several times, so pipes do not do.` +
			exits(codes{ExitDone: "told", ExitDenied: "you may not read it", ExitNotFound: "no such object"}),
		Example: example(`
# Who is behind this pod, and what did it use?
{{}} chain pod/release-1-push-pod -n team-a --audit-log '/var/log/kubernetes/audit*' --access-log access.log

# What did this run cause?
{{}} chain pipelinerun/release-1 -n team-a --tree

# The run is gone: tell from files alone, for a report
{{}} chain pipelinerun/release-1 -n team-a --offline --audit-log 'audit*.gz' --archive evidence.jsonl -o mermaid`),
		Args: exactlyOne,
	}, func(ctx context.Context, args []string) error { return p.runChain(ctx, o, args[0]) })
	o.addTo(cmd)
	return cmd
}

func (o *chainOptions) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.uid, "uid", "", "UID of the object, when several had the name.")
	flags.BoolVar(&o.tree, "tree", false, "Tell what the object caused, too.")
	flags.BoolVar(&o.offline, "offline", false, "Read files only, and ask no API server.")
	flags.StringVar(&o.originConfig, "origin-config", "", "File that says which controllers create what, as the controller has it.")
	flags.StringVar(&o.epoch.creatorRecord, "creator-record", "", "What writes who created an object: policy or webhook, as the controller's flag says. Default: what the cluster has.")
	flags.StringVar(&o.epoch.namespace, "system-namespace", defaultSystemNamespace, "Namespace in which Countersign is installed.")
	must(cmd.RegisterFlagCompletionFunc("creator-record",
		cobra.FixedCompletions([]string{policies.CreatorRecordPolicy, policies.CreatorRecordWebhook}, cobra.ShellCompDirectiveNoFileComp)))
	o.files.addTo(cmd)
	o.output.addTo(cmd)
}

// chaining is one run of the verb.
type chaining struct {
	*chainOptions
	p         *program
	facts     *chain.Facts
	options   chain.Options
	namespace string
	// kind and group are the words of the command line; name is exact.
	kind, group, name string
	// live is nil if no API server is asked.
	live *chainLive
	// notes are made before there are facts.
	notes []string
}

func (p *program) runChain(ctx context.Context, o *chainOptions, word string) error {
	x := &chaining{chainOptions: o, p: p}
	if err := x.prepare(word); err != nil {
		return err
	}
	if !o.offline {
		if err := x.connect(ctx); err != nil {
			return err
		}
	}
	object, err := x.find(ctx)
	if err != nil {
		return err
	}
	x.facts = chain.New(x.options, object)
	if err := x.collect(ctx); err != nil {
		return err
	}
	if err := x.files.uses(x.facts); err != nil {
		return err
	}
	x.addNotes()
	return o.output.print(p.streams.Out, x.facts.Chain())
}

func (x *chaining) prepare(word string) error {
	kind, name, ok := strings.Cut(word, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return usage("%s is no KIND/NAME: write for example pipelinerun/release-1", words(word))
	}
	x.kind, x.group, _ = strings.Cut(strings.ToLower(kind), ".")
	x.name = name
	if err := x.epoch.validate(); err != nil {
		return err
	}
	if err := x.files.expand(); err != nil {
		return err
	}
	if x.offline && !x.files.tell() {
		return usage("--offline needs --audit-log or --archive: without them nothing is left to read")
	}
	makes, err := controllersIn(x.originConfig, "system:serviceaccount:"+x.epoch.namespace+":"+controllerAccount)
	if err != nil {
		return err
	}
	x.options = chain.Options{Tree: x.tree, Makes: makes, NoEpoch: "without the cluster it is not known since when creator records can be believed"}
	x.namespace, err = x.p.namespace()
	return err
}

// controllersIn makes a table of origins answer who makes what. The runs of Releases are made by own.
func controllersIn(path, own string) (func(child, owner schema.GroupKind, user string) bool, error) {
	config := origin.DefaultConfig()
	release := schema.GroupKind{Group: releasev1alpha1.GroupVersion.Group, Kind: "Release"}
	if path != "" {
		var err error
		if config, err = origin.LoadConfig(path); err != nil {
			return nil, err
		}
	}
	return func(child, owner schema.GroupKind, user string) bool {
		if owner == release {
			return user == own
		}
		return slices.ContainsFunc(config.Hops, func(hop origin.ConfiguredHop) bool {
			return hop.Child == origin.GroupKind{Group: child.Group, Kind: child.Kind} &&
				hop.Owner == origin.GroupKind{Group: owner.Group, Kind: owner.Kind} && slices.Contains(hop.Controllers, user)
		})
	}, nil
}

func (x *chaining) connect(ctx context.Context) error {
	c, err := x.p.dial(x.p)
	if err != nil {
		return err
	}
	x.live = &chainLive{c: c, tree: x.tree, asked: map[types.UID]bool{}, requests: map[string][]*approvalv1alpha1.ResourceCheckRequest{}}
	x.options.Epoch, x.options.NoEpoch, err = x.p.epoch(ctx, c, x.epoch)
	return err
}

// find says which object is meant: the live one, else one that the files know.
func (x *chaining) find(ctx context.Context) (*chain.Object, error) {
	if x.live == nil {
		return x.findInFiles()
	}
	object, err := x.live.target(ctx, x.word(), x.name, x.namespace)
	switch {
	case err == nil && (x.uid == "" || types.UID(x.uid) == object.UID):
		return object, nil
	case err != nil && !apierrors.IsNotFound(err) && !apimeta.IsNoMatchError(err):
		return nil, err
	case x.files.tell():
		return x.findInFiles()
	case err == nil:
		return nil, fail(ExitNotFound, "the %s %s of now has the UID %s: give --audit-log or --archive to look for an earlier one", x.kind, words(x.name), object.UID)
	}
	return nil, err
}

func (x *chaining) word() string {
	if x.group == "" {
		return x.kind
	}
	return x.kind + "." + x.group
}

func (x *chaining) findInFiles() (*chain.Object, error) {
	finder := &chain.Finder{Word: x.kind, Group: x.group, Namespace: x.namespace, Name: x.name}
	if err := x.files.find(finder); err != nil {
		return nil, err
	}
	lives := finder.Lives()
	if groups := chain.Groups(lives); len(groups) > 1 {
		return nil, usage("%s is a kind of several API groups: write %s.GROUP/%s with one of %s", x.kind, x.kind, words(x.name), show(strings.Join(groups, ", ")))
	}
	if x.uid != "" {
		lives = slices.DeleteFunc(lives, func(o *chain.Object) bool { return o.UID != types.UID(x.uid) })
	}
	if len(lives) == 0 {
		return nil, fail(ExitNotFound, "the files know no %s %s in namespace %s%s: look at -n, and whether the files reach back far enough",
			show(x.kind), words(x.name), show(x.namespace), x.uidText())
	}
	x.tellLives(lives)
	return lives[len(lives)-1], nil
}

// tellLives says that the name had several objects, of which one is told.
func (x *chaining) tellLives(lives []*chain.Object) {
	if len(lives) < 2 {
		return
	}
	var uids []string
	for _, o := range lives {
		if o.UID != "" {
			uids = append(uids, string(o.UID))
		}
	}
	x.notes = append(x.notes, fmt.Sprintf("The files know %d objects of this name, of which the last is told. Choose with --uid; known are %s.",
		len(lives), orElse(strings.Join(uids, ", "), "no UIDs, as the log has none")))
}

func (x *chaining) uidText() string {
	if x.uid == "" {
		return ""
	}
	return " with the UID " + show(x.uid)
}

// collect reads until nothing new comes to light. Logs are read once more after the last object was found, so that
// nothing about it is missed.
func (x *chaining) collect(ctx context.Context) error {
	for range maxReadings {
		if err := x.collectLive(ctx); err != nil {
			return err
		}
		if !x.files.tell() {
			return nil
		}
		x.facts.Restart()
		if err := x.files.read(x.facts); err != nil {
			return err
		}
		if !x.facts.Grew() {
			return nil
		}
	}
	x.facts.Note("The files were read %d times and still lead further: the chain may be incomplete.", maxReadings)
	return nil
}

func (x *chaining) collectLive(ctx context.Context) error {
	for x.live != nil {
		if err := x.live.collect(ctx, x.facts); err != nil {
			return err
		}
		if !x.facts.Grew() {
			return nil
		}
	}
	x.facts.Grew()
	return nil
}

func (x *chaining) addNotes() {
	for _, note := range x.notes {
		x.facts.Note("%s", note)
	}
	if len(x.files.audit) == 0 {
		x.facts.Note("No audit log was given, so impersonation is not seen: creator records name the user that was acted as.")
	}
	if x.live != nil && x.options.Epoch.IsZero() {
		x.facts.Note("Creator records are not believed: %s.", x.options.NoEpoch)
	}
}

// errNotRegular is for pipes, which can be read only once.
var errNotRegular = errors.New("it is no regular file, and files are read several times")
