package slapd

import (
	"fmt"
	"os"
	"strings"
)

// configuration is the name of the server's configuration file, in the form of slapd.conf(5): one file, no tools.
const configuration = "slapd.conf"

// Where Debian's package puts what slapd is made of.
const (
	schemas = "/etc/ldap/schema"
	modules = "/usr/lib/ldap"
)

// accounts adds what Active Directory has and OpenLDAP has not: userAccountControl, a number whose bits are flags. The
// numbers are those of examples (RFC 5612).
const accounts = `
attributetype ( 1.3.6.1.4.1.32473.1.1 NAME 'userAccountControl'
  EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
objectclass ( 1.3.6.1.4.1.32473.2.1 NAME 'exampleAccount' SUP top AUXILIARY MAY ( userAccountControl ) )
`

func (s *Server) configure() error {
	if err := os.Mkdir(s.path("database"), 0o700); err != nil {
		return err
	}
	var text strings.Builder
	for _, schema := range []string{"core", "cosine", "inetorgperson"} {
		fmt.Fprintf(&text, "include %s/%s.schema\n", schemas, schema)
	}
	fmt.Fprintf(&text, "modulepath %s\nmoduleload back_mdb\nmoduleload ppolicy\n", modules)
	fmt.Fprintf(&text, "TLSCertificateFile %q\nTLSCertificateKeyFile %q\nTLSVerifyClient never\n", s.path("server.crt"), s.path("server.key"))
	text.WriteString(accounts)
	fmt.Fprintf(&text, "database mdb\nsuffix %q\nrootdn %q\nrootpw %q\ndirectory %q\nmaxsize 67108864\n",
		BaseDN, adminDN, s.AdminPassword, s.path("database"))
	// Tests need no durability, and disks are slow.
	text.WriteString("dbnosync\nindex objectClass,uid,mail eq\noverlay ppolicy\n")
	fmt.Fprintf(&text, "access to attrs=userPassword by anonymous auth by * none\naccess to * by dn.exact=%q read by * none\n", readerDN)
	return os.WriteFile(s.path(configuration), []byte(text.String()), 0o600)
}

// base is what every database begins with.
func base(password string) string {
	return strings.Join([]string{
		"dn: " + BaseDN + "\nobjectClass: organization\nobjectClass: dcObject\no: Example\ndc: example\n",
		"dn: " + PeopleDN + "\nobjectClass: organizationalUnit\nou: people\n",
		"dn: " + MoreDN + "\nobjectClass: organizationalUnit\nou: more\n",
		"dn: " + readerDN + "\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: reader\nuserPassword: " + password + "\n",
	}, "\n")
}
