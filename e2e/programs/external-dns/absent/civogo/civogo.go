// Package civogo stands where the client of Civo is: external-dns without this provider.
package civogo

import "errors"

type (
	Client        struct{}
	Component     struct{ Name, Version string }
	DNSDomain     struct{ ID, Name string }
	DNSRecordType string
	DNSRecord     struct {
		ID, Name, Value string
		Type            DNSRecordType
		Priority, TTL   int
	}
	DNSRecordConfig struct {
		Name, Value   string
		Type          DNSRecordType
		Priority, TTL int
	}
	SimpleResponse struct{}
)

const (
	DNSRecordTypeA     DNSRecordType = "A"
	DNSRecordTypeCName DNSRecordType = "CNAME"
	DNSRecordTypeTXT   DNSRecordType = "TXT"
	DNSRecordTypeSRV   DNSRecordType = "SRV"
)

var errAbsent = errors.New("this program is built without the provider Civo")

func NewClient(string, string) (*Client, error)                    { return nil, errAbsent }
func (Client) SetUserAgent(*Component)                             {}
func (Client) ListDNSDomains() ([]DNSDomain, error)                { return nil, errAbsent }
func (Client) ListDNSRecords(string) ([]DNSRecord, error)          { return nil, errAbsent }
func (Client) DeleteDNSRecord(*DNSRecord) (*SimpleResponse, error) { return nil, errAbsent }
func (Client) CreateDNSRecord(string, *DNSRecordConfig) (*DNSRecord, error) {
	return nil, errAbsent
}
func (Client) UpdateDNSRecord(*DNSRecord, *DNSRecordConfig) (*DNSRecord, error) {
	return nil, errAbsent
}
