package scenario

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/e2e/certificate"
	"fairway/e2e/cluster"
	"fairway/e2e/load"
	"fairway/e2e/report"
)

// authority signs everything that clients trust.
var authority = sync.OnceValues(certificate.NewAuthority)

// secure is a host with a certificate in the Secret `name`, a route of the same name, and a plan of a client that trusts it.
func (s *stage) secure(name, host string) load.Plan {
	s.Helper()
	s.certify(name, host)
	s.must(kube.Route(s.Context(), cluster.Route{Namespace: s.namespace, Name: name, Host: host, Service: "backend", Secret: name}))
	signed, err := authority()
	s.must(err)
	return load.Plan{Host: host, TLS: signed.Client(host)}
}

// certify writes a new certificate into a Secret and says its serial number.
func (s *stage) certify(name, host string) string {
	s.Helper()
	signed, err := authority()
	s.must(err)
	issued, err := signed.Issue(host)
	s.must(err)
	s.must(kube.Secret(s.Context(), s.namespace, name, issued.Certificate, issued.Key))
	return issued.Serial
}

func TestARotatedCertificateIsShownByEveryReplicaAndLosesNoRequest(t *testing.T) {
	s := newParallelStage(t, "rotation")
	s.must(kube.Deploy(t.Context(), s.workload("backend", 2)))
	plan := s.secure("own", s.host)
	s.awaitServed(plan)
	s.traffic(plan)
	var slowest time.Duration
	rotations := 0
	s.repeat(func() {
		begun := time.Now()
		serial := s.certify("own", s.host)
		s.awaitOnEveryReplica(plan, "is served with certificate "+serial, func(sight load.Sight) bool {
			return sight.Class == load.OK && sight.Serial == serial
		})
		slowest = max(slowest, time.Since(begun))
		rotations++
		s.more(s.rate)
	})
	seen := s.streams[1].Counts().Serials
	if len(seen) < rotations {
		s.Errorf("of %d certificates new connections saw %d", rotations, len(seen))
	}
	s.figure("slowest rotation", float64(slowest.Microseconds())/1000, "ms", 1000)
	s.finish()
}

// figure adds a value to the results.
func (s *stage) figure(name string, value float64, unit string, promise float64) {
	s.figures = append(s.figures, report.Figure{Name: name, Value: value, Unit: unit, Promise: promise})
}

// A Secret that breaks keeps its last good certificate; one that goes leaves its own host to the default certificate.
func TestABrokenOrRemovedSecretHurtsAtMostItsOwnHost(t *testing.T) {
	s := newParallelStage(t, "removal")
	s.must(kube.Deploy(t.Context(), s.workload("backend", 2)))
	kept, lost := s.secure("kept", s.host), s.secure("lost", "lost."+s.host)
	s.awaitServed(kept)
	s.awaitServed(lost)
	s.traffic(kept)
	s.repeat(func() {
		s.must(kube.Secret(s.Context(), s.namespace, "kept", []byte("no certificate"), []byte("no key")))
		s.noted("Secret", "kept")
		s.more(s.rate)
		s.awaitServed(kept)

		s.must(kube.API.CoreV1().Secrets(s.namespace).Delete(s.Context(), "lost", meta.DeleteOptions{}))
		s.shown(lost.Host, "the default certificate", func(serial string) bool { return !s.isOwn(serial) })
		s.more(s.rate)

		serial := s.certify("lost", lost.Host)
		s.shown(lost.Host, "certificate "+serial, func(shown string) bool { return shown == serial })
		s.awaitServed(lost)
		serial = s.certify("kept", s.host)
		s.shown(s.host, "certificate "+serial, func(shown string) bool { return shown == serial })
	})
	s.finish()
}

// isOwn says whether a serial number is small enough to be of the tests' authority.
func (s *stage) isOwn(serial string) bool { return len(serial) < 10 }

// shown waits until every replica shows clients of the host the certificate that is right.
func (s *stage) shown(host, what string, right func(serial string) bool) {
	s.Helper()
	s.awaitOnEveryReplica(load.Plan{Host: host, TLS: certificate.UnverifiedClient(host)}, "is shown with "+what, func(sight load.Sight) bool {
		return sight.Serial != "" && right(sight.Serial)
	})
}

// Fairway may not read the Secrets of one namespace: only its hosts lack their certificate, until it may.
func TestARefusedSecretHurtsItsNamespaceAlone(t *testing.T) {
	s := newParallelStage(t, "granted")
	s.must(kube.Deploy(t.Context(), s.workload("backend", 2)))
	plan := s.secure("own", s.host)
	s.awaitServed(plan)
	s.traffic(plan)
	attempt := 0
	s.repeat(func() {
		attempt++
		other := &stage{T: s.T, name: "refused", namespace: fmt.Sprintf("e2e-refused-%d", attempt)}
		other.host = other.namespace + ".example"
		s.must(kube.Namespace(s.Context(), other.namespace))
		defer func() { s.must(kube.DeleteNamespace(context.Background(), other.namespace)) }()
		s.must(kube.Deploy(s.Context(), other.workload("backend", 1)))
		refused := other.secure("own", other.host)
		other.shown(other.host, "the default certificate", func(serial string) bool { return !s.isOwn(serial) })
		other.noted("Ingress", "own")
		s.more(s.rate)
		s.must(kube.Grant(s.Context(), other.namespace, fairwayNamespace, fairwayName))
		other.awaitServed(refused)
	})
	s.finish()
}
