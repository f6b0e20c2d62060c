package ldap

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ldapv3 "github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// serveRaw answers every connection as the function does, and closes it then.
func serveRaw(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = connection.Close() }()
				answer(connection)
			}()
		}
	}()
	return "ldap://" + listener.Addr().String()
}

// element is a BER element of less than 128 bytes.
func element(tag byte, content ...string) string {
	all := strings.Join(content, "")
	return string([]byte{tag, byte(len(all))}) + all
}

// bindResult is an answer to the first message, a bind, with this code and diagnostic message.
func bindResult(code byte, diagnostic string) string {
	return message(1, element(0x61, "\x0a\x01"+string([]byte{code}), "\x04\x00", element(0x04, diagnostic)))
}

// message is the answer to the id-th message.
func message(id byte, operation string) string {
	return element(0x30, "\x02\x01"+string([]byte{id}), operation)
}

// searchDone ends a search with this code and diagnostic message.
func searchDone(code byte, diagnostic string) string {
	return element(0x65, "\x0a\x01"+string([]byte{code}), "\x04\x00", element(0x04, diagnostic))
}

// found is an entry with one attribute.
func found(attribute, value string) string {
	return element(0x64, element(0x04, "cn=1,dc=x"), element(0x30, element(0x30, element(0x04, attribute), element(0x31, element(0x04, value)))))
}

// answering gives the texts, one for each message.
func answering(t *testing.T, texts ...string) string {
	return serveRaw(t, func(c net.Conn) { converse(c, texts) })
}

func converse(c net.Conn, texts []string) {
	for _, text := range texts {
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			return
		}
		_, _ = io.WriteString(c, text)
	}
}

const rawPassword = "raw-password"

func rawClient(t *testing.T, address string) *Client {
	t.Helper()
	return newClient(t, Config{
		URL: address, InsecurePlaintext: true, BaseDN: "dc=x", UserAttribute: "uid",
		BindDN: "cn=reader,dc=x", PasswordFile: secretFile(t, rawPassword),
	})
}

func TestGarbageIsNoAnswer(t *testing.T) {
	for name, address := range map[string]string{
		"nothing":              serveRaw(t, func(net.Conn) {}),
		"a web server":         answering(t, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
		"zeros":                answering(t, strings.Repeat("\x00", 100)),
		"an unknown operation": answering(t, element(0x30, "\x02\x01\x01", element(0x7e, ""))),
		"an empty message":     answering(t, element(0x30)),
		"another message":      answering(t, element(0x30, "\x02\x01\x63", element(0x61, "\x0a\x01\x00", "\x04\x00", "\x04\x00"))),
		"an unknown result":    answering(t, bindResult(99, "")),
		"half of an answer":    answering(t, bindResult(0, "welcome")[:8]),
		"gone after the login": answering(t, bindResult(0, "")),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rawClient(t, address).Lookup(t.Context(), "jane")
			require.Error(t, err)
			require.NotErrorIs(t, err, directory.ErrUnknown)
			assert.NotContains(t, err.Error(), rawPassword)
		})
	}
}

func endless(c net.Conn, beginning string) {
	_, _ = io.WriteString(c, beginning)
	for block := make([]byte, 1<<16); ; {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

func TestEndlessAnswersAreCut(t *testing.T) {
	atLogin := serveRaw(t, func(c net.Conn) { endless(c, "\x30\x84\x7f\xff\xff\xff\x04\x84\x7f\xff\xff\x00") })
	_, err := rawClient(t, atLogin).Lookup(t.Context(), "jane")
	require.ErrorContains(t, err, errTooLong.Error())

	ofOnePerson := serveRaw(t, func(c net.Conn) {
		converse(c, []string{bindResult(0, ""), ""})
		endless(c, "\x30\x84\x7f\xff\xff\xff\x02\x01\x02\x64\x84\x7f\xff\xff\x00\x04\x84\x7f\xff\xfe\x00")
	})
	_, err = rawClient(t, ofOnePerson).Lookup(t.Context(), "jane")
	assertNoAnswer(t, err, errTooLong.Error())
	var unavailable *directory.UnavailableError
	require.ErrorAs(t, err, &unavailable)
	assert.True(t, unavailable.OnlyThis, "a person with a huge entry keeps the directory from nobody else")
}

func TestErrorsKeepSecrets(t *testing.T) {
	for code := range byte(128) {
		_, err := rawClient(t, answering(t, bindResult(code, "no "+rawPassword))).Lookup(t.Context(), "jane")
		require.Errorf(t, err, "code %d", code)
		require.NotErrorIsf(t, err, directory.ErrUnknown, "code %d", code)
		assert.NotContainsf(t, err.Error(), rawPassword, "code %d", code)
	}
	client := rawClient(t, "ldap://127.0.0.1:1")
	_, err := client.Lookup(t.Context(), "jane")
	require.ErrorContains(t, err, "cannot be reached")
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %v", client, client, client, err), rawPassword)
}

func TestRefusedStartTLSIsExplained(t *testing.T) {
	address := answering(t, element(0x30, "\x02\x01\x01", element(0x78, "\x0a\x01\x02", "\x04\x00", "\x04\x00")))
	_, err := newClient(t, Config{URL: address, StartTLS: true, BaseDN: "dc=x", UserAttribute: "uid"}).Lookup(t.Context(), "jane")
	assertMend(t, err, "the directory refuses StartTLS (code 2)")
}

// TestS16_RefusedSearchesAreNoAnswer lets each of the searches of a look-up fail, also after it showed a person.
func TestS16_RefusedSearchesAreNoAnswer(t *testing.T) {
	const said = "no, " + rawPassword
	jane, none := found("uid", "jane"), searchDone(0, "")
	for _, code := range refusals {
		for name, answers := range map[string][]string{
			"at once":                  {message(2, searchDone(code, said))},
			"after the person":         {message(2, jane) + message(2, searchDone(code, said))},
			"when asked why there":     {message(2, none), message(3, searchDone(code, said))},
			"when asked for anybody":   {message(2, none), message(3, none), message(4, searchDone(code, said))},
			"when asked if disabled":   {message(2, none), message(3, jane) + message(3, none), message(4, searchDone(code, said))},
			"after one who is refused": {message(2, none), message(3, jane) + message(3, searchDone(code, said))},
		} {
			t.Run(fmt.Sprintf("code %d %s", code, name), func(t *testing.T) {
				client := rawClient(t, answering(t, append([]string{bindResult(0, "")}, answers...)...))
				client.filters.disabled = "(employeeType=left)"
				person, err := client.Lookup(t.Context(), "jane")
				assert.Nil(t, person)
				assertNoAnswer(t, err, "the directory ")
				assert.NotContains(t, err.Error(), rawPassword)
			})
		}
	}
}

func TestRefusedSearchesAreTriedAgain(t *testing.T) {
	var connections atomic.Int32
	address := serveRaw(t, func(c net.Conn) {
		last := message(2, searchDone(ldapv3.LDAPResultBusy, ""))
		if connections.Add(1) == 3 {
			last = message(2, found("uid", "jane")) + message(2, searchDone(0, ""))
		}
		converse(c, []string{bindResult(0, ""), last})
	})
	cached := directory.New(rawClient(t, address), directory.Options{Retries: 2, Backoff: time.Microsecond}, nil)
	_, err := cached.Lookup(t.Context(), "jane")
	require.NoError(t, err)
	assert.EqualValues(t, 3, connections.Load())
}
