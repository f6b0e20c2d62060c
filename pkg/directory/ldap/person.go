package ldap

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	ldapv3 "github.com/go-ldap/ldap/v3"
	"github.com/google/uuid"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// objectGUID is Active Directory's identifier: 16 bytes.
const objectGUID = "objectGUID"

func (s *search) person(entry *ldapv3.Entry) *directory.Person {
	return &directory.Person{
		UID:         uid(s.config.UIDAttribute, entry.GetEqualFoldRawAttributeValue(s.config.UIDAttribute)),
		DisplayName: text(entry, s.config.DisplayNameAttribute),
		Email:       text(entry, s.config.EmailAttribute),
	}
}

// text is the first value, without what is no UTF-8.
func text(entry *ldapv3.Entry, attribute string) string {
	return strings.ToValidUTF8(entry.GetEqualFoldAttributeValue(attribute), "")
}

func uid(attribute string, value []byte) string {
	switch {
	case strings.EqualFold(attribute, objectGUID) && len(value) == len(uuid.UUID{}):
		return guid(value)
	case utf8.Valid(value):
		return string(value)
	}
	return hex.EncodeToString(value)
}

// guid writes the bytes as Active Directory's tools do: the first three groups are little-endian ([MS-DTYP] 2.3.4.2).
func guid(value []byte) string {
	var id uuid.UUID
	copy(id[:], value)
	binary.BigEndian.PutUint32(id[0:4], binary.LittleEndian.Uint32(value[0:4]))
	binary.BigEndian.PutUint16(id[4:6], binary.LittleEndian.Uint16(value[4:6]))
	binary.BigEndian.PutUint16(id[6:8], binary.LittleEndian.Uint16(value[6:8]))
	return id.String()
}
