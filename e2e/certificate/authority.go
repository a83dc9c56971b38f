// Package certificate makes the certificates that scenarios put into Secrets, all of one authority that the clients trust. It
// never writes a file.
package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync/atomic"
	"time"
)

// Authority signs certificates with serial numbers that count up from 1.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	last        atomic.Int64
}

// Issued is a certificate as a Secret holds it.
type Issued struct {
	Certificate, Key []byte
	// Serial as clients see it.
	Serial string
}

// validity begins an hour ago, so that clocks may differ.
const validity = 24 * time.Hour

// NewAuthority makes an authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1 << 40),
		Subject:      pkix.Name{CommonName: "fairway e2e"},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority back: %w", err)
	}
	return &Authority{certificate: certificate, key: key}, nil
}

// Issue makes a certificate for the hosts.
func (a *Authority) Issue(hosts ...string) (Issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Issued{}, fmt.Errorf("make a key for %v: %w", hosts, err)
	}
	serial := big.NewInt(a.last.Add(1))
	template := &x509.Certificate{
		SerialNumber: serial,
		DNSNames:     hosts,
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity / 2),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return Issued{}, fmt.Errorf("sign a certificate for %v: %w", hosts, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Issued{}, fmt.Errorf("write the key for %v: %w", hosts, err)
	}
	return Issued{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
		Serial:      serial.String(),
	}, nil
}

// PEM is its certificate, for clients that read it from a file.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// Client is the trust of the host's clients.
func (a *Authority) Client(host string) *tls.Config {
	trusted := x509.NewCertPool()
	trusted.AddCert(a.certificate)
	return &tls.Config{RootCAs: trusted, ServerName: host}
}

// UnverifiedClient is a client that takes every certificate, to see which one is shown.
func UnverifiedClient(host string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: host}
}
