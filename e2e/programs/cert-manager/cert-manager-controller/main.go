// Command cert-manager-controller runs the controllers of cert-manager's module.
//
// cert-manager's own main package is a module that replaces its parent by a folder, so no module proxy has it. This one starts the same
// controllers, with those flags that cert-manager's chart sets and the scenarios need.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/cert-manager/cert-manager/pkg/controller"
	// Each registers its controller.
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/gateways"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/listenerset"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/metrics"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	utilfeature "github.com/cert-manager/cert-manager/pkg/util/feature"
)

// ofGateways are the controllers that need the CRDs of Gateway API.
var ofGateways = []string{"gateway-shim", "listenerset"}

// The other values are the defaults of cert-manager.
func options() *controller.ContextOptions {
	o := &controller.ContextOptions{KubernetesAPIQPS: 20, KubernetesAPIBurst: 50}
	o.HTTP01SolverResourceRequestCPU = resource.MustParse("10m")
	o.HTTP01SolverResourceRequestMemory = resource.MustParse("64Mi")
	o.HTTP01SolverResourceLimitsCPU = resource.MustParse("100m")
	o.HTTP01SolverResourceLimitsMemory = resource.MustParse("64Mi")
	o.ACMEHTTP01SolverRunAsNonRoot = true
	o.DefaultIssuerKind, o.DefaultIssuerGroup = "Issuer", "cert-manager.io"
	o.DefaultAutoCertificateAnnotations = []string{"kubernetes.io/tls-acme"}
	o.CopiedAnnotationPrefixes = []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"}
	o.CertificateRequestMaximumBackoffDuration = 32 * time.Hour
	o.GatewayAPIExtraProtocols = sets.New[string]()

	flags := pflag.CommandLine
	flags.StringVar(&o.ClusterResourceNamespace, "cluster-resource-namespace", "kube-system", "namespace of what ClusterIssuers need")
	flags.StringVar(&o.HTTP01SolverImage, "acme-http01-solver-image", "", "image of the solver pods")
	flags.StringSliceVar(&o.HTTP01SolverNameservers, "acme-http01-solver-nameservers", nil, "DNS servers for the controller's own check")
	flags.DurationVar(&o.DNS01CheckRetryPeriod, "dns01-check-retry-period", 10*time.Second, "between two checks of a challenge, HTTP-01 too")
	flags.IntVar(&o.MaxConcurrentChallenges, "max-concurrent-challenges", 60, "challenges at the same time")
	flags.BoolVar(&o.EnableGatewayAPI, "enable-gateway-api", false, "watch Gateways")
	flags.BoolVar(&o.EnableGatewayAPIListenerSet, "enable-gateway-api-listenerset", false, "watch ListenerSets")
	flags.DurationVar(&o.CertificateRequestMinimumBackoffDuration, "certificate-request-minimum-backoff-duration", time.Hour, "wait after a failure")
	return o
}

func main() {
	o := options()
	gates := pflag.String("feature-gates", "", "as of cert-manager")
	pflag.String("leader-election-namespace", "", "not used: there is one replica")
	pflag.Int("v", 2, "not used")
	pflag.Parse()
	logf.InitLogs()
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(logf.NewContext(ctx, logf.Log, "controller"), *o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o controller.ContextOptions) error {
	factory, err := controller.NewContextFactory(ctx, o)
	if err != nil {
		return err
	}
	base, err := factory.Build()
	if err != nil {
		return err
	}
	// The chart's liveness probe.
	go func() {
		log.Fatal(http.ListenAndServe(":9403", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	}()
	var running sync.WaitGroup
	for name, build := range controller.Known() {
		if slices.Contains(ofGateways, name) && !o.EnableGatewayAPI || name == "listenerset" && !o.EnableGatewayAPIListenerSet ||
			strings.HasPrefix(name, "certificatesigningrequests-") {
			continue
		}
		each, err := build(factory)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
		running.Go(func() {
			if err := each.Run(5, ctx); err != nil {
				log.Fatalf("controller %s: %v", name, err)
			}
		})
	}
	base.SharedInformerFactory.Start(ctx.Done())
	base.KubeSharedInformerFactory.Start(ctx.Done())
	base.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	if o.EnableGatewayAPI {
		base.GWShared.Start(ctx.Done())
	}
	running.Wait()
	return nil
}
