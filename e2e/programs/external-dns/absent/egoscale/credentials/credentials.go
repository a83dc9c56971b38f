// Package credentials stands where the credentials of Exoscale's client are.
package credentials

type Credentials struct{}

func NewStaticCredentials(string, string) *Credentials { return nil }
