// Package v3 stands where the client of Exoscale is: external-dns without this provider.
package v3

import (
	"context"
	"errors"

	"github.com/exoscale/egoscale/v3/credentials"
)

type (
	Client                           struct{}
	ClientOpt                        func(*Client) error
	CreateDNSDomainRecordRequestType string
	DNSDomainRecordType              string
	Endpoint                         string
	Operation                        struct{}
	OperationState                   string
	UUID                             string
	DNSDomain                        struct {
		ID          UUID
		UnicodeName string
	}
	DNSDomainRecord struct {
		ID            UUID
		Name, Content string
		Type          DNSDomainRecordType
		Ttl           int64
	}
	CreateDNSDomainRecordRequest struct {
		Name, Content string
		Type          CreateDNSDomainRecordRequestType
		Ttl           int64
	}
	UpdateDNSDomainRecordRequest struct {
		Content string
		Ttl     int64
	}
	ListDNSDomainsResponse       struct{ DNSDomains []DNSDomain }
	ListDNSDomainRecordsResponse struct{ DNSDomainRecords []DNSDomainRecord }
)

const OperationStateSuccess OperationState = "success"

var errAbsent = errors.New("this program is built without the provider Exoscale")

func NewClient(*credentials.Credentials, ...ClientOpt) (*Client, error) { return nil, errAbsent }
func ClientOptWithEndpoint(Endpoint) ClientOpt                          { return nil }

func (*Client) ListDNSDomains(context.Context) (*ListDNSDomainsResponse, error) {
	return nil, errAbsent
}
func (*Client) ListDNSDomainRecords(context.Context, UUID) (*ListDNSDomainRecordsResponse, error) {
	return nil, errAbsent
}
func (*Client) CreateDNSDomainRecord(context.Context, UUID, CreateDNSDomainRecordRequest) (*Operation, error) {
	return nil, errAbsent
}
func (*Client) DeleteDNSDomainRecord(context.Context, UUID, UUID) (*Operation, error) {
	return nil, errAbsent
}
func (*Client) UpdateDNSDomainRecord(context.Context, UUID, UUID, UpdateDNSDomainRecordRequest) (*Operation, error) {
	return nil, errAbsent
}
func (*Client) Wait(context.Context, *Operation, ...OperationState) (*Operation, error) {
	return nil, errAbsent
}
