package cli

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// maxList bounds a list, in bytes.
const maxList = 256 << 20

// listed is an object with its creator, as a list names it.
type listed struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	User      string    `json:"user"`
	// place is where it stands, for people.
	place string
}

// planFromList takes a list only as a whole: nothing is done while one of its entries is wrong.
func (m *migrator) planFromList() error {
	namespace, err := m.p.namespace()
	if err != nil {
		return err
	}
	entries, err := m.readList()
	if err != nil {
		return err
	}
	users := map[string]string{}
	for i := range entries {
		a, err := m.listed(&entries[i], namespace)
		if err != nil {
			return err
		}
		user, again := users[a.text()]
		switch {
		case again && user != a.user:
			return fail(ExitError, "%s, %s: %s has another creator further up", m.o.assign, entries[i].place, a.text())
		case !again:
			m.add(a)
		}
		users[a.text()] = a.user
	}
	return nil
}

// badUser says why a text is no user name; empty if it may be one.
func badUser(name string) string {
	switch {
	case name == "":
		return "a user has a name"
	case len(name) > maxUserName:
		return fmt.Sprintf("no user name is longer than %d bytes", maxUserName)
	case !utf8.ValidString(name):
		return "a user name is UTF-8"
	}
	return ""
}

func (m *migrator) listed(l *listed, namespace string) (assignment, error) {
	wrong := func(format string, args ...any) (assignment, error) {
		return assignment{}, fail(ExitError, "%s, %s: %s", show(m.o.assign), l.place, fmt.Sprintf(format, args...))
	}
	if l.Kind == "" || l.Name == "" {
		return wrong("give kind and name")
	}
	if why := badUser(l.User); why != "" {
		return wrong("user: %s", why)
	}
	kind, err := m.kind(l.Kind)
	if err != nil {
		return wrong("%s", sentence(err))
	}
	switch {
	case isNamespaced(kind) && l.Namespace == "":
		l.Namespace = namespace
	case !isNamespaced(kind) && l.Namespace != "":
		return wrong("%s belongs to no namespace: leave the namespace out", words(l.Kind))
	}
	return assignment{candidate: candidate{kind: kind, namespace: l.Namespace, name: l.Name, uid: l.UID}, user: l.User}, nil
}

// readList reads CSV, whose first line names its columns, or YAML, which JSON is too.
func (m *migrator) readList() ([]listed, error) {
	content, err := m.listContent()
	if err != nil {
		return nil, fail(ExitError, "the list cannot be read: %s", sentence(err))
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if columns, ok := csvColumns(content); ok {
		return m.readCSV(content, columns)
	}
	var entries []listed
	if err := yaml.UnmarshalStrict(content, &entries); err != nil {
		return nil, fail(ExitError, "%s is neither a YAML list of {kind, namespace, name, uid, user} nor CSV with these words in its first line: %s",
			show(m.o.assign), sentence(err))
	}
	for i := range entries {
		entries[i].place = fmt.Sprintf("entry %d", i+1)
	}
	return entries, nil
}

func (m *migrator) listContent() ([]byte, error) {
	if m.o.assign == "-" {
		return readAtMost(m.p.streams.In)
	}
	file, err := os.Open(m.o.assign)
	if err != nil {
		return nil, err
	}
	content, err := readAtMost(file)
	return content, errors.Join(err, file.Close())
}

func readAtMost(in io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(in, maxList+1))
	if err == nil && len(content) > maxList {
		return nil, fmt.Errorf("it is longer than %d MiB: divide it", maxList>>20)
	}
	return content, err
}

var listColumns = []string{"kind", "namespace", "name", "uid", "user"}

// csvColumns reads the first line of CSV; what is none has other words there.
func csvColumns(content []byte) (columns []string, ok bool) {
	first, _, _ := strings.Cut(string(content[:min(len(content), 1024)]), "\n")
	for word := range strings.SplitSeq(first, ",") {
		columns = append(columns, strings.ToLower(strings.Trim(strings.TrimSpace(word), `"`)))
	}
	for _, column := range columns {
		if !slices.Contains(listColumns, column) {
			return nil, false
		}
	}
	return columns, len(columns) > 1
}

func (m *migrator) readCSV(content []byte, columns []string) ([]listed, error) {
	for _, needed := range []string{"kind", "name", "user"} {
		if !slices.Contains(columns, needed) {
			return nil, fail(ExitError, "%s has no column %s", show(m.o.assign), needed)
		}
	}
	rows := csv.NewReader(bytes.NewReader(content))
	rows.FieldsPerRecord = len(columns)
	rows.ReuseRecord = true
	var entries []listed
	for first := true; ; first = false {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			return entries, nil
		case err != nil:
			return nil, fail(ExitError, "%s: %s", show(m.o.assign), sentence(err))
		case first:
			continue
		}
		line, _ := rows.FieldPos(0)
		entries = append(entries, listedRow(columns, row, line))
	}
}

func listedRow(columns, row []string, line int) listed {
	l := listed{place: fmt.Sprintf("line %d", line)}
	for i, column := range columns {
		value := strings.Clone(row[i])
		switch column {
		case "kind":
			l.Kind = value
		case "namespace":
			l.Namespace = value
		case "name":
			l.Name = value
		case "uid":
			l.UID = types.UID(value)
		case "user":
			l.User = value
		}
	}
	return l
}
