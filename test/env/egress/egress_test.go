package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

var hook = Service{NamespacedName: types.NamespacedName{Namespace: "prod", Name: "hook"}, Port: 443}

func TestParseService(t *testing.T) {
	cases := map[string]struct {
		text    string
		want    Service
		wantErr bool
	}{
		"good":             {text: "prod/hook:443", want: hook},
		"no port":          {text: "prod/hook", wantErr: true},
		"port by name":     {text: "prod/hook:https", wantErr: true},
		"port zero":        {text: "prod/hook:0", wantErr: true},
		"port too big":     {text: "prod/hook:65536", wantErr: true},
		"no namespace":     {text: "hook:443", wantErr: true},
		"empty namespace":  {text: "/hook:443", wantErr: true},
		"empty name":       {text: "prod/:443", wantErr: true},
		"nothing whatever": {text: "", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseService(tc.text)
			assert.Equal(t, tc.wantErr, err != nil, "%v", err)
			assert.Equal(t, tc.want, got)
			if !tc.wantErr {
				assert.Equal(t, tc.text, got.String())
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "routes.json")
	for name, routes := range map[string]Routes{"memory": NewRoutes(), "file": FileRoutes(path)} {
		t.Run(name, func(t *testing.T) {
			address := func() string {
				got, err := routes.Address(hook)
				require.NoError(t, err)
				return got
			}
			assert.Empty(t, address())
			require.NoError(t, routes.Set(hook, "127.0.0.1:1"))
			require.NoError(t, routes.Set(hook, "127.0.0.1:2"))
			assert.Equal(t, "127.0.0.1:2", address())
			assert.ErrorContains(t, routes.Set(hook, "127.0.0.1"), "no address to route to")
			assert.Equal(t, "127.0.0.1:2", address())
			require.NoError(t, routes.Set(hook, ""))
			assert.Empty(t, address())
		})
	}
}

func TestFileRoutesKeepEveryWritersRoute(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes.json")
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			service := hook
			service.Name = fmt.Sprintf("hook-%d", i)
			assert.NoError(t, FileRoutes(path).Set(service, "127.0.0.1:1"))
		})
	}
	writers.Wait()
	got, err := file(path).read()
	require.NoError(t, err)
	assert.Len(t, got, 20)
}

func TestFileRoutesRefuseGarbage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes.json")
	require.NoError(t, os.WriteFile(path, []byte("["), 0o600))
	_, err := FileRoutes(path).Address(hook)
	assert.ErrorContains(t, err, "correct or delete it")
	assert.Error(t, FileRoutes(path).Set(hook, "127.0.0.1:1"))
}

func TestResolver(t *testing.T) {
	ctx := t.Context()
	client := fake.NewClientset(service("prod", "hook", "10.96.0.7"), service("prod", "other", "10.96.0.8"))
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	resolver := NewResolver(client.CoreV1(), clk)

	name, err := resolver.Service(ctx, "10.96.0.7")
	require.NoError(t, err)
	assert.Equal(t, hook.NamespacedName, name)
	_, err = resolver.Service(ctx, "10.96.0.9")
	require.ErrorContains(t, err, "no Service has cluster IP 10.96.0.9")

	require.NoError(t, client.CoreV1().Services("prod").Delete(ctx, "hook", metav1.DeleteOptions{}))
	_, err = resolver.Service(ctx, "10.96.0.7")
	assert.NoError(t, err, "still remembered")
	clk.SetTime(clk.Now().Add(resolved))
	_, err = resolver.Service(ctx, "10.96.0.7")
	assert.Error(t, err, "forgotten")

	client.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("down")
	})
	_, err = resolver.Service(ctx, "10.96.0.8")
	assert.ErrorContains(t, err, "services cannot be listed")
}

func service(namespace, name, clusterIP string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP},
	}
}

// serve runs a proxy on a Unix socket and returns its path.
func serve(ctx context.Context, t *testing.T, routes Routes) string {
	t.Helper()
	client := fake.NewClientset(service("prod", "hook", "10.96.0.7"))
	proxy := New(NewResolver(client.CoreV1(), clocktesting.NewFakePassiveClock(time.Unix(0, 0))), routes)
	dir, err := os.MkdirTemp("", "egress")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- proxy.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	return socket
}

// echo is an upstream that sends everything back.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func request(t *testing.T, socket, line string) (net.Conn, *http.Response) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", line)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	require.NoError(t, err)
	return conn, response
}

func TestProxy(t *testing.T) {
	upstream := echo(t)
	routes := NewRoutes()
	require.NoError(t, routes.Set(hook, upstream))
	socket := serve(t.Context(), t, routes)

	cases := map[string]struct {
		line       string
		want       int
		wantReason string
	}{
		"a Service with a route":  {line: "CONNECT 10.96.0.7:443", want: http.StatusOK},
		"loopback as it is":       {line: "CONNECT " + upstream, want: http.StatusOK},
		"a port without a route":  {line: "CONNECT 10.96.0.7:8443", want: http.StatusBadGateway, wantReason: "prod/hook:8443 has no route"},
		"no such Service":         {line: "CONNECT 10.96.0.9:443", want: http.StatusBadGateway, wantReason: "no Service has cluster IP"},
		"an address elsewhere":    {line: "CONNECT 192.0.2.1:443", want: http.StatusBadGateway, wantReason: "no Service has cluster IP"},
		"anything except CONNECT": {line: "GET /", want: http.StatusMethodNotAllowed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			conn, response := request(t, socket, tc.line)
			require.Equal(t, tc.want, response.StatusCode)
			assert.Contains(t, response.Status, tc.wantReason)
			if tc.want != http.StatusOK {
				return
			}
			_, err := io.WriteString(conn, "hello")
			require.NoError(t, err)
			require.NoError(t, conn.(*net.UnixConn).CloseWrite())
			got, err := io.ReadAll(conn)
			require.NoError(t, err)
			assert.Equal(t, "hello", string(got))
		})
	}
}

func TestProxyCutsTunnelsAtItsEnd(t *testing.T) {
	routes := NewRoutes()
	require.NoError(t, routes.Set(hook, echo(t)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn, response := request(t, serve(ctx, t, routes), "CONNECT 10.96.0.7:443")
	require.Equal(t, http.StatusOK, response.StatusCode)
	cancel()
	_, err := conn.Read(make([]byte, 1))
	assert.Error(t, err)
}
