package claims

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

func TestTheFeaturesAreThoseOfTheProfilesAndOfGRPCRoute(t *testing.T) {
	// Of GRPCRoute's own extended features, no profile has any.
	wanted := features.SetsToNamesSet(features.GRPCRouteExtendedFeatures)
	for _, profile := range Profiles {
		wanted = wanted.Union(profile.CoreFeatures).Union(profile.ExtendedFeatures)
	}
	if unknown := sets.New(notServed...).Difference(wanted); unknown.Len() > 0 {
		t.Errorf("not served, and in none of the profiles: %v", sets.List(unknown))
	}
	wanted.Delete(notServed...)
	claimed := sets.New(Features...)
	if claimed.Len() != len(Features) {
		t.Errorf("%d names for %d features", len(Features), claimed.Len())
	}
	if missing := wanted.Difference(claimed); missing.Len() > 0 {
		t.Errorf("not claimed: %v", sets.List(missing))
	}
	if more := claimed.Difference(wanted); more.Len() > 0 {
		t.Errorf("claimed, and in none of the profiles: %v", sets.List(more))
	}
}

func TestTheProfilesHaveAsManyExtendedFeaturesAsIsSaid(t *testing.T) {
	// docs/conformance.md says so of v1.6.3.
	for index, count := range extendedCounts {
		if got := Profiles[index].ExtendedFeatures.Len(); got != count {
			t.Errorf("%s has %d extended features, not %d", Profiles[index].Name, got, count)
		}
	}
}

func TestTheQuickSelectionIsOfTestsThatRun(t *testing.T) {
	claimed := sets.New(Features...)
	covered := sets.New[features.FeatureName]()
	for _, name := range Quick {
		index := slices.IndexFunc(tests.ConformanceTests, func(test suite.ConformanceTest) bool { return test.ShortName == name })
		if index < 0 {
			t.Errorf("the suite has no test %s", name)
			continue
		}
		needed := tests.ConformanceTests[index].Features
		if !claimed.HasAll(needed...) {
			t.Errorf("%s is skipped: it needs one of %v, which is not claimed", name, needed)
		}
		covered.Insert(needed...)
	}
	for _, profile := range Profiles {
		if missing := profile.CoreFeatures.Difference(covered); missing.Len() > 0 {
			t.Errorf("nothing in the selection needs %v of %s", sets.List(missing), profile.Name)
		}
	}
}

func TestOnlyTheseAreCountedInNoProfile(t *testing.T) {
	var outside []string
	for _, test := range tests.ConformanceTests {
		if Outside(test) {
			outside = append(outside, test.ShortName)
		}
	}
	slices.Sort(outside)
	if !slices.Equal(outside, countedInNoProfile) {
		t.Errorf("%v", outside)
	}
}
