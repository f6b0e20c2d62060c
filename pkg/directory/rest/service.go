// Package rest asks directories that speak JSON over HTTP. Answers are bounded, redirects stay on their host, and errors
// hold nothing that the server chose to say: it may quote a token or a password.
package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

const (
	// maxAnswer is how long an answer may be, in bytes, after decompression.
	maxAnswer = 1 << 20
	// maxHeader is how long the header of an answer may be.
	maxHeader = 64 << 10
	// maxRedirects within one host is enough for a missing slash or a moved path.
	maxRedirects = 3
	maxIdle      = 4
	idleTimeout  = 90 * time.Second
	// maxRetryAfter is how long a server may send us away.
	maxRetryAfter = 10 * time.Minute
	maxHost       = 200
)

// NewHTTP returns a client that trusts the authorities in caFile, or those of the host if it is empty, and uses the proxy
// of the environment.
func NewHTTP(caFile string) (*http.Client, error) {
	trust, err := source.TLS(caFile, "")
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout: source.MaxLookup,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        trust,
			TLSHandshakeTimeout:    source.MaxLookup,
			MaxResponseHeaderBytes: maxHeader,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        idleTimeout,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: stayOnHost,
	}, nil
}

func stayOnHost(request *http.Request, via []*http.Request) error {
	from, to := via[0].URL, request.URL
	switch {
	case from.Scheme != to.Scheme || from.Host != to.Host:
		return source.Mend("the directory redirects to another host, %s, which is not followed: set the URL to where the service is", plaintext.Quote(to.Scheme+"://"+to.Host, maxHost))
	case len(via) > maxRedirects:
		return source.Mend("the directory redirects more than %d times: set the URL to where the service is", maxRedirects)
	}
	return nil
}

// Login gives the access token that a service wants.
type Login interface {
	Token(ctx context.Context) (source.Secret, error)
	// Refused takes back a token that the service refused. It tells whether another one may be had.
	Refused(ctx context.Context, token source.Secret) bool
}

// Service is a directory's HTTP interface.
type Service struct {
	HTTP *http.Client
	// Login is nil where no token is needed.
	Login Login
	// Accept is the media type that is asked for.
	Accept string
	// Hints say by status code what to mend; for other codes it is taken that asking again may help.
	Hints map[int]string
	// Detail finds in the body of an error what may be shown; nil shows nothing.
	Detail func(body []byte) string
	Clock  clock.PassiveClock
}

// Get reads the JSON document at the address into the value. Any error but nil means that there is no answer.
func (s *Service) Get(ctx context.Context, address string, into any) error {
	got, err := s.try(ctx, address)
	if err != nil {
		return err
	}
	if got.status == http.StatusUnauthorized && s.Login != nil && s.Login.Refused(ctx, got.token) {
		if got, err = s.try(ctx, address); err != nil {
			return err
		}
	}
	if got.status != http.StatusOK {
		return s.refused(got)
	}
	return decode(got.body, into)
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	token  source.Secret // that was sent
}

func (s *Service) try(ctx context.Context, address string) (*answer, error) {
	got := &answer{}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", s.Accept)
	if s.Login != nil {
		if got.token, err = s.Login.Token(ctx); err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+string(got.token))
	}
	response, err := s.HTTP.Do(request)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	got.status, got.header = response.StatusCode, response.Header
	if got.body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1)); err != nil {
		return nil, unreachable(ctx, err)
	}
	if len(got.body) > maxAnswer {
		return nil, source.Senseless("the directory's answer is longer than %d bytes, which is no answer to a question about one person", maxAnswer)
	}
	return got, nil
}

// unreachable explains an error of the HTTP client, without the address: its query is the name of a person.
func unreachable(ctx context.Context, err error) error {
	var unavailable *directory.UnavailableError
	var wrapped *url.Error
	switch {
	case errors.As(err, &unavailable):
		return unavailable
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return source.Unanswered(ctx)
	case errors.As(err, &wrapped):
		err = wrapped.Err
	}
	return source.Unreachable("the directory cannot be reached: %s", err)
}

// refused is the error for a status other than 200.
func (s *Service) refused(got *answer) error {
	text := fmt.Sprintf("the directory answered %d", got.status)
	if known := http.StatusText(got.status); known != "" {
		text += " " + known
	}
	if s.Detail != nil {
		text += s.Detail(got.body)
	}
	refused := &directory.UnavailableError{Why: text, OnlyThis: slices.Contains(ofTheName, got.status)}
	if hint, ok := s.Hints[got.status]; ok {
		refused.Why, refused.RetryAfter = text+": "+hint, source.MendRetry
	} else {
		refused.RetryAfter = retryAfter(s.Clock, got.status, got.header)
	}
	return refused
}

// ofTheName are the codes with which a service says that it does not like the question, in which only the name changes.
var ofTheName = []int{http.StatusBadRequest, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge}

// retryAfter reads the header of RFC 9110 section 10.2.3, seconds or a date. A server that says "too many requests" without
// it gets time nevertheless.
func retryAfter(c clock.PassiveClock, status int, header http.Header) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	wait, err := time.ParseDuration(text + "s")
	if date, dateErr := http.ParseTime(text); dateErr == nil {
		wait, err = date.Sub(c.Now()), nil
	}
	switch {
	case err == nil:
		return min(max(wait, time.Second), maxRetryAfter)
	case status == http.StatusTooManyRequests:
		return source.MendRetry
	}
	return 0
}

// decode reads one JSON value, and nothing after it.
func decode(body []byte, into any) error {
	if !utf8.Valid(body) || json.Unmarshal(body, into) != nil {
		return Garbage("it is not the JSON that was asked for")
	}
	return nil
}

// Garbage is no answer: the service said something else than it should.
func Garbage(why string) error {
	return source.Senseless("the directory's answer makes no sense: %s; check that the configured URL is that of the service", why)
}
