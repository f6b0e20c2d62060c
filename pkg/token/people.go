package token

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	authenticationtokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Where an issuer says that claims are kept elsewhere (OpenID Connect Core 1.0 section 5.6.2).
const (
	claimNames   = "_claim_names"
	claimSources = "_claim_sources"
)

// claims are all claims of a person's token, by exact name.
type claims map[string]json.RawMessage

func (c claims) text(name string) (string, *Error) {
	raw, ok := c[name]
	if !ok {
		return "", refuse("the token has no claim %s, which the configuration of its issuer needs; ask the issuer's administrator to add it", quoted(name))
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", refuse("the token's claim %s is not a string; ask the issuer's administrator", quoted(name))
	}
	return s, nil
}

// person is one token on its way to an identity.
type person struct {
	*peopleIssuer
	ctx    context.Context
	jti    string
	claims claims
	values traits.Mapper // the claims as CEL sees them
	info   user.DefaultInfo
}

// identity maps a token's claims as the API server does (KEP-3331), and then refuses what only the
// cluster's issuer may say.
func (p *peopleIssuer) identity(ctx context.Context, t *compact) (*Identity, *Error) {
	who := &person{peopleIssuer: p, ctx: ctx, jti: string(t.claims.ID)}
	if err := unmarshalObject(t.payload, &who.claims); err != nil {
		return nil, errGarbled("unreadable payload", err)
	}
	who.values = claimValues(who.claims)
	steps := []func() *Error{
		who.checkElsewhere, who.mapUsername, who.mapGroups, who.mapUID, who.mapExtra,
		who.checkRequiredClaims, who.checkClaimRules, who.checkUserRules, who.refuseReserved,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	id := &Identity{Issuer: t.claims.Issuer, JTI: who.jti, Expiry: t.claims.Expiry.Time}
	id.take(&who.info)
	return id, nil
}

func (p *peopleIssuer) audienceHint(_ *compact, audience string) string {
	return "sign in again for client " + quoted(audience)
}

func (w *person) mapUsername() (err *Error) {
	mapping := w.jwt.ClaimMappings.Username
	if w.cel.Username != nil {
		w.info.Name, err = w.evalText(w.cel.Username, "username")
	} else {
		w.info.Name, err = w.claims.text(mapping.Claim)
	}
	switch {
	case err != nil:
		return err
	case w.info.Name == "":
		return refuse("the token yields an empty user name; ask the issuer's administrator")
	case mapping.Claim == "email":
		err = w.checkEmailVerified()
	}
	if mapping.Prefix != nil {
		w.info.Name = *mapping.Prefix + w.info.Name
	}
	return err
}

// checkEmailVerified refuses an e-mail address that its issuer says is not verified; one that it says
// nothing about passes, as at the API server.
func (w *person) checkEmailVerified() *Error {
	raw, ok := w.claims["email_verified"]
	if !ok {
		return nil
	}
	var verified bool
	if err := json.Unmarshal(raw, &verified); err != nil || !verified {
		return refuse("the token's e-mail address is not verified; verify it with your sign-in and get a new token")
	}
	return nil
}

func (w *person) mapGroups() *Error {
	mapping := w.jwt.ClaimMappings.Groups
	if w.cel.Groups != nil {
		groups, err := w.evalTexts(w.cel.Groups, "groups")
		w.info.Groups = groups
		return err
	}
	if mapping.Claim == "" {
		return nil
	}
	raw, ok := w.claims[mapping.Claim]
	if !ok {
		return nil
	}
	var groups stringList
	if err := json.Unmarshal(raw, &groups); err != nil {
		return refuse("the token's claim %s is neither a string nor a list of strings; ask the issuer's administrator", quoted(mapping.Claim))
	}
	for _, g := range groups {
		if mapping.Prefix != nil {
			g = *mapping.Prefix + g
		}
		w.info.Groups = append(w.info.Groups, g)
	}
	return nil
}

// checkElsewhere refuses a token whose groups stand on another server: the API server would fetch them,
// so going on without would be another identity. Unreadable references are refused there too.
func (w *person) checkElsewhere() *Error {
	var names map[string]string
	var sources map[string]json.RawMessage
	if !w.optional(claimNames, &names) || !w.optional(claimSources, &sources) {
		return errGarbled("unreadable references to claims on other servers", nil)
	}
	for _, source := range names {
		if _, ok := sources[source]; !ok {
			return errGarbled("a reference to claims on no server", nil)
		}
	}
	wanted := w.jwt.ClaimMappings.Groups.Claim
	_, here := w.claims[wanted]
	if _, elsewhere := names[wanted]; here || !elsewhere {
		return nil
	}
	return refuse("the token leaves its claim %s to another server, which this proxy does not ask; ask the issuer's administrator to put it into the token", quoted(wanted))
}

// optional reads a claim if it is there; false says that it is there and cannot be read.
func (w *person) optional(claim string, into any) bool {
	raw, ok := w.claims[claim]
	return !ok || json.Unmarshal(raw, into) == nil
}

func (w *person) mapUID() (err *Error) {
	switch mapping := w.jwt.ClaimMappings.UID; {
	case mapping.Claim != "":
		w.info.UID, err = w.claims.text(mapping.Claim)
	case w.cel.UID != nil:
		w.info.UID, err = w.evalText(w.cel.UID, "uid")
	}
	return err
}

func (w *person) mapExtra() *Error {
	w.info.Extra = map[string][]string{}
	if w.jti != "" {
		w.info.Extra[user.CredentialIDKey] = []string{authenticationtokenjwt.CredentialIDForJTI(w.jti)}
	}
	if w.cel.Extra == nil {
		return nil
	}
	results, err := w.cel.Extra.EvalClaimMappings(w.ctx, w.values)
	if err != nil {
		return errExpression("claimMappings.extra", err)
	}
	for _, r := range results {
		values, err := texts(r.EvalResult)
		mapping, ok := r.ExpressionAccessor.(*authenticationcel.ExtraMappingExpression)
		if err != nil || !ok {
			return errExpression("claimMappings.extra", err)
		}
		if len(values) > 0 {
			w.info.Extra[mapping.Key] = values
		}
	}
	return nil
}

func (w *person) checkRequiredClaims() *Error {
	for _, rule := range w.jwt.ClaimValidationRules {
		if rule.Claim == "" {
			continue
		}
		value, err := w.claims.text(rule.Claim)
		if err != nil {
			return err
		}
		if value != rule.RequiredValue {
			return refuse("the token's claim %s is %s and not %s, as the configuration of its issuer requires; sign in with another account",
				quoted(rule.Claim), quoted(value), quoted(rule.RequiredValue))
		}
	}
	return nil
}

func (w *person) checkClaimRules() *Error {
	if w.cel.ClaimValidationRules == nil {
		return nil
	}
	results, err := w.cel.ClaimValidationRules.EvalClaimMappings(w.ctx, w.values)
	return judge("claimValidationRules", results, err)
}

func (w *person) checkUserRules() *Error {
	if w.cel.UserValidationRules == nil {
		return nil
	}
	results, err := w.cel.UserValidationRules.EvalUser(w.ctx, userValues(&w.info))
	return judge("userValidationRules", results, err)
}

// judge refuses unless every rule was evaluated to true.
func judge(field string, results []authenticationcel.EvaluationResult, err error) *Error {
	if err != nil {
		return errExpression(field, err)
	}
	for _, r := range results {
		if r.EvalResult != types.True {
			return refuse("the token breaks a rule of its issuer's %s: %s; ask the administrator", field, ruleText(r.ExpressionAccessor))
		}
	}
	return nil
}

func ruleText(rule authenticationcel.ExpressionAccessor) string {
	switch r := rule.(type) {
	case *authenticationcel.ClaimValidationCondition:
		if r.Message != "" {
			return r.Message
		}
	case *authenticationcel.UserValidationCondition:
		if r.Message != "" {
			return r.Message
		}
	}
	return rule.GetExpression()
}

func (w *person) refuseReserved() *Error {
	if err := refuseReserved(w.info.Name); err != nil {
		return err
	}
	return refuseReserved(w.info.Groups...)
}

func (w *person) evalText(mapper authenticationcel.ClaimsMapper, field string) (string, *Error) {
	result, err := mapper.EvalClaimMapping(w.ctx, w.values)
	if err != nil {
		return "", errExpression("claimMappings."+field, err)
	}
	s, ok := result.EvalResult.(types.String)
	if !ok {
		return "", errExpression("claimMappings."+field, fmt.Errorf("the result is %s and not a string", result.EvalResult.Type().TypeName()))
	}
	return string(s), nil
}

func (w *person) evalTexts(mapper authenticationcel.ClaimsMapper, field string) ([]string, *Error) {
	result, err := mapper.EvalClaimMapping(w.ctx, w.values)
	if err != nil {
		return nil, errExpression("claimMappings."+field, err)
	}
	values, err := texts(result.EvalResult)
	if err != nil {
		return nil, errExpression("claimMappings."+field, err)
	}
	return values, nil
}

func errExpression(field string, cause error) *Error {
	return refuse("the expression in its issuer's %s cannot be evaluated on this token; ask the administrator", field).because(cause)
}
