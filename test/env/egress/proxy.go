// Package egress stands for the network between an API server and its cluster, which a test
// cluster on one machine does not have. The API server sends `CONNECT <clusterIP>:<port>` to a Unix
// socket (EgressSelectorConfiguration, KEP-1281); the proxy looks the Service up and connects to
// the local port that stands for it, so that webhook configurations work as shipped.
package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	headerTimeout = 5 * time.Second
	lookupTimeout = 5 * time.Second
	dialTimeout   = 5 * time.Second
)

// Proxy answers CONNECT requests. Loopback addresses are connected to as they are, since kubelets
// and aggregated servers of a test cluster listen there; every other address must be the cluster
// IP of a Service with a route.
type Proxy struct {
	resolver Resolver
	routes   Routes
}

// New returns a proxy over the resolver and routes.
func New(resolver Resolver, routes Routes) *Proxy {
	return &Proxy{resolver: resolver, routes: routes}
}

// Serve answers on the listener until the context ends, then cuts every tunnel. It returns nil
// after an orderly end and closes the listener in every case.
func (p *Proxy) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		// Not the request's context: that ends when the client half-closes a hijacked connection.
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.connect(ctx, w, r) }),
		ReadHeaderTimeout: headerTimeout,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (p *Proxy) connect(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this proxy answers only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	upstream, dialErr := p.dial(ctx, r.Host)
	if dialErr == nil {
		defer func() { _ = upstream.Close() }()
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the API server hung up first
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, statusLine(dialErr)); err != nil || dialErr != nil {
		return
	}
	// Once hijacked, a connection outlives server.Close; only the context still ends it.
	tunnel(ctx, client, buffered, upstream)
}

// statusLine carries the reason, because the API server's error shows nothing else of the answer.
func statusLine(err error) string {
	if err == nil {
		return "HTTP/1.1 200 Connection established\r\n\r\n"
	}
	reason := strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error())
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: 0\r\n\r\n", http.StatusBadGateway, reason)
}

func (p *Proxy) dial(ctx context.Context, target string) (net.Conn, error) {
	address, err := p.address(ctx, target)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return dialer.DialContext(ctx, "tcp", address)
}

func (p *Proxy) address(ctx context.Context, target string) (string, error) {
	host, portText, err := net.SplitHostPort(target)
	if err != nil {
		return "", fmt.Errorf("the target %q is no host:port", target)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return target, nil
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", fmt.Errorf("the target %q has no numeric port", target)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	name, err := p.resolver.Service(ctx, host)
	if err != nil {
		return "", err
	}
	return p.route(Service{NamespacedName: name, Port: uint16(port)})
}

func (p *Proxy) route(service Service) (string, error) {
	address, err := p.routes.Address(service)
	if err != nil {
		return "", err
	}
	if address == "" {
		return "", fmt.Errorf("the Service port %s has no route on this machine; register one", service)
	}
	return address, nil
}

// tunnel copies both ways until both sides are done or the context ends.
func tunnel(ctx context.Context, client net.Conn, fromClient io.Reader, upstream net.Conn) {
	defer context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = upstream.Close()
	})()
	var both errgroup.Group
	both.Go(func() error { return pipe(upstream, fromClient) })
	both.Go(func() error { return pipe(client, upstream) })
	_ = both.Wait() // a broken tunnel shows at both ends by itself
}

// pipe copies to the end and passes the end on.
func pipe(to net.Conn, from io.Reader) error {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return errors.Join(err, half.CloseWrite())
	}
	return err
}
