//go:build !next

package claims

import "sigs.k8s.io/gateway-api/pkg/features"

// notPublished stands for the URL of the project.
const notPublished = "not published yet"

// releaseFeatures are what only v1.6 names so.
var releaseFeatures = []features.FeatureName{
	"HTTPRouteRetry",
	"HTTPRouteRetryBackendTimeout",
}

// otherReleases are names of v1.7.
var otherReleases = []features.FeatureName{
	"GRPCRouteRequestHeaderModifier",
	"GatewayRouteHostnameIntersectionPrecedence",
	"HTTPRouteBackendURLRewrite",
	"HTTPRouteRetryCodes",
}

// notServed are extended features of the profiles that Fairway does not serve.
var notServed []features.FeatureName

// extendedCounts are how many extended features each profile has.
var extendedCounts = []int{38, 10, 12, 11, 11}

// countedInNoProfile are the tests that run and that no profile counts. HTTPRouteDisallowedKind needs HTTPRoute and TLSRoute,
// which no profile has together.
var countedInNoProfile = []string{"GRPCRouteNamedRule", "HTTPRouteDisallowedKind"}
