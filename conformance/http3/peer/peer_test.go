package peer

import (
	"bytes"
	"crypto/x509"
	"testing"
)

func TestEachHostHasARouteAndACertificate(t *testing.T) {
	certificates, err := NewCertificates()
	if err != nil {
		t.Fatal(err)
	}
	text, err := manifests(Plan{Certificates: certificates, Backend: 1, Recorder: 2, RecorderH2C: 3})
	if err != nil {
		t.Fatal(err)
	}
	for host, pair := range map[string]Pair{PlainHost: certificates.Main, H2CHost: certificates.Main, TrustedHost: certificates.Main,
		RawHost: certificates.Main, RawH2CHost: certificates.Main, OtherHost: certificates.Other} {
		if !bytes.Contains(text, []byte(`"host":"`+host+`"`)) {
			t.Errorf("%s has no route", host)
		}
		made, err := pair.TLS()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := made.Leaf.Verify(x509.VerifyOptions{Roots: certificates.Roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if !bytes.Contains(text, []byte(`"use-http3":"true"`)) || bytes.Contains(text, []byte(UnknownHost)) {
		t.Errorf("%s", text)
	}
}

func TestFreePortsAreNotGivenTwice(t *testing.T) {
	if one, other := freePort(), freePort(); one == other {
		t.Error(one)
	}
}
