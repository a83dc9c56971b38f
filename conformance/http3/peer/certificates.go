package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// The hosts that servers serve. All but OtherHost share a certificate.
const (
	// PlainHost has the endpoint over HTTP/1.1.
	PlainHost = "plain.test"
	// H2CHost has the endpoint over HTTP/2.
	H2CHost = "h2c.test"
	// OtherHost is PlainHost with another certificate.
	OtherHost = "other.test"
	// TrustedHost asks clients for a certificate.
	TrustedHost = "trusted.test"
	// RawHost and RawH2CHost have the recorders of HTTP/1.1 and HTTP/2.
	RawHost, RawH2CHost = "raw.test", "raw-h2c.test"
	// UnknownHost is not served.
	UnknownHost = "unknown.test"
)

// Certificates are those of a run, created for it.
type Certificates struct {
	// Roots are what clients trust.
	Roots *x509.CertPool
	// Main is the certificate of all hosts but OtherHost, and Other that one's.
	Main, Other Pair
	// Client is a client's, signed by Authority.
	Client    Pair
	Authority []byte
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Certificate, Key []byte }

// TLS is the pair in the form of crypto/tls.
func (pair Pair) TLS() (tls.Certificate, error) { return tls.X509KeyPair(pair.Certificate, pair.Key) }

// NewCertificates creates an authority and the certificates that it signs.
func NewCertificates() (*Certificates, error) {
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "conformance authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	encoded, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	made := &Certificates{Roots: x509.NewCertPool(), Authority: block("CERTIFICATE", encoded)}
	made.Roots.AppendCertsFromPEM(made.Authority)
	for number, one := range []struct {
		pair  *Pair
		hosts []string
	}{
		{&made.Main, []string{PlainHost, H2CHost, TrustedHost, RawHost, RawH2CHost}}, {&made.Other, []string{OtherHost}}, {&made.Client, []string{"client"}},
	} {
		if *one.pair, err = sign(authority, key, int64(number+2), one.hosts); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func sign(authority *x509.Certificate, authorityKey *ecdsa.PrivateKey, serial int64, hosts []string) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts,
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	encoded, err := x509.CreateCertificate(rand.Reader, leaf, authority, &key.PublicKey, authorityKey)
	if err != nil {
		return Pair{}, err
	}
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	return Pair{block("CERTIFICATE", encoded), block("PRIVATE KEY", encodedKey)}, err
}

func block(kind string, bytes []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
}
