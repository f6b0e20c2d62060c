package v1alpha1

// ConditionReady is the one condition type that users read first.
const ConditionReady = "Ready"

// Reasons of verdicts, the same word in condition, event, log, metric, HTTP body and CLI.
const (
	ReasonAllChecksApproved = "AllChecksApproved"
	ReasonNoChecksNeeded    = "NoChecksNeeded"

	ReasonUnauthenticated = "Unauthenticated"

	ReasonNotPermitted   = "NotPermitted"
	ReasonNoRequest      = "NoRequest"
	ReasonChecksPending  = "ChecksPending"
	ReasonNotYetValid    = "NotYetValid"
	ReasonOutsideRequest = "OutsideRequest"
	ReasonChecksRejected = "ChecksRejected"
	ReasonRevoked        = "Revoked"
	ReasonExpired        = "Expired"
	ReasonContextEnded   = "ContextEnded"
	ReasonRulesChanged   = "RulesChanged"
	ReasonObjectChanged  = "ObjectChanged"
	ReasonObjectGone     = "ObjectGone"
	ReasonRuleNotReady   = "RuleNotReady"
	ReasonError          = "Error"
	ReasonNoRules        = "NoRules"
	ReasonNoApplicable   = "NoApplicableRule"

	ReasonConnectorUnknown = "ConnectorUnknown"

	ReasonToolUnreachable = "ToolUnreachable"
	ReasonToolRefused     = "ToolRefused"
	ReasonToolTimeout     = "ToolTimeout"

	ReasonNotReady      = "NotReady"
	ReasonStale         = "Stale"
	ReasonUnguarded     = "Unguarded"
	ReasonOriginPending = "OriginPending"

	// ReasonInvalidRequest is a request that cannot be classified or forwarded as it stands (400).
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonFollowing marks a request that shows the answer of an equal one.
	ReasonFollowing = "Following"
)

// Reasons of Ready=False on rules, check kinds and connectors.
const (
	ReasonReady                   = "Ready"
	ReasonUnknownCheckKind        = "UnknownCheckKind"
	ReasonInvalidTemplate         = "InvalidTemplate"
	ReasonDryRunUnsupported       = "DryRunUnsupported"
	ReasonObjectMissing           = "ObjectMissing"
	ReasonNotInstalled            = "NotInstalled"
	ReasonForbidden               = "Forbidden"
	ReasonStatusUnguarded         = "StatusUnguarded"
	ReasonInvalidExpression       = "InvalidExpression"
	ReasonSecretMissing           = "SecretMissing"
	ReasonSecretInvalid           = "SecretInvalid"
	ReasonCredentialReachesGuards = "CredentialReachesGuards"
	ReasonInvalidSpec             = "InvalidSpec"
)
