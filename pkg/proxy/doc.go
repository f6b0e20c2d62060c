// Package proxy stands before tools. It authenticates the caller, asks the gate about every single request, logs in to
// the tool with the connector's credentials, and refuses in the language of the caller's client.
//
// One request goes: route ▸ authenticate ▸ classify ▸ decide ▸ forward ▸ log. The tool's path is parsed once, in package
// route; the same parse is classified, decided about and forwarded.
package proxy
