package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/issuer"
)

// personTTL is how long people's tokens last; up replaces those whose better half is over.
const personTTL = 24 * time.Hour

type person struct {
	name   string
	groups []string
	// home is the namespace that the person's kubeconfig context begins in.
	home string
}

// people returns everybody who has a token from the start.
func people() []person {
	developers, owners := []string{"developers"}, []string{"prod-owners"}
	return []person{
		{name: "developer", groups: developers, home: "team-a"},
		{name: "intruder", groups: developers, home: "team-a"},
		{name: "owner1", groups: owners, home: "prod"},
		{name: "owner2", groups: owners, home: "prod"},
		{name: "leaver", groups: developers, home: "team-a"},
	}
}

// groupsOf returns a person's usual groups; who is not listed has none.
func groupsOf(name string) []string {
	for _, p := range people() {
		if p.name == name {
			return p.groups
		}
	}
	return nil
}

// email is the user name of a person; a name that is an address stays as it is.
func email(name string) string {
	if strings.Contains(name, "@") {
		return name
	}
	return name + "@example.com"
}

// mint returns a fresh token that the API server and the proxy accept.
func mint(from *issuer.Issuer, name string, groups []string, ttl time.Duration) (string, error) {
	return from.Mint(issuer.Claims{
		Subject:  env.Subject(email(name)),
		Email:    email(name),
		Name:     name,
		Groups:   groups,
		Audience: []string{env.ClientID},
		TTL:      ttl,
	})
}

// personToken returns the person's token in its file, which is made anew when it ends soon.
func (p place) personToken(from *issuer.Issuer, who person, clk clock.PassiveClock) (string, error) {
	path := p.token(who.name)
	return keptToken(path, clk.Now().Add(personTTL/2), func() (string, error) {
		return mint(from, who.name, who.groups, personTTL)
	})
}

// keptToken returns the token in the file if it lives beyond the time, and else puts a new one there.
func keptToken(path string, beyond time.Time, renew func() (string, error)) (string, error) {
	if token, err := os.ReadFile(path); err == nil && livesBeyond(string(token), beyond) {
		return string(token), nil
	}
	token, err := renew()
	if err != nil {
		return "", fmt.Errorf("no token for %s: %w", path, err)
	}
	return token, os.WriteFile(path, []byte(token), 0o600)
}

// livesBeyond reads a token that this program keeps itself, so its signature does not matter.
func livesBeyond(token string, end time.Time) bool {
	claims := jwt.RegisteredClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil {
		return false
	}
	return claims.ExpiresAt != nil && claims.ExpiresAt.After(end)
}
