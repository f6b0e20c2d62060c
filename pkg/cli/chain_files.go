package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/archive"
	"github.com/AlaudaDevops/countersign/pkg/audit"
	"github.com/AlaudaDevops/countersign/pkg/chain"
)

// maxEvidence bounds a line of the archive or the access log, in bytes: one request with all its checks and answers.
const maxEvidence = 64 << 20

// chainFiles are the files that chain reads.
type chainFiles struct{ audit, archive, access []string }

func (f *chainFiles) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.audit, "audit-log", nil, "Audit log of the API server, JSON lines of audit.k8s.io/v1. Repeatable.")
	flags.StringSliceVar(&f.archive, "archive", nil, "Evidence that the controller archived. Repeatable.")
	flags.StringSliceVar(&f.access, "access-log", nil, "Access log of the proxy. Repeatable.")
	for _, name := range []string{"audit-log", "archive", "access-log"} {
		must(cmd.MarkFlagFilename(name))
	}
}

// tell says whether there are files that know objects.
func (f *chainFiles) tell() bool { return len(f.audit)+len(f.archive) > 0 }

// expand replaces patterns by the files they match, and looks that all can be read.
func (f *chainFiles) expand() error {
	for _, paths := range []*[]string{&f.audit, &f.archive, &f.access} {
		var all []string
		for _, pattern := range *paths {
			found, err := filepath.Glob(pattern)
			if err != nil || len(found) == 0 {
				return fail(ExitError, "there is no file %s", words(pattern))
			}
			all = append(all, found...)
		}
		for _, path := range all {
			if err := readable(path); err != nil {
				return err
			}
		}
		*paths = all
	}
	return nil
}

func readable(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return fail(ExitError, "the file %s cannot be read: %s", words(path), show(err.Error()))
	}
	return nil
}

// find looks for the objects of a name.
func (f *chainFiles) find(finder *chain.Finder) error {
	err := f.eachEvent(func(e *chain.Event) { finder.AddEvent(e) }, func(string) {})
	if err != nil {
		return err
	}
	return f.eachRecord(func(r *archive.Record) { findInRecord(finder, r) }, func(string) {})
}

func findInRecord(finder *chain.Finder, r *archive.Record) {
	at := r.At.Time
	if r.Request != nil {
		finder.AddObject(chain.ObjectOf(approvalv1alpha1.GroupVersion.WithKind("ResourceCheckRequest"), r.Request), at)
		at = r.Request.CreationTimestamp.Time
	}
	for i := range r.Run {
		finder.AddObject(chain.Reference(r.Run[i].Resource), at)
	}
	for _, check := range r.Checks {
		finder.AddObject(chain.ObjectOf(check.GroupVersionKind(), check), r.At.Time)
	}
	for i := range r.Answers {
		finder.AddObject(chain.ObjectOf(approvalv1alpha1.GroupVersion.WithKind("ApprovalResponse"), &r.Answers[i]), r.At.Time)
	}
}

// read feeds the facts with what archives and audit logs hold.
func (f *chainFiles) read(facts *chain.Facts) error {
	note := func(text string) { facts.Note("%s", text) }
	if err := f.eachRecord(func(r *archive.Record) { addRecord(facts, r) }, note); err != nil {
		return err
	}
	return f.eachEvent(facts.AddEvent, note)
}

func addRecord(facts *chain.Facts, r *archive.Record) {
	if r.Request == nil {
		if facts.Concerns(r.Run) {
			facts.Note("The archive holds checks of request %s, but not the request itself: it is left out.", r.RequestUID)
		}
		return
	}
	// The target may be a check or an answer, so those are offered whatever the request is.
	if facts.AddRequest(r.Request, chain.Archived) {
		facts.AddRun(r.Run)
	}
	for _, check := range r.Checks {
		if raw, err := check.MarshalJSON(); err == nil {
			if o := chain.Read(raw); o != nil {
				facts.AddObject(o, chain.Archived)
			}
		}
	}
	for i := range r.Answers {
		facts.AddAnswer(&r.Answers[i], chain.Archived)
	}
}

// eachEvent reads all audit logs. Lines that cannot be read are told, and left out.
func (f *chainFiles) eachEvent(each func(*chain.Event), note func(string)) error {
	for _, path := range f.audit {
		err := audit.ReadFile(path, func(event *auditv1.Event) error {
			if reduced := chain.Reduce(event); reduced != nil {
				each(reduced)
			}
			return nil
		})
		var faults *audit.Unreadable
		if errors.As(err, &faults) {
			note(fmt.Sprintf("The audit log %s is not complete: %s.", path, faults))
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachRecord reads all archives. The controller may write its evidence where its log goes, so other lines are passed over.
func (f *chainFiles) eachRecord(each func(*archive.Record), note func(string)) error {
	for _, path := range f.archive {
		broken := 0
		err := eachLine(path, func(line []byte) {
			if !bytes.Contains(line, []byte(archive.Version)) {
				return
			}
			record := &archive.Record{}
			if err := json.Unmarshal(line, record); err != nil {
				broken++
				return
			}
			if record.APIVersion == archive.Version && record.Kind == archive.RecordKind {
				each(record)
			}
		})
		if err != nil {
			return fmt.Errorf("the archive %s cannot be read: %w", path, err)
		}
		if broken > 0 {
			note(fmt.Sprintf("The archive %s is not complete: %s cannot be read.", path, count(broken, "line", "lines")))
		}
	}
	return nil
}

// accessEntry is a line of the access log, as far as chains need it.
type accessEntry struct {
	Time      time.Time `json:"time"`
	Verdict   string    `json:"verdict"`
	Reason    string    `json:"reason"`
	Connector string    `json:"connector"`
	Subject   string    `json:"subject"`
	JTI       string    `json:"jti"`
	PodUID    types.UID `json:"podUID"`
	Context   *struct {
		UID types.UID `json:"uid"`
	} `json:"context"`
	Request   string `json:"request"`
	Operation string `json:"operation"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Status    int    `json:"status"`
}

func (e *accessEntry) use() *chain.Use {
	u := &chain.Use{
		At: e.Time, Verdict: e.Verdict, Reason: e.Reason, Connector: e.Connector, Request: e.Request, Subject: e.Subject,
		JTI: e.JTI, PodUID: e.PodUID, Operation: e.Operation, Method: e.Method, Path: e.Path, Status: e.Status,
	}
	if e.Context != nil {
		u.ContextUID = e.Context.UID
	}
	return u
}

// uses feeds the facts with what the proxy's access logs hold.
func (f *chainFiles) uses(facts *chain.Facts) error {
	for _, path := range f.access {
		broken := 0
		err := eachLine(path, func(line []byte) {
			entry := &accessEntry{}
			if json.Unmarshal(line, entry) != nil {
				broken++
				return
			}
			facts.AddUse(entry.use())
		})
		if err != nil {
			return fmt.Errorf("the access log %s cannot be read: %w", path, err)
		}
		if broken > 0 {
			facts.Note("The access log %s is not complete: %s cannot be read.", path, count(broken, "line", "lines"))
		}
	}
	return nil
}

// eachLine reads a file, plain or compressed. A last line that was cut off is given to each as it is.
func eachLine(path string, each func([]byte)) error {
	in, err := audit.Open(path)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxEvidence)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			each(line)
		}
	}
	return errors.Join(lines.Err(), in.Close())
}
