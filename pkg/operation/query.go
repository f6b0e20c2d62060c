package operation

import (
	"net/url"
	"strings"
)

// param is what a raw query says about one key.
type param struct {
	value string
	found bool
	// unsure: the key is given twice with different values, or something in the query cannot be decoded, so tools differ
	// in what they read.
	unsure bool
}

// lookup reads one key without building a map. Semicolons separate as ampersands do: some tools take them so.
func lookup(rawQuery, key string) param {
	var p param
	for rawQuery != "" {
		var pair string
		pair, rawQuery = cutPair(rawQuery)
		p = p.with(pair, key)
	}
	return p
}

func cutPair(rawQuery string) (pair, rest string) {
	if i := strings.IndexAny(rawQuery, "&;"); i >= 0 {
		return rawQuery[:i], rawQuery[i+1:]
	}
	return rawQuery, ""
}

func (p param) with(pair, key string) param {
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, err := url.QueryUnescape(rawName)
	if err != nil {
		p.unsure = true
		return p
	}
	if name != key {
		return p
	}
	value, err := url.QueryUnescape(rawValue)
	if err != nil || p.found && value != p.value {
		p.unsure = true
	}
	p.value, p.found = value, true
	return p
}

// on tells whether the key surely switches something on, by the words on which all tools agree.
func (p param) on() bool {
	return p.found && !p.unsure && (p.value == "true" || p.value == "1")
}
