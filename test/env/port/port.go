// Package port finds ports on loopback for servers that choose none themselves.
package port

import "net"

// Reserve returns a free port of 127.0.0.1 that nobody else is given for the next minute. Closing a listener at once
// would let two test binaries get the same port; so one connection is accepted and closed from the server's side first,
// which leaves the port in TIME_WAIT: the kernel then gives it to no bind to port 0 and no outgoing connection, but a
// server that names it may listen there (SO_REUSEADDR, which Go and slapd set).
func Reserve() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }()
	server, err := listener.Accept()
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, server.Close()
}
