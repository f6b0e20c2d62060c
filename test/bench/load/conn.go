package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// maxExcerpt bounds what is kept of an answer that is not a success, in bytes.
const maxExcerpt = 512

// Message is a whole request without a body.
func Message(method, host, uri, token string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUser-Agent: bench\r\n\r\n",
		method, uri, host, strings.TrimSpace(token))
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
	// Excerpt is the beginning of the body of an answer that is not 200.
	Excerpt string
}

// Exchange sends a request and reads its answer, which must say its length.
func (c *Conn) Exchange(message []byte) (Answer, error) {
	if _, err := c.Write(message); err != nil {
		return Answer{}, err
	}
	answer, err := c.header()
	if err != nil {
		return answer, err
	}
	if answer.Status != 200 {
		excerpt := make([]byte, min(maxExcerpt, answer.BodyBytes))
		if _, err := io.ReadFull(c.reader, excerpt); err != nil {
			return answer, err
		}
		answer.Excerpt = string(excerpt)
	}
	_, err = c.reader.Discard(answer.BodyBytes - len(answer.Excerpt))
	return answer, err
}

var (
	errNoLength = errors.New("the answer does not say its length, so the next one cannot be found")
	errNoStatus = errors.New("the answer is not HTTP/1.1")
	lengthField = []byte("content-length")
	blank       = []byte("\r\n")
)

func (c *Conn) header() (Answer, error) {
	answer := Answer{BodyBytes: -1}
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
		if line, err = c.reader.ReadSlice('\n'); err != nil {
			return answer, err
		}
		if bytes.Equal(line, blank) {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, lengthField) {
			if answer.BodyBytes, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return answer, err
			}
		}
	}
	if answer.BodyBytes < 0 {
		return answer, errNoLength
	}
	return answer, nil
}
