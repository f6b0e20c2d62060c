// Package connector admits Connectors.
//
// A connector lends its credentials to whoever may use it, so two rights beside those on connectors are asked for. Who
// says where credentials go must be allowed to read them. And who changes what a use means, or takes away a protected
// connector, must be allowed to change the rules, because the effect is the same. Nothing is completed here, so there is
// no mutating step.
package connector
