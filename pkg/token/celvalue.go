package token

import (
	"encoding/json"
	"errors"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/authentication/user"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/lazy"
)

// claimValues shows claims to CEL expressions. A claim is decoded when an expression first asks for it.
func claimValues(c claims) traits.Mapper {
	values := lazy.NewMapValue(types.NewObjectType("kubernetes.claims"))
	for name, raw := range c {
		values.Append(name, func(*lazy.MapValue) ref.Val {
			var value any
			if err := json.Unmarshal(raw, &value); err != nil {
				return types.WrapErr(err)
			}
			return jsonValues{}.NativeToValue(value)
		})
	}
	return values
}

// userValues shows the mapped user to CEL expressions, before he is made authenticated.
func userValues(info user.Info) traits.Mapper {
	values := lazy.NewMapValue(types.NewObjectType("kubernetes.UserInfo"))
	add := func(name string, value any) {
		values.Append(name, func(*lazy.MapValue) ref.Val { return jsonValues{}.NativeToValue(value) })
	}
	extra := make(map[string]any, len(info.GetExtra()))
	for key, list := range info.GetExtra() {
		extra[key] = list
	}
	add("username", info.GetName())
	add("uid", info.GetUID())
	add("groups", info.GetGroups())
	add("extra", extra)
	return values
}

// jsonValues makes CEL values of decoded JSON. Objects, however deep, answer to escaped field names.
type jsonValues struct{}

func (a jsonValues) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return escapedObject{types.NewStringInterfaceMap(a, v)}
	case []any:
		return types.NewDynamicList(a, v)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

// escapedObject is a JSON object whose field a.b is also reached as a__dot__b, the escaping that
// Kubernetes uses wherever CEL meets JSON.
type escapedObject struct{ traits.Mapper }

func (o escapedObject) Find(name ref.Val) (ref.Val, bool) { return o.Mapper.Find(unescaped(name)) }

func (o escapedObject) Get(name ref.Val) ref.Val { return o.Mapper.Get(unescaped(name)) }

func (o escapedObject) Contains(name ref.Val) ref.Val { return o.Mapper.Contains(unescaped(name)) }

func unescaped(name ref.Val) ref.Val {
	if s, ok := name.(types.String); ok {
		if plain, ok := apiservercel.Unescape(string(s)); ok {
			return types.String(plain)
		}
	}
	return name
}

// texts reads the result of an expression that may be one string or a list of them. Nothing, an empty
// string and an empty list are all no strings; empty strings in a list are left out.
func texts(value ref.Val) ([]string, error) {
	switch v := value.(type) {
	case types.Null:
		return nil, nil
	case types.String:
		return withoutEmpty([]ref.Val{v})
	case traits.Lister:
		var elements []ref.Val
		for it := v.Iterator(); it.HasNext() == types.True; {
			elements = append(elements, it.Next())
		}
		return withoutEmpty(elements)
	}
	return nil, errors.New("the result is neither a string nor a list of strings")
}

func withoutEmpty(values []ref.Val) ([]string, error) {
	var out []string
	for _, v := range values {
		s, ok := v.(types.String)
		if !ok {
			return nil, errors.New("the result is a list of something else than strings")
		}
		if s != "" {
			out = append(out, string(s))
		}
	}
	return out, nil
}
