package ldap

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func valid() Config {
	return Config{URL: "ldaps://directory.example.org", BaseDN: "dc=example,dc=org", UserAttribute: "uid"}
}

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"minimal":            {func(*Config) {}, ""},
		"StartTLS":           {func(c *Config) { c.URL, c.StartTLS = "ldap://directory:1389/", true }, ""},
		"accepted plaintext": {func(c *Config) { c.URL, c.InsecurePlaintext = "ldap://directory", true }, ""},
		"everything": {func(c *Config) {
			c.BindDN, c.PasswordFile, c.Scope, c.PageSize, c.Filter = "cn=a", "/p", ScopeOne, 64, "(a=b)"
		}, ""},
		"disabled":              {func(c *Config) { c.Disabled = &Disabled{Attribute: "a", Values: []string{")"}, Filter: "(a:1.2.3:=2)"} }, ""},
		"plaintext":             {func(c *Config) { c.URL = "ldap://directory" }, "set startTLS"},
		"no URL":                {func(c *Config) { c.URL = "" }, "url must be"},
		"no host":               {func(c *Config) { c.URL = "ldaps://" }, "url must be"},
		"port alone":            {func(c *Config) { c.URL = "ldaps://:636" }, "url must be"},
		"user in URL":           {func(c *Config) { c.URL = "ldaps://a:b@directory" }, "url must be"},
		"path in URL":           {func(c *Config) { c.URL = "ldaps://directory/dc=org" }, "url must be"},
		"socket":                {func(c *Config) { c.URL = "ldapi://directory" }, "must be ldaps:// or ldap://"},
		"StartTLS twice":        {func(c *Config) { c.StartTLS = true }, "ldaps:// is TLS from the beginning"},
		"TLS and plaintext":     {func(c *Config) { c.InsecurePlaintext = true }, "contradicts"},
		"login without a file":  {func(c *Config) { c.BindDN = "cn=a" }, "belong together"},
		"file without a login":  {func(c *Config) { c.PasswordFile = "/p" }, "belong together"},
		"login is no DN":        {func(c *Config) { c.BindDN, c.PasswordFile = "admin", "/p" }, "bindDN is no distinguished name"},
		"no base":               {func(c *Config) { c.BaseDN = "" }, "baseDN is missing"},
		"base is no DN":         {func(c *Config) { c.BaseDN = "example.org" }, "baseDN is no distinguished name"},
		"unknown scope":         {func(c *Config) { c.Scope = "base" }, "the scope"},
		"large pages":           {func(c *Config) { c.PageSize = 65 }, "too large"},
		"no attribute":          {func(c *Config) { c.UserAttribute = "" }, "userAttribute is missing"},
		"filter in attribute":   {func(c *Config) { c.UserAttribute = "uid=*)(a" }, "no name of an attribute"},
		"OID":                   {func(c *Config) { c.UIDAttribute = "1.2.3" }, "no name of an attribute"},
		"odd disabled":          {func(c *Config) { c.Disabled = &Disabled{Attribute: "a b"} }, "no name of an attribute"},
		"filter in no brackets": {func(c *Config) { c.Filter = "objectClass=person" }, "filter is no LDAP filter"},
		"two filters":           {func(c *Config) { c.Filter = "(a=b)(c=d)" }, "filter is no LDAP filter"},
		"broken disabled":       {func(c *Config) { c.Disabled = &Disabled{Filter: "(a=b"} }, "the filter of disabled"},
		"empty disabled":        {func(c *Config) { c.Disabled = &Disabled{} }, "disabled says nothing"},
		"values alone":          {func(c *Config) { c.Disabled = &Disabled{Filter: "(a=b)", Values: []string{"x"}} }, "values but no attribute"},
	} {
		t.Run(name, func(t *testing.T) {
			c := valid()
			test.change(&c)
			err := c.Validate()
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			_, err = New(c)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestNewReadsTheAuthorities(t *testing.T) {
	c := valid()
	c.CAFile = secretFile(t, "no certificate")
	_, err := New(c)
	require.ErrorContains(t, err, "holds no certificate")
	require.NoError(t, os.Remove(c.CAFile))
	_, err = New(c)
	require.ErrorContains(t, err, "caFile cannot be read")
}
