package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const contextAdmin = "admin"

// throughProxy are the people who also have a context that goes through the proxy's connector prod-k8s.
func throughProxy() []string { return []string{"developer", "intruder"} }

// writeKubeconfig gives the administrator and each person a context.
func (e *environment) writeKubeconfig() error {
	admin := e.cluster.Admin()
	config := clientcmdapi.NewConfig()
	config.CurrentContext = contextAdmin
	e.addContext(config, contextAdmin, admin.Host, &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}, "")
	for _, who := range people() {
		login := &clientcmdapi.AuthInfo{Token: e.tokens[who.name]}
		e.addContext(config, who.name, admin.Host, login, who.home)
		if slices.Contains(throughProxy(), who.name) {
			e.addContext(config, "prod-k8s-"+who.name, e.at.proxyURL()+"/namespaces/prod/connectors/prod-k8s", login, "prod-apps")
		}
	}
	return clientcmd.WriteToFile(*config, e.kubeconfig())
}

// addContext adds a cluster, a user and a context, all of one name. Every server here has a certificate of the
// environment's own authority.
func (e *environment) addContext(config *clientcmdapi.Config, name, server string, login *clientcmdapi.AuthInfo, namespace string) {
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: e.cluster.CA().CertPEM()}
	config.AuthInfos[name] = login
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
}

// writeEnv writes the shell file that says where everything is.
func (e *environment) writeEnv() error {
	var lines strings.Builder
	for _, v := range [][2]string{
		{"KUBECONFIG", e.kubeconfig()},
		{"PROXY_URL", e.at.proxyURL()},
		{"PROXY_HOST", e.at.proxy},
		{"PROXY_CA", e.ca()},
		{"PROXY_AUDIENCE", proxyAudience},
		{"ISSUER_URL", e.cluster.Issuer().URL()},
		{"REGISTRY_URL", e.at.registryURL()},
		{"CONTROLLER_HEALTH_URL", "http://" + e.at.controllerHealth + "/readyz"},
		{"CONTROLLER_METRICS_URL", "http://" + e.at.controllerMetrics + "/metrics"},
		{"PROXY_HEALTH_URL", "http://" + e.at.proxyHealth + "/readyz"},
		{"PROXY_METRICS_URL", "http://" + e.at.proxyHealth + "/metrics"},
	} {
		fmt.Fprintf(&lines, "export %s=%s\n", v[0], quote(v[1]))
	}
	fmt.Fprintf(&lines, "export PATH=%s:\"$PATH\"\n", quote(e.bin("")))
	return os.WriteFile(e.envFile(), []byte(lines.String()), 0o600)
}

// quote makes one shell word of a text; plain texts stay readable.
func quote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
