package v1alpha1

// Whose the Release kinds of a cluster are stands in a label of their definitions: on ours LabelPartOf has the value PartOf.
// Only of ours is the status guarded, and written by Countersign.
const (
	DefinitionReleases     = "releases.appstudio.redhat.com"
	DefinitionReleasePlans = "releaseplans.appstudio.redhat.com"

	LabelPartOf = "app.kubernetes.io/part-of"
	PartOf      = "countersign"
)

// Labels and annotations of the pipeline runs that Releases start. They serve people, lists and the tasks of the run;
// nothing is decided by them but which run of our own making is whose.
const (
	// LabelReleaseNamespace, LabelReleaseName and LabelReleaseUID say which Release a run belongs to; names that are no
	// label value are encoded as by attribution.LabelValue.
	LabelReleaseNamespace = "attribution.alaudadevops.io/release-namespace"
	LabelReleaseName      = "attribution.alaudadevops.io/release-name"
	LabelReleaseUID       = "attribution.alaudadevops.io/release-uid"
	// AnnotationReleaseAuthor is the exact name of who answers for the run's Release.
	AnnotationReleaseAuthor = "attribution.alaudadevops.io/release-author"
	// AnnotationReleaseStanding is "true" if the author stands on the plan, "false" if he made the Release.
	AnnotationReleaseStanding = "attribution.alaudadevops.io/release-standing"
	// AnnotationReleaseVerified is "true": no run starts for an author who was not verified.
	AnnotationReleaseVerified = "attribution.alaudadevops.io/release-verified"
)

// Parameters that the run of a Release gets. Objects are given as namespace/name; the policy is the name that the admission
// or strategy has.
const (
	ParamRelease              = "release"
	ParamReleasePlan          = "releasePlan"
	ParamReleasePlanAdmission = "releasePlanAdmission"
	ParamSnapshot             = "snapshot"
	ParamPolicy               = "policy"
	ParamOciStorage           = "ociStorage"
	ParamAttributionAuthor    = "attributionAuthor"
	ParamAttributionStanding  = "attributionStanding"
	ParamAttributionVerified  = "attributionVerified"
)
