package main

import (
	"context"
	"fmt"
	"net"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/AlaudaDevops/countersign/test/env"
)

const (
	namespaceSystem = "countersign-system"
	serviceWebhook  = "countersign-webhook"
	serviceProxy    = "countersign-proxy"
	proxyAudience   = "countersign-proxy"
	hostSuffix      = "connectors.local"

	// programTokenTTL is how long the programs' own tokens last; up replaces those whose better half is over,
	// and the programs read theirs again by themselves.
	programTokenTTL = 30 * 24 * time.Hour
)

func (e *environment) startController(ctx context.Context) error {
	if err := e.cluster.Route(namespaceSystem+"/"+serviceWebhook+":443", e.at.webhook); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(e.at.webhook)
	if err != nil {
		return err
	}
	directory, err := e.directoryConfig()
	if err != nil {
		return err
	}
	return e.run(ctx, nameController, e.at.controllerHealth,
		"--webhook-address="+host,
		"--webhook-port="+port,
		"--health-address="+e.at.controllerHealth,
		"--metrics-address="+e.at.controllerMetrics,
		"--proxy-url="+e.at.proxyURL(),
		"--archive="+e.archive(),
		"--epoch-settle=0s", // there is one API server
		"--directory-config="+directory,
		"--automated-service-accounts="+automatedAccount,
	)
}

func (e *environment) startProxy(ctx context.Context) error {
	if err := e.cluster.Route(namespaceSystem+"/"+serviceProxy+":443", e.at.proxy); err != nil {
		return err
	}
	cert, key, err := e.servingCertificate()
	if err != nil {
		return err
	}
	self, err := e.selfToken(ctx)
	if err != nil {
		return err
	}
	directory, err := e.proxyDirectory()
	if err != nil {
		return err
	}
	return e.run(ctx, nameProxy, e.at.proxyHealth,
		"--address="+e.at.proxy,
		"--health-address="+e.at.proxyHealth,
		"--tls-cert-file="+cert,
		"--tls-private-key-file="+key,
		"--authentication-config="+e.cluster.AuthenticationConfig(),
		"--audience="+proxyAudience,
		"--host-suffix="+hostSuffix,
		"--public-url="+e.at.proxyURL(),
		"--access-log="+e.accessLog(),
		"--self-token-file="+self,
		"--directory-config="+directory,
		"--drain-delay=0s", // no load balancer has to learn first that it ends
	)
}

// run starts one of Countersign's programs as its service account and waits until it is ready.
func (e *environment) run(ctx context.Context, name, health string, args ...string) error {
	if !exists(e.bin(name)) {
		return fmt.Errorf("%s is missing; build it with `make build`", e.bin(name))
	}
	kubeconfig, err := e.programKubeconfig(ctx, name)
	if err != nil {
		return err
	}
	return e.cluster.Run(ctx, env.Program{
		Name:  name,
		Path:  e.bin(name),
		Args:  append(args, e.settings.args(name)...),
		Env:   []string{clientcmd.RecommendedConfigPathEnvVar + "=" + kubeconfig},
		Ready: ready(health),
	})
}

// programKubeconfig lets the program act as its service account, by a token in a file of its own.
func (e *environment) programKubeconfig(ctx context.Context, name string) (string, error) {
	tokenFile, kubeconfig := e.conf(name+".token"), e.conf(name+".kubeconfig")
	_, err := keptToken(tokenFile, e.clock.Now().Add(programTokenTTL/2), func() (string, error) {
		return e.accountToken(ctx, namespaceSystem, "countersign-"+name, programTokenTTL)
	})
	if err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	e.addContext(config, name, e.cluster.Admin().Host, &clientcmdapi.AuthInfo{TokenFile: tokenFile}, "")
	config.CurrentContext = name
	return kubeconfig, clientcmd.WriteToFile(*config, kubeconfig)
}

// selfToken is the file of a token by which the proxy, at its start, compares its reading with the API server's.
func (e *environment) selfToken(ctx context.Context) (string, error) {
	path := e.conf(nameProxy + "-self.token")
	_, err := keptToken(path, e.clock.Now().Add(programTokenTTL/2), func() (string, error) {
		return e.accountToken(ctx, namespaceSystem, "countersign-"+nameProxy, programTokenTTL, proxyAudience)
	})
	return path, err
}

// accountToken returns a service account's token; without audiences it is one for the API server.
func (e *environment) accountToken(ctx context.Context, namespace, name string, ttl time.Duration, audiences ...string) (string, error) {
	answer, err := e.cluster.Client().CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: ptr.To(int64(ttl.Seconds()))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("service account %s/%s got no token: %w", namespace, name, err)
	}
	return answer.Status.Token, nil
}

// servingCertificate is kept: a new one at each up would part the proxy from clients that hold connections.
func (e *environment) servingCertificate() (certFile, keyFile string, err error) {
	certFile, keyFile = e.pki("proxy.crt"), e.pki("proxy.key")
	if exists(certFile) && exists(keyFile) {
		return certFile, keyFile, nil
	}
	names := []string{"localhost", "127.0.0.1", serviceProxy + "." + namespaceSystem + ".svc"}
	for _, namespace := range []string{"prod", "prod-apps", "team-a"} {
		names = append(names, "*."+namespace+"."+hostSuffix)
	}
	pair, err := e.cluster.CA().IssueServer(names...)
	if err != nil {
		return "", "", err
	}
	return pair.Write(e.pki(""), nameProxy)
}
