package processor

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway.dev/waf/audit"
	"fairway.dev/waf/configuration"
)

const (
	// metadataNamespace is where Fairway says which configuration a stream has.
	metadataNamespace = "fairway.waf"
	// attributesNamespace is where Envoy and Fairway put attributes.
	attributesNamespace = "envoy.filters.http.ext_proc"
	maxID               = 128
)

// request is the content of the first message of a stream.
type request struct {
	name          string
	configuration *configuration.Configuration // nil: the default one
	id            string
	protocol      string
	client        string
	clientPort    int
	server        string
	serverPort    int
	// The modes that the caller was set up with, if it says so.
	modes *extproc.ProtocolConfiguration
}

func readRequest(message *extproc.ProcessingRequest) (request, error) {
	r := request{name: "default", protocol: "HTTP/1.1", modes: message.GetProtocolConfig()}
	if metadata := message.GetMetadataContext().GetFilterMetadata()[metadataNamespace]; metadata != nil {
		if err := r.readMetadata(metadata); err != nil {
			return r, err
		}
	}
	attributes := message.GetAttributes()[attributesNamespace].GetFields()
	text := func(name string) string {
		switch value := attributes[name].GetKind().(type) {
		case *structpb.Value_StringValue:
			return value.StringValue
		case *structpb.Value_NumberValue:
			return strconv.FormatFloat(value.NumberValue, 'f', -1, 64)
		}
		return ""
	}
	r.client, r.clientPort = address(text("source.address"), text("source.port"))
	r.server, r.serverPort = address(text("destination.address"), text("destination.port"))
	if protocol := text("request.protocol"); protocol != "" {
		r.protocol = protocol
	}
	for _, name := range []string{"waf.transaction_id", "request.id"} {
		if r.id == "" {
			r.id = identifier(text(name))
		}
	}
	return r, nil
}

// readMetadata refuses what it does not know: a field of a later version may be one that protects.
func (r *request) readMetadata(metadata *structpb.Struct) error {
	c := configuration.Configuration{Mode: configuration.DetectionOnly}
	for name, value := range metadata.GetFields() {
		var ok bool
		switch kind := value.GetKind().(type) {
		case *structpb.Value_StringValue:
			switch name {
			case "mode":
				mode, err := configuration.ParseMode(kind.StringValue)
				if err != nil {
					return fmt.Errorf("metadata %s: %w", metadataNamespace, err)
				}
				c.Mode, ok = mode, true
			case "directives":
				c.Directives, ok = kind.StringValue, true
			case "name":
				r.name, ok = audit.Cut(kind.StringValue, 256), true
			}
		case *structpb.Value_BoolValue:
			if name == "core_rule_set" {
				c.CoreRuleSet, ok = kind.BoolValue, true
			}
		}
		if !ok {
			return fmt.Errorf("metadata %s: the field %q is unknown or of another type", metadataNamespace, audit.Cut(name, 64))
		}
	}
	r.configuration = &c
	return nil
}

// address splits an address from its port, which Envoy's attribute has in it.
func address(host, port string) (string, int) {
	if split, behind, err := net.SplitHostPort(host); err == nil {
		host = split
		if port == "" {
			port = behind
		}
	}
	number, _ := strconv.Atoi(port)
	return host, number
}

// identifier keeps characters that are allowed in a log.
func identifier(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), maxID)]
}

// header is one header of a message.
type header struct{ name, value string }

func headers(list *core.HeaderMap) []header {
	read := make([]header, 0, len(list.GetHeaders()))
	for _, each := range list.GetHeaders() {
		value := each.GetValue()
		if raw := each.GetRawValue(); len(raw) > 0 {
			value = string(raw)
		}
		read = append(read, header{each.GetKey(), value})
	}
	return read
}
