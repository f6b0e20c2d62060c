// Package ldap looks people up in an LDAP directory (RFC 4511): OpenLDAP, 389 Directory Server, Active Directory.
//
// A name is found by one attribute and compared byte for byte with what the entry holds, because servers match without
// regard to case and to blanks. Referrals and aliases are not followed: what is not below the base is not a person.
// An empty result is a no only while the directory shows anybody at all, because a server hides what the login may not
// read by saying that there is nothing.
package ldap

import (
	"context"
	"errors"
	"fmt"

	ldapv3 "github.com/go-ldap/ldap/v3"
	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

// Client is a directory.Directory. It keeps a few connections.
type Client struct {
	config  Config
	dialer  dialer
	filters filters
	idle    *pool
}

var _ directory.Directory = (*Client)(nil)

// New checks the configuration and reads the authorities that it names. It does not connect.
func New(c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	dialer, err := newDialer(&c)
	if err != nil {
		return nil, err
	}
	if c.PageSize == 0 {
		c.PageSize = DefaultPageSize
	}
	return &Client{config: c, dialer: dialer, filters: newFilters(&c), idle: newPool(clock.RealClock{})}, nil
}

// Lookup implements directory.Directory.
func (c *Client) Lookup(ctx context.Context, username string) (*directory.Person, error) {
	if err := source.CheckName(username); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, source.MaxLookup)
	defer cancel()
	if kept := c.idle.take(); kept != nil {
		person, err := c.use(ctx, kept, username)
		if source.Answered(err) || ctx.Err() != nil {
			return person, explain(ctx, err)
		}
		// The server may have closed the connection or forgotten its login long ago, and those beside it.
		c.idle.drain()
	}
	fresh, err := c.dialer.open(ctx)
	if err != nil {
		return nil, explain(ctx, err)
	}
	person, err := c.use(ctx, fresh, username)
	return person, explain(ctx, err)
}

// use asks on a connection and keeps it if it is as good as before. The end of the context cuts the connection, which is
// how the calls of the library learn of it.
func (c *Client) use(ctx context.Context, s *session, username string) (*directory.Person, error) {
	stop := context.AfterFunc(ctx, s.cut)
	s.allow(maxRead)
	person, err := (&search{Client: c, session: s, name: username, seconds: seconds(ctx)}).find()
	if err != nil && s.tooLong() {
		err = source.Senseless("%s", errTooLong)
	}
	if stop() && source.Answered(err) && !s.spoiled && !s.IsClosing() {
		c.idle.give(s)
	} else {
		s.close()
	}
	return person, err
}

// explain turns errors of the library into sentences without what the server chose to say: that may quote a password.
func explain(ctx context.Context, err error) error {
	var unavailable *directory.UnavailableError
	var result *ldapv3.Error
	switch {
	case source.Answered(err):
		return err
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return source.Unanswered(ctx)
	case errors.As(err, &unavailable):
		return err
	case errors.As(err, &result) && result.ResultCode < ldapv3.ErrorNetwork:
		return explainResult(result.ResultCode)
	}
	return source.Unreachable("the connection to the directory failed: %s", err)
}

func explainResult(code uint16) error {
	text := fmt.Sprintf("%s, code %d", ldapv3.LDAPResultCodeMap[code], code)
	switch code {
	case ldapv3.LDAPResultNoSuchObject:
		return source.Mend("the directory has no entry at baseDN, or shows none (%s): correct baseDN, or let bindDN read it", text)
	case ldapv3.LDAPResultInsufficientAccessRights, ldapv3.LDAPResultInappropriateAuthentication, ldapv3.LDAPResultStrongAuthRequired, ldapv3.LDAPResultConfidentialityRequired:
		return source.Mend("the directory does not let us search (%s): give bindDN the right, or log in as it wants", text)
	case ldapv3.LDAPResultReferral:
		return source.Mend("the directory refers to another server (%s), which is not followed: set url to the server that has baseDN", text)
	}
	return source.Unreachable("the directory did not do what it was asked for (%s)", text)
}
