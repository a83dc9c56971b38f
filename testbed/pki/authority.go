// Package pki makes a testbed's certificates: one authority per testbed, created when it starts and dropped when it ends. It
// never writes a file; keys and certificates are PEM in memory.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// validity is longer than any testbed lives.
const validity = 365 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// PEM is the authority's own certificate.
	PEM []byte
}

// Pair is a certificate with its key, both PEM.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// Subject is whom a certificate names: a user and groups for clients, hosts for servers.
type Subject struct {
	User   string
	Groups []string
	// Names and Addresses make it a serving certificate.
	Names     []string
	Addresses []string
}

// NewAuthority makes an authority of that name.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the authority: %w", err)
	}
	template, err := template(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	return &Authority{certificate: certificate, key: key, PEM: encode("CERTIFICATE", der)}, nil
}

// Issue signs a certificate for the subject.
func (a *Authority) Issue(subject Subject) (Pair, error) {
	template, err := template(pkix.Name{CommonName: subject.User, Organization: subject.Groups})
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(subject.Names)+len(subject.Addresses) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	template.DNSNames = subject.Names
	for _, address := range subject.Addresses {
		parsed := net.ParseIP(address)
		if parsed == nil {
			return Pair{}, fmt.Errorf("certificate of %s: %q is no address", subject.User, address)
		}
		template.IPAddresses = append(template.IPAddresses, parsed)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make the key of %s: %w", subject.User, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", subject.User, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Certificate: encode("CERTIFICATE", der), Key: keyPEM}, nil
}

// SigningKey is a key pair for tokens (of ServiceAccounts), private and public.
func SigningKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key of tokens: %w", err)
	}
	if private, err = encodeKey(key); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("write the public key of tokens: %w", err)
	}
	return private, encode("PUBLIC KEY", der), nil
}

func template(name pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choose a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: name, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		BasicConstraintsValid: true,
	}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	// SEC 1, which is what Kubernetes reads for keys of tokens as well as of TLS.
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write a private key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

// Encode is a certificate as PEM.
func Encode(certificate *x509.Certificate) []byte {
	return encode("CERTIFICATE", certificate.Raw)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
