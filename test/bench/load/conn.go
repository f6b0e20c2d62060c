package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
)

// maxExcerpt bounds what is kept of an answer that is not a success, in bytes.
const maxExcerpt = 512

// Message is a whole request; the body, if there is one, is JSON.
func Message(method, host, uri, token string, body []byte) []byte {
	message := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUser-Agent: bench\r\n",
		method, uri, host, strings.TrimSpace(token))
	if len(body) > 0 {
		message = fmt.Appendf(message, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return slices.Concat(message, blank, body)
}

// Conn is an HTTP/1.1 connection that carries one request at a time.
type Conn struct {
	net.Conn
	reader *bufio.Reader
}

func newConn(c net.Conn) *Conn { return &Conn{Conn: c, reader: bufio.NewReaderSize(c, 8<<10)} }

// Answer is what is read of a response.
type Answer struct {
	Status    int
	BodyBytes int
	// Excerpt is the beginning of the body of an answer that is no success.
	Excerpt string
}

// Exchange sends a request and reads its answer, which must say its length or come in chunks.
func (c *Conn) Exchange(message []byte) (Answer, error) {
	if _, err := c.Write(message); err != nil {
		return Answer{}, err
	}
	answer, err := c.header()
	switch {
	case err != nil:
	case answer.BodyBytes == chunked:
		err = c.chunks(&answer)
	case answer.BodyBytes < 0:
		err = errNoLength
	default:
		err = c.part(&answer, answer.BodyBytes)
	}
	return answer, err
}

// part reads a number of bytes of the body, and keeps the first ones of an answer that is no success.
func (c *Conn) part(answer *Answer, length int) error {
	kept := 0
	if answer.Status >= 300 {
		excerpt := make([]byte, min(maxExcerpt-len(answer.Excerpt), length))
		if _, err := io.ReadFull(c.reader, excerpt); err != nil {
			return err
		}
		answer.Excerpt += string(excerpt)
		kept = len(excerpt)
	}
	_, err := c.reader.Discard(length - kept)
	return err
}

// chunks reads a body that comes in chunks, the last of which is empty (RFC 9112 section 7.1). Trailers are not expected.
func (c *Conn) chunks(answer *Answer) error {
	answer.BodyBytes = 0
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		length, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil {
			return errNoChunk
		}
		if err := c.part(answer, int(length)); err != nil {
			return err
		}
		if _, err := c.reader.Discard(len(blank)); err != nil || length == 0 {
			return err
		}
		answer.BodyBytes += int(length)
	}
}

// Lengths that are none.
const (
	unknown = -1
	chunked = -2
)

var (
	errNoLength = errors.New("the answer does not say its length, so the next one cannot be found")
	errNoStatus = errors.New("the answer is not HTTP/1.1")
	errNoChunk  = errors.New("the answer's chunks do not say their lengths")
	lengthField = []byte("content-length")
	codingField = []byte("transfer-encoding")
	blank       = []byte("\r\n")
)

func (c *Conn) header() (Answer, error) {
	answer := Answer{BodyBytes: unknown}
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return answer, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return answer, errNoStatus
	}
	if answer.Status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return answer, errNoStatus
	}
	for {
		if line, err = c.reader.ReadSlice('\n'); err != nil || bytes.Equal(line, blank) {
			return answer, err
		}
		if err := answer.field(line); err != nil {
			return answer, err
		}
	}
}

// field takes up how the answer's end is found.
func (a *Answer) field(line []byte) (err error) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case bytes.EqualFold(name, lengthField):
		a.BodyBytes, err = strconv.Atoi(string(bytes.TrimSpace(value)))
	case bytes.EqualFold(name, codingField):
		a.BodyBytes = chunked
	}
	return err
}
