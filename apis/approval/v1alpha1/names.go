package v1alpha1

// Labels and annotations that the server sets. Decisions read specs and guarded status, never these; they
// serve people, lists and selectors.
const (
	// LabelFingerprint carries a request's fingerprint.
	LabelFingerprint = "approval.alaudadevops.io/resourcecheckrequest.fingerprint"
	// LabelObjectKind and LabelObjectName name the protected object on rules and requests.
	LabelObjectKind = "approval.alaudadevops.io/objectKind"
	LabelObjectName = "approval.alaudadevops.io/objectName"
	// LabelRequestUID is on every check of any kind: the UID of the request that asks.
	LabelRequestUID = "approval.alaudadevops.io/request-uid"
	// AnnotationContext is on every check of any kind: CheckContext as JSON.
	AnnotationContext = "approval.alaudadevops.io/context"
	// AnnotationCreatedBy is the exact name of the user who created an object.
	AnnotationCreatedBy = "attribution.alaudadevops.io/created-by"
	// AnnotationCreatedFor is the UID of the controller owner that the object had when it was created.
	AnnotationCreatedFor = "attribution.alaudadevops.io/created-for"
	// AnnotationChangedBy is the exact name of the user who set the present spec.
	AnnotationChangedBy = "attribution.alaudadevops.io/changed-by"
	// LabelTektonPipelineRun and LabelTektonTaskRun name the run on requests with a Tekton context.
	LabelTektonPipelineRun = "tekton.dev/pipelineRun"
	LabelTektonTaskRun     = "tekton.dev/taskRun"
)

// AuthorityGroup is the virtual API group of the verbs that RBAC conveys cluster-wide only.
const AuthorityGroup = "authority.alaudadevops.io"

// Verbs and the resources of AuthorityGroup (unless said otherwise) that they are checked on.
const (
	// VerbDecide on ResourceChecks: write the status of checks, create checks.
	VerbDecide     = "decide"
	ResourceChecks = "checks"
	// VerbPurge on ResourceEvidence: delete checks, answers and decided requests.
	VerbPurge        = "purge"
	ResourceEvidence = "evidence"
	// VerbMint on ResourceTokens: mint tokens for the proxy's audience.
	VerbMint       = "mint"
	ResourceTokens = "tokens"
	// VerbRequestFor on serviceaccounts of AuthorityGroup, in the service account's namespace.
	VerbRequestFor          = "request-for"
	ResourceServiceAccounts = "serviceaccounts"
	// VerbUse on checkkinds, VerbRevoke on resourcecheckrules: in the rule's namespace.
	VerbUse    = "use"
	VerbRevoke = "revoke"
	// VerbRequest on a protected object that is no Connector.
	VerbRequest = "request"
)

// ReservedNamePrefix begins the names that only the server gives to requests.
const ReservedNamePrefix = "rcr-"
