package token

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	apiserverv1beta1 "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
)

// reservedPrefix begins the names that the cluster gives to its own; nobody else may.
const reservedPrefix = "system:"

// Config says how people sign in: the checked jwt section of an AuthenticationConfiguration, with its
// expressions compiled.
type Config struct {
	issuers []*peopleIssuer
}

// peopleIssuer is one entry of the jwt section.
type peopleIssuer struct {
	jwt   apiserver.JWTAuthenticator
	cel   authenticationcel.CELMapper
	roots *x509.CertPool // nil: those of the host
}

// Issuers returns the issuer URLs in the file's order.
func (c *Config) Issuers() []string {
	urls := make([]string, 0, len(c.issuers))
	for _, p := range c.issuers {
		urls = append(urls, p.jwt.Issuer.URL)
	}
	return urls
}

// LoadConfig reads the file that the API server takes as --authentication-config, in
// apiserver.config.k8s.io v1 or v1beta1, and checks it as the API server does: unknown and repeated
// fields are errors. A setting that the proxy does not implement is an error too, because leaving it
// out in silence would accept whom the API server refuses, or the other way round.
func LoadConfig(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the authentication configuration: %w", err)
	}
	config, err := ParseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("authentication configuration %s: %w", path, err)
	}
	return config, nil
}

// ParseConfig is [LoadConfig] for the file's content.
func ParseConfig(data []byte) (*Config, error) {
	decoded, err := decodeConfig(data)
	if err != nil {
		return nil, err
	}
	if err := refuseUnimplemented(decoded); err != nil {
		return nil, err
	}
	compiler := authenticationcel.NewDefaultCompiler()
	if errs := validation.ValidateAuthenticationConfiguration(compiler, decoded, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	config := &Config{}
	for _, jwt := range decoded.JWT {
		p, err := newPeopleIssuer(compiler, jwt)
		if err != nil {
			return nil, err
		}
		config.issuers = append(config.issuers, p)
	}
	return config, nil
}

func newPeopleIssuer(compiler authenticationcel.Compiler, jwt apiserver.JWTAuthenticator) (*peopleIssuer, error) {
	mapper, errs := validation.CompileAndValidateJWTAuthenticator(compiler, jwt, nil)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	p := &peopleIssuer{jwt: jwt, cel: mapper}
	if pem := jwt.Issuer.CertificateAuthority; pem != "" {
		p.roots = x509.NewCertPool()
		if !p.roots.AppendCertsFromPEM([]byte(pem)) {
			return nil, fmt.Errorf("the certificateAuthority of issuer %s holds no certificate; give it in PEM", quoted(jwt.Issuer.URL))
		}
	}
	return p, nil
}

func decodeConfig(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiserver.AddToScheme, apiserverv1.AddToScheme, apiserverv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	object, err := runtime.Decode(codecs.UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	config, ok := object.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, errors.New("the file holds no AuthenticationConfiguration")
	}
	return config, nil
}

func refuseUnimplemented(c *apiserver.AuthenticationConfiguration) error {
	if c.Anonymous != nil && c.Anonymous.Enabled {
		return errors.New("anonymous.enabled is true, but the proxy never serves anonymous callers; set it to false or leave anonymous out of the proxy's copy")
	}
	for i, jwt := range c.JWT {
		if err := refuseUnimplementedIssuer(jwt); err != nil {
			return fmt.Errorf("jwt[%d].%w", i, err)
		}
	}
	return nil
}

func refuseUnimplementedIssuer(jwt apiserver.JWTAuthenticator) error {
	if jwt.Issuer.EgressSelectorType != "" {
		return errors.New("issuer.egressSelectorType is set, but the proxy has no egress selector; leave it out of the proxy's copy and let the proxy reach the issuer directly")
	}
	if err := refuseReservedPrefix("username", jwt.ClaimMappings.Username.Prefix); err != nil {
		return err
	}
	return refuseReservedPrefix("groups", jwt.ClaimMappings.Groups.Prefix)
}

func refuseReservedPrefix(field string, prefix *string) error {
	if prefix == nil || !strings.HasPrefix(*prefix, reservedPrefix) {
		return nil
	}
	return fmt.Errorf("claimMappings.%s.prefix begins with %q, which the proxy accepts from the cluster only; choose another prefix", field, reservedPrefix)
}
