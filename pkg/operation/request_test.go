package operation

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNewRequest(t *testing.T) {
	tests := map[string]struct {
		header       http.Header
		wantUpgrade  bool
		wantOverride bool
		wantForm     bool
	}{
		"none":                      {header: nil},
		"ordinary":                  {header: http.Header{"Accept": {"*/*"}, "Connection": {"keep-alive"}, "Content-Type": {"application/octet-stream"}, "X-Http-Methods": {"x"}}},
		"websocket":                 {header: http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}}, wantUpgrade: true},
		"upgrade alone":             {header: http.Header{"Upgrade": {"SPDY/3.1"}}, wantUpgrade: true},
		"connection alone":          {header: http.Header{"Connection": {"close", "UPGRADE"}}, wantUpgrade: true},
		"not canonical":             {header: http.Header{"upgrade": {"h2c"}}, wantUpgrade: true},
		"X-HTTP-Method-Override":    {header: http.Header{"X-Http-Method-Override": {"DELETE"}}, wantOverride: true},
		"X-HTTP-Method":             {header: http.Header{"X-Http-Method": {"MERGE"}}, wantOverride: true},
		"X-Method-Override":         {header: http.Header{"X-Method-Override": {"PUT"}}, wantOverride: true},
		"override, empty":           {header: http.Header{"X-Method-Override": {""}}, wantOverride: true},
		"override with underscores": {header: http.Header{"X_http_method_override": {"DELETE"}}, wantOverride: true},
		"override, mixed":           {header: http.Header{"X_HTTP-Method_Override": {"DELETE"}}, wantOverride: true},
		"form":                      {header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, wantForm: true},
		"form with parameter":       {header: http.Header{"Content-Type": {"Application/X-WWW-Form-Urlencoded; charset=UTF-8"}}, wantForm: true},
		"multipart form":            {header: http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, wantForm: true},
		"second type is a form":     {header: http.Header{"Content-Type": {"text/plain", "multipart/form-data"}}, wantForm: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := mustParse(t, "/x")
			want := Request{
				Method: "POST", Path: path, RawQuery: "a=b",
				Upgrade: tc.wantUpgrade, MethodOverride: tc.wantOverride, FormBody: tc.wantForm,
			}
			assert.Equal(t, want, NewRequest("POST", path, "a=b", tc.header))
		})
	}
}

func TestLookup(t *testing.T) {
	tests := map[string]struct {
		query string
		want  param
	}{
		"empty":                   {"", param{}},
		"absent":                  {"a=1&keys=2", param{}},
		"plain":                   {"key=v", param{value: "v", found: true}},
		"last":                    {"a=1&key=v", param{value: "v", found: true}},
		"empty value":             {"key=", param{found: true}},
		"no equals sign":          {"key", param{found: true}},
		"escaped key":             {"k%65y=v", param{value: "v", found: true}},
		"escaped value":           {"key=a%2Fb+c", param{value: "a/b c", found: true}},
		"value with equals sign":  {"key=a=b", param{value: "a=b", found: true}},
		"twice the same":          {"key=v&key=v", param{value: "v", found: true}},
		"twice differently":       {"key=v&key=w", param{value: "w", found: true, unsure: true}},
		"behind a semicolon":      {"a=1;key=v", param{value: "v", found: true}},
		"key cannot be decoded":   {"%zz=1", param{unsure: true}},
		"value cannot be decoded": {"key=%zz", param{found: true, unsure: true}},
		"other value cannot":      {"a=%zz&key=v", param{value: "v", found: true}},
		"empty pairs":             {"&&key=v&", param{value: "v", found: true}},
		"case counts":             {"Key=v", param{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, lookup(tc.query, "key"))
		})
	}
}
