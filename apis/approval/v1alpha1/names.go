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
	// AnnotationMigratedBy is who assigned AnnotationCreatedBy to an object that was older than the records. Such a
	// record informs people; it proves no origin.
	AnnotationMigratedBy = "attribution.alaudadevops.io/migrated-by"
	// AnnotationAuthor is the exact name of the author of a Release or ReleasePlan.
	AnnotationAuthor = "attribution.alaudadevops.io/author"
	// AnnotationStanding is on a Release what it stands on and on a ReleasePlan who stands for it: JSON of
	// attribution.Standing. Set by admission.
	AnnotationStanding = "attribution.alaudadevops.io/standing"
	// AnnotationAutomated is on a Release the exact name of the service account that set the label automated, which it
	// may. Set by admission.
	AnnotationAutomated = "attribution.alaudadevops.io/automated-by"
	// AnnotationProposed names the person whom a robot proposes as standing author of a ReleasePlan.
	AnnotationProposed = "attribution.alaudadevops.io/proposed-author"
	// AnnotationAccept is sent by the person who accepts: "true", or the time in RFC 3339 at which it ends. Admission
	// takes it up and removes it.
	AnnotationAccept = "attribution.alaudadevops.io/accept"
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
	// VerbMigrate on ResourceCreators: assign creators to objects that are older than the records.
	VerbMigrate      = "migrate"
	ResourceCreators = "creators"
	// VerbWhois on ResourcePeople: ask the directory about any user name.
	VerbWhois      = "whois"
	ResourcePeople = "people"
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
