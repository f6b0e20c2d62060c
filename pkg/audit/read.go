package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// MaxLine bounds one line, in bytes. An API server stores no object above a few MiB; what is longer is the answer to a
// list, which changed nothing.
const MaxLine = 16 << 20

// namedLines bounds how many unreadable lines an error tells one by one.
const namedLines = 3

// Unreadable is the error for lines that are no audit events. All other lines were read: callers that can do with what
// is there may go on after saying so.
type Unreadable struct {
	// Lines counts the unreadable lines.
	Lines int
	// First holds what is wrong with the first few of them.
	First []LineError
}

// LineError says what is wrong with a line.
type LineError struct {
	// Line counts from 1.
	Line int
	Why  string
}

func (e *Unreadable) Error() string {
	text := fmt.Sprintf("line %d %s", e.First[0].Line, e.First[0].Why)
	for _, next := range e.First[1:] {
		text += fmt.Sprintf("; line %d %s", next.Line, next.Why)
	}
	if more := e.Lines - len(e.First); more > 0 {
		text += fmt.Sprintf("; %d more lines cannot be read either", more)
	}
	return text
}

func (e *Unreadable) add(line int, why string) {
	e.Lines++
	if len(e.First) < namedLines {
		e.First = append(e.First, LineError{Line: line, Why: why})
	}
}

// Read calls each for every event of r, in the order of the log; the event is the callee's to keep. It ends early with
// the error of each, or with the error of r. Once all is read, *Unreadable tells of lines that are no events. Empty
// lines and a last line that was cut off are passed over. A line may also hold an EventList, as audit webhooks get it.
func Read(r io.Reader, each func(*auditv1.Event) error) error {
	in := bufio.NewReaderSize(r, 1<<20)
	var faults Unreadable
	var buffer []byte
	for number := 1; ; number++ {
		line, whole, err := nextLine(in, buffer[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d cannot be read: %w", number, err)
		}
		buffer = line
		cut := err != nil // no newline: the last line
		if why, failed := deliver(line, whole, each); failed != nil {
			return fmt.Errorf("line %d: %w", number, failed)
		} else if why != "" && !cut {
			faults.add(number, why)
		}
		if cut {
			break
		}
	}
	if faults.Lines > 0 {
		return &faults
	}
	return nil
}

// nextLine reads up to the newline. Of a line above MaxLine it returns the beginning and whole=false.
func nextLine(in *bufio.Reader, into []byte) (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := in.ReadSlice('\n')
		if len(into)+len(part) > MaxLine {
			whole = false
		} else {
			into = append(into, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return into, whole, err
		}
	}
}

// deliver hands on the events of a line. why says what is wrong with the line, err is the callee's.
func deliver(line []byte, whole bool, each func(*auditv1.Event) error) (why string, err error) {
	if !whole {
		return fmt.Sprintf("is longer than %d MiB", MaxLine>>20), nil
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return "", nil
	}
	var event auditv1.Event
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Sprintf("is no JSON of an audit event (%v)", err), nil
	}
	switch {
	case event.APIVersion != auditv1.SchemeGroupVersion.String():
		return fmt.Sprintf("has apiVersion %.40q, not %s", event.APIVersion, auditv1.SchemeGroupVersion), nil
	case event.Kind == "Event":
		return "", each(&event)
	case event.Kind == "EventList":
		return deliverList(line, each)
	}
	return fmt.Sprintf("has kind %.40q, not Event", event.Kind), nil
}

func deliverList(line []byte, each func(*auditv1.Event) error) (why string, err error) {
	var list auditv1.EventList
	if err := json.Unmarshal(line, &list); err != nil {
		return fmt.Sprintf("is no JSON of a list of audit events (%v)", err), nil
	}
	for i := range list.Items {
		if err := each(&list.Items[i]); err != nil {
			return "", err
		}
	}
	return "", nil
}
