package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go/quicvarint"
)

// maxPayload bounds the payload of a recorded frame.
const maxPayload = 1 << 20

// Response is the content of a request stream.
type Response struct {
	// Status is that of the final response, or "".
	Status string
	// Interim are the statuses of 1xx responses.
	Interim []string
	// Header are the fields of the final response.
	Header []Field
	Body   []byte
	// Trailers are the fields after the body.
	Trailers []Field
}

// ErrResponse says that a server sends no HTTP/3.
var ErrResponse = errors.New("the response is malformed")

// ReadFrame reads the next frame. At the clean end of a stream the error is io.EOF.
func ReadFrame(stream io.Reader) (kind uint64, payload []byte, err error) {
	reader := quicvarint.NewReader(stream)
	if kind, err = quicvarint.Read(reader); err != nil {
		return 0, nil, err
	}
	length, err := quicvarint.Read(reader)
	if err == nil && length > maxPayload {
		err = fmt.Errorf("%w: a frame of %d bytes", ErrResponse, length)
	}
	if err != nil {
		return 0, nil, cut(err)
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(reader, payload)
	return kind, payload, cut(err)
}

// cut makes an end inside of a frame an error that is not io.EOF.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ReadResponse reads a stream to its end. After an error, the response has the content before it.
func ReadResponse(stream io.Reader) (*Response, error) {
	response := &Response{}
	for {
		kind, payload, err := ReadFrame(stream)
		if err == io.EOF {
			return response, nil
		}
		if err != nil {
			return response, err
		}
		switch {
		case kind == Data && response.Status != "" && response.Trailers == nil:
			response.Body = append(response.Body, payload...)
		case kind == Headers && response.Trailers == nil:
			if err := response.take(payload); err != nil {
				return response, err
			}
		case kind == Data || kind == Headers || kind < 0x10:
			return response, fmt.Errorf("%w: frame %#x out of order", ErrResponse, kind)
		}
	}
}

func (response *Response) take(payload []byte) error {
	fields, err := Decode(payload)
	if err != nil {
		return err
	}
	if response.Status != "" {
		response.Trailers = append([]Field{}, fields...)
		return nil
	}
	if len(fields) == 0 || fields[0].Name != ":status" || len(fields[0].Value) != 3 {
		return fmt.Errorf("%w: no :status first", ErrResponse)
	}
	if status := fields[0].Value; status[0] == '1' {
		response.Interim = append(response.Interim, status)
	} else {
		response.Status, response.Header = status, fields[1:]
	}
	return nil
}

// Decode reads a field section that has no references to the dynamic table.
func Decode(block []byte) ([]Field, error) {
	next := qpack.NewDecoder().Decode(block)
	var fields []Field
	for {
		field, err := next()
		if err == io.EOF {
			return fields, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrResponse, err)
		}
		fields = append(fields, Field{field.Name, field.Value})
	}
}

// DecodeSettings reads the payload of a SETTINGS frame.
func DecodeSettings(payload []byte) (map[uint64]uint64, error) {
	found := map[uint64]uint64{}
	for reader := bytes.NewReader(payload); reader.Len() > 0; {
		id, err := quicvarint.Read(reader)
		if err != nil {
			return nil, cut(err)
		}
		value, err := quicvarint.Read(reader)
		if err != nil {
			return nil, cut(err)
		}
		if _, isTwice := found[id]; isTwice {
			return nil, fmt.Errorf("%w: setting %#x came twice", ErrResponse, id)
		}
		found[id] = value
	}
	return found, nil
}
