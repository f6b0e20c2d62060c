package fingerprint

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"

	"k8s.io/apimachinery/pkg/runtime/schema"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Object is a namespaced object by identity. A new object of the same name has another UID, and inherits nothing.
type Object struct {
	Group, Kind, Namespace, Name, UID string
}

// Kinds of subjects.
const (
	User           = string(approvalv1alpha1.SubjectUser)
	ServiceAccount = string(approvalv1alpha1.SubjectServiceAccount)
)

// Subject is whose use is meant. A service account always has a UID. A user has one only where the issuer maps one; it
// then counts, so a name that was given to somebody else inherits nothing.
type Subject struct {
	// Kind is User or ServiceAccount.
	Kind string
	// Namespace is that of a service account.
	Namespace string
	// Name is the service account's, or the exact user name.
	Name string
	UID  string
}

// Input is one question. Its class follows from what is set: Resource makes it bound to that context, whatever JTI
// says; otherwise it is bound to the subject, and to one token of the subject if JTI is set.
type Input struct {
	Object   Object
	Subject  Subject
	Resource *Object
	// JTI is the token's identifier (RFC 7519 section 4.1.7).
	JTI string
}

// Key is a fingerprint.
type Key [sha256.Size]byte

// version begins every encoding and every printed key.
const version = "v1"

// domain keeps our hashes apart from those of anybody else over the same bytes.
const domain = "countersign fingerprint " + version

// Classes of questions, as they enter the encoding.
const (
	boundToContext = 'c'
	boundToSubject = 's'
	boundToToken   = 't'
)

// usualSize is enough for names as people give them; longer ones move the encoding to the heap.
const usualSize = 1024

// Sum is the fingerprint of a question. It does not allocate for names of usual lengths.
func Sum(in *Input) Key {
	var room [usualSize]byte
	return sha256.Sum256(encode(room[:0], in))
}

// Keys are the fingerprints under which an answer to the question may be stored, the present form first. A release
// that changes the form also looks up the form of the release before it; so far there is one form.
func Keys(in *Input) []Key {
	return []Key{Sum(in)}
}

// encode appends the canonical form of the question. It is injective: a fixed number of fields follows each class.
func encode(b []byte, in *Input) []byte {
	b = appendField(b, domain)
	switch {
	case in.Resource != nil:
		b = appendObject(append(b, boundToContext), in.Resource)
	case in.JTI != "":
		b = appendField(append(b, boundToToken), in.JTI)
	default:
		b = append(b, boundToSubject)
	}
	b = appendObject(b, &in.Object)
	return appendSubject(b, &in.Subject)
}

func appendObject(b []byte, o *Object) []byte {
	b = appendField(b, o.Group)
	b = appendField(b, o.Kind)
	b = appendField(b, o.Namespace)
	b = appendField(b, o.Name)
	return appendField(b, o.UID)
}

func appendSubject(b []byte, s *Subject) []byte {
	b = appendField(b, s.Kind)
	b = appendField(b, s.Namespace)
	b = appendField(b, s.Name)
	return appendField(b, s.UID)
}

func appendField(b []byte, field string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(field)))
	return append(b, field...)
}

// letters is the alphabet of RFC 4648 section 6 in lower case, so that a key is a label value and part of a name.
var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// String is the key as it stands in status and labels: the version and 52 letters and digits, a valid label value.
func (k Key) String() string { return version + letters.EncodeToString(k[:]) }

// FromRequest is the question that a stored request asks. A pod's token is evidence only, which Sum honours because
// such a request names its resource.
func FromRequest(spec *approvalv1alpha1.ResourceCheckRequestSpec) Input {
	in := Input{Object: fromReference(&spec.ObjectRef)}
	if s := spec.Context.Subject; s != nil {
		in.Subject = Subject{Kind: string(s.Kind), Namespace: s.Namespace, Name: s.Name, UID: s.UID}
	}
	if spec.Context.Resource != nil {
		resource := fromReference(spec.Context.Resource)
		in.Resource = &resource
	}
	if spec.Context.Token != nil {
		in.JTI = spec.Context.Token.JTI
	}
	return in
}

func fromReference(ref *approvalv1alpha1.ObjectReference) Object {
	gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	return Object{Group: gk.Group, Kind: gk.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)}
}
