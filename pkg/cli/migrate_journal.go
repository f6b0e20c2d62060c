package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// journal is the file of --progress-file: a first line that says of which cluster it is, then a line for every object that
// is done. Lines are only appended, and are on disk before the work ends; a last line that a crash has torn is cut off.
// A nil journal remembers nothing.
type journal struct {
	file  *os.File
	lines chan []byte
	ended chan struct{}
	uids  map[types.UID]bool
	names map[string]bool

	mu  sync.Mutex
	err error
}

const journalVersion = 1

var errNoProgress = errors.New("it is no progress file of this program: take another file")

type journalHead struct {
	Progress int `json:"countersignCreatorsMigrate"`
	// Cluster is the UID of its namespace kube-system; empty if it could not be read.
	Cluster string `json:"cluster"`
}

type journalLine struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	User      string    `json:"user"`
	Outcome   string    `json:"outcome"`
}

func (l *journalLine) key() string { return l.Kind + "\n" + l.Namespace + "\n" + l.Name }

// openJournal reads what an earlier run has done. With readOnly it adds nothing.
func openJournal(path, cluster string, readOnly bool) (*journal, error) {
	if path == "" {
		return nil, nil
	}
	flags := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if readOnly {
		flags = os.O_RDONLY
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if readOnly && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fail(ExitError, "the progress file cannot be opened: %s", sentence(err))
	}
	j := &journal{file: file, lines: make(chan []byte, maxConcurrency), ended: make(chan struct{}), uids: map[types.UID]bool{}, names: map[string]bool{}}
	if err := j.load(cluster, readOnly); err != nil {
		return nil, errors.Join(fail(ExitError, "the progress file %s cannot be used: %s", words(path), err), file.Close())
	}
	if readOnly {
		close(j.ended)
		return j, nil
	}
	go j.run()
	return j, nil
}

// load reads the file and leaves it ready to append to.
func (j *journal) load(cluster string, readOnly bool) error {
	if info, err := j.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errNoProgress)
	}
	head, err := json.Marshal(journalHead{journalVersion, cluster})
	if err != nil {
		return err
	}
	in := bufio.NewReader(j.file)
	var whole int64
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil { // torn, or nothing
			if number == 1 && !bytes.HasPrefix(head, line) {
				return errNoProgress
			}
			break
		}
		if err := j.loadLine(number, line, cluster); err != nil {
			return err
		}
		whole += int64(len(line))
	}
	if readOnly {
		return nil
	}
	if err := j.file.Truncate(whole); err != nil {
		return err
	}
	if whole > 0 {
		return nil
	}
	_, err = j.file.Write(append(head, '\n'))
	return err
}

func (j *journal) loadLine(number int, line []byte, cluster string) error {
	if number > 1 {
		var l journalLine
		if err := json.Unmarshal(line, &l); err != nil || l.Name == "" {
			return fmt.Errorf("line %d is none of its lines: take another file", number)
		}
		j.names[l.key()] = true
		if l.UID != "" {
			j.uids[l.UID] = true
		}
		return nil
	}
	var head journalHead
	if err := json.Unmarshal(line, &head); err != nil || head.Progress != journalVersion {
		return errNoProgress
	}
	if head.Cluster != "" && cluster != "" && head.Cluster != cluster {
		return errors.New("it is about another cluster: take another file")
	}
	return nil
}

// knows tells whether an earlier run has done with the object.
func (j *journal) knows(c *candidate) bool {
	if j == nil {
		return false
	}
	if c.uid != "" {
		return j.uids[c.uid]
	}
	line := journalLine{Kind: resourceText(c.kind), Namespace: c.namespace, Name: c.name}
	return j.names[line.key()]
}

// write writes down what another run need not look at again. It does not wait for the disk; close does.
func (j *journal) write(a *assignment, result outcome) error {
	word, ok := final[result]
	if j == nil || !ok || isClosed(j.ended) {
		return j.failure()
	}
	line, err := json.Marshal(journalLine{
		Kind: resourceText(a.kind), Namespace: a.namespace, Name: a.name, UID: a.uid, User: a.user, Outcome: word,
	})
	if err != nil {
		return err
	}
	select {
	case j.lines <- append(line, '\n'):
	case <-j.ended:
	}
	return j.failure()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (j *journal) failure() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// run appends all lines that are there at once, and waits for the disk once for all of them.
func (j *journal) run() {
	defer close(j.ended)
	var batch bytes.Buffer
	for line := range j.lines {
		batch.Reset()
		batch.Write(line)
		for range len(j.lines) {
			batch.Write(<-j.lines)
		}
		_, err := j.file.Write(batch.Bytes())
		if err == nil {
			err = j.file.Sync()
		}
		if err != nil {
			j.mu.Lock()
			j.err = fail(ExitError, "the progress file cannot be written: %s", sentence(err))
			j.mu.Unlock()
			return
		}
	}
}

// close waits until everything is on disk. Nothing may be written meanwhile or afterwards.
func (j *journal) close() error {
	if j == nil {
		return nil
	}
	close(j.lines)
	<-j.ended
	return errors.Join(j.failure(), j.file.Close())
}
