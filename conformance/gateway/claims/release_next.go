//go:build next

package claims

import "sigs.k8s.io/gateway-api/pkg/features"

// notPublished stands for the URL of the project. This suite runs only for an absolute one.
const notPublished = "https://not-published-yet.invalid"

// releaseFeatures are what only v1.7 names so.
var releaseFeatures = []features.FeatureName{
	"GRPCRouteRequestHeaderModifier",
	"GatewayRouteHostnameIntersectionPrecedence",
	"HTTPRouteBackendURLRewrite",
	"HTTPRouteRetryCodes",
}

// otherReleases are names of v1.6.
var otherReleases = []features.FeatureName{
	"HTTPRouteRetry",
	"HTTPRouteRetryBackendTimeout",
}

// notServed are extended features of the profiles that Fairway does not serve. All are of the experimental channel.
var notServed = []features.FeatureName{
	"ClusterTrustBundle",
	"GatewayAddressRoutability",
	"GatewayAddressRoutabilityCluster",
	"GatewayListenerFilters",
}

// extendedCounts are how many extended features each profile has.
var extendedCounts = []int{43, 17, 19, 16, 16}

// countedInNoProfile are the tests that run and that no profile counts.
var countedInNoProfile = []string{"GRPCRouteNamedRule", "GRPCRouteRequestHeaderModifier", "HTTPRouteDisallowedKind"}
