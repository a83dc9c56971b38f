// Package suite runs the conformance suite of Gateway API against the cluster of KUBECONFIG, in which Fairway is installed and
// has a GatewayClass. ../run makes such a cluster. Flags are those of the suite, and --run and --quick.
package suite

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/pkg/features"
	"sigs.k8s.io/yaml"

	"fairway.dev/conformance/gateway/claims"
	"fairway.dev/conformance/gateway/results"
)

var (
	chosen = flag.String("run", "", "regular expression of the names of tests to run; all others are reported as skipped")
	quick  = flag.Bool("quick", false, "run the short selection; all other tests are reported as skipped")

	book   results.Book
	report string
	begun  = time.Now()
)

func TestMain(m *testing.M) {
	code := m.Run()
	if report != "" {
		if err := show(); err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// show prints the table of the report that was written.
func show() error {
	text, err := os.ReadFile(report)
	if err != nil {
		return fmt.Errorf("there is no report: %w", err)
	}
	var content confv1.ConformanceReport
	if err := yaml.UnmarshalStrict(text, &content); err != nil {
		return fmt.Errorf("read %s: %w", report, err)
	}
	fmt.Print("\n", results.Table(content, &book, outside(), time.Since(begun)), "\n")
	return nil
}

// outside are the tests that no profile counts.
func outside() []string {
	var names []string
	for _, test := range tests.ConformanceTests {
		if claims.Outside(test) {
			names = append(names, test.ShortName)
		}
	}
	return names
}

// leftOut are the tests that were not chosen.
func leftOut() ([]string, error) {
	if *chosen == "" && !*quick {
		return nil, nil
	}
	pattern, err := regexp.Compile(*chosen)
	if err != nil {
		return nil, fmt.Errorf("--run: %w", err)
	}
	var names []string
	for _, test := range tests.ConformanceTests {
		wanted := !*quick || slices.Contains(claims.Quick, test.ShortName)
		if !wanted || !pattern.MatchString(test.ShortName) {
			names = append(names, test.ShortName)
		}
	}
	if len(names) == len(tests.ConformanceTests) {
		return nil, fmt.Errorf("--run %s: the suite has no such test", *chosen)
	}
	return names, nil
}

func TestConformance(t *testing.T) {
	options := conformance.DefaultOptions(t)
	if options.GatewayClassName == "gateway-conformance" {
		options.GatewayClassName = claims.GatewayClass
	}
	if len(options.SupportedFeatures) == 0 {
		options.SupportedFeatures = claims.Features
	}
	if len(options.ConformanceProfiles) == 0 {
		for _, profile := range claims.Profiles {
			options.ConformanceProfiles = append(options.ConformanceProfiles, profile.Name)
		}
	}
	complete(&options.Implementation)
	skipped, err := leftOut()
	if err != nil {
		t.Fatal(err)
	}
	options.SkipTests = append(options.SkipTests, skipped...)
	options.Hook = book.Record
	report = options.ReportOutputPath
	// The client's own limit of 20 requests a second would be the slowest part of many tests.
	options.RestConfig.QPS, options.RestConfig.Burst = 200, 400
	conformance.RunConformanceWithOptions(t, options)
}

// complete sets the options that no flag has set.
func complete(given *confv1.Implementation) {
	for _, field := range []struct {
		value    *string
		standard string
	}{
		{&given.Organization, claims.Implementation.Organization},
		{&given.Project, claims.Implementation.Project},
		{&given.URL, claims.Implementation.URL},
	} {
		if *field.value == "" {
			*field.value = field.standard
		}
	}
	if len(given.Contact) == 0 {
		given.Contact = claims.Implementation.Contact
	}
}

// The features of the suite and those in the status of the class must be equal.
func TestTheGatewayClassPublishesWhatIsClaimed(t *testing.T) {
	options := conformance.DefaultOptions(t)
	var class gatewayv1.GatewayClass
	if err := options.Client.Get(t.Context(), client.ObjectKey{Name: claims.GatewayClass}, &class); err != nil {
		t.Fatal(err)
	}
	var published []features.FeatureName
	for _, feature := range class.Status.SupportedFeatures {
		published = append(published, features.FeatureName(feature.Name))
	}
	if claimed := claims.Published(); !slices.Equal(published, claimed) {
		t.Errorf("the class publishes %v, not %v", published, claimed)
	}
}
