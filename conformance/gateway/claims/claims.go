// Package claims is what Fairway says of itself to the conformance suite of Gateway API: who it is, its profiles, and each
// feature by its name, so that a feature of a later suite is claimed when somebody writes it down. It runs nothing.
package claims

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// GatewayClass is the class of the chart.
const GatewayClass = "fairway"

// Implementation is the head of a report; its version comes from Cargo.toml. A report that is handed in needs a URL and a
// contact that can be reached: the suite's flags --url and --contact replace these.
var Implementation = confv1.Implementation{
	Organization: "fairway",
	Project:      "fairway",
	URL:          notPublished,
	Contact:      []string{"not published yet"},
}

// Profiles are run and reported.
var Profiles = []suite.ConformanceProfile{
	suite.GatewayHTTPConformanceProfile,
	suite.GatewayGRPCConformanceProfile,
	suite.GatewayTLSConformanceProfile,
	suite.GatewayTCPConformanceProfile,
	suite.GatewayUDPConformanceProfile,
}

// Features are the core of the profiles and what extends them, as the release of this suite names it.
var Features = append(releaseFeatures, commonFeatures...)

// commonFeatures are those that the suites of all releases here name alike.
var commonFeatures = []features.FeatureName{
	// Core.
	"Gateway",
	"GRPCRoute",
	"HTTPRoute",
	"ReferenceGrant",
	"TLSRoute",
	// Core, and among what extends the profiles of their names.
	"TCPRoute",
	"UDPRoute",

	// Gateways, in all profiles.
	"GatewayAddressEmpty",
	"GatewayBackendClientCertificate",
	"GatewayFrontendClientCertificateValidation",
	"GatewayFrontendClientCertificateValidationInsecureFallback",
	"GatewayHTTPListenerIsolation",
	"GatewayHTTPSListenerDetectMisdirectedRequests",
	"GatewayInfrastructure",
	"GatewayPort8080",
	"GatewayStaticAddresses",
	"ListenerSet",

	// GATEWAY-HTTP.
	"BackendTLSPolicy",
	"BackendTLSPolicySANValidation",
	"HTTPRoute303RedirectStatusCode",
	"HTTPRoute307RedirectStatusCode",
	"HTTPRoute308RedirectStatusCode",
	"HTTPRouteBackendProtocolH2C",
	"HTTPRouteBackendProtocolWebSocket",
	"HTTPRouteBackendRequestHeaderModification",
	"HTTPRouteBackendTimeout",
	"HTTPRouteCORS",
	"HTTPRouteDestinationPortMatching",
	"HTTPRouteHostRewrite",
	"HTTPRouteMethodMatching",
	"HTTPRouteNamedRouteRule",
	"HTTPRouteParentRefPort",
	"HTTPRoutePathRedirect",
	"HTTPRoutePathRewrite",
	"HTTPRoutePortRedirect",
	"HTTPRouteQueryParamMatching",
	"HTTPRouteRequestMirror",
	"HTTPRouteRequestMultipleMirrors",
	"HTTPRouteRequestPercentageMirror",
	"HTTPRouteRequestTimeout",
	"HTTPRouteResponseHeaderModification",
	"HTTPRouteRetryConnectionError",
	"HTTPRouteSchemeRedirect",

	// GATEWAY-TLS.
	"TLSRouteModeMixed",
	"TLSRouteModeTerminate",

	// In no profile of this suite.
	"GRPCRouteNamedRouteRule",
}

// Outside says whether a test is run and yet counted in no profile, because none has all features that the test needs.
func Outside(test suite.ConformanceTest) bool {
	counted := func(profile suite.ConformanceProfile) bool {
		return profile.CoreFeatures.Union(profile.ExtendedFeatures).HasAll(test.Features...)
	}
	return sets.New(Features...).HasAll(test.Features...) && !slices.ContainsFunc(Profiles, counted)
}

// Published are all features that Fairway's GatewayClass names: those of this suite and those that other releases name otherwise.
func Published() []features.FeatureName {
	return slices.Sorted(slices.Values(slices.Concat(Features, otherReleases)))
}

// Quick are tests that together touch each kind and each way to an endpoint, and take less than five minutes.
var Quick = []string{
	"BackendTLSPolicy",
	"GatewayHTTPListenerIsolation",
	"GatewayInfrastructureMetadata",
	"GatewayInvalidTLSConfiguration",
	"GatewayModifyListeners",
	"GatewayStaticAddresses",
	"GRPCExactMethodMatching",
	"GRPCRouteWeight",
	"HTTPRouteBackendProtocolH2C",
	"HTTPRouteBackendProtocolWebSocket",
	"HTTPRouteCORS",
	"HTTPRouteCrossNamespace",
	"HTTPRouteHTTPSListener",
	"HTTPRouteHTTPSListenerDetectMisdirectedRequests",
	"HTTPRouteInvalidNonExistentBackendRef",
	"HTTPRouteMatching",
	"HTTPRouteMatchingAcrossRoutes",
	"HTTPRouteRedirectHostAndStatus",
	"HTTPRouteReferenceGrant",
	"HTTPRouteRequestMirror",
	"HTTPRouteRewritePath",
	"HTTPRouteSimpleSameNamespace",
	"HTTPRouteWeight",
	"ListenerSetHTTPRouting",
	"TLSRouteMixedTerminationSameNamespace",
	"TLSRouteSimpleSameNamespace",
	"TLSRouteTerminateSimpleSameNamespace",
	"TCPRouteMultipleRoutesAttachment",
	"TCPRouteReferenceGrant",
	"UDPRoute",
	"UDPRouteMultipleRoutesAttachment",
	"UDPRouteReferenceGrant",
}
