package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/quic-go/quic-go/quicvarint"
)

func TestVarintsAreThoseOfQUIC(t *testing.T) {
	for _, value := range []uint64{0, 63, 64, 16_383, 16_384, 1<<30 - 1, 1 << 30, 1<<62 - 1} {
		if got, want := Varint(value), quicvarint.Append(nil, value); !bytes.Equal(got, want) {
			t.Errorf("%d: %x and not %x", value, got, want)
		}
	}
	for _, size := range []int{1, 2, 4, 8} {
		got, used, err := quicvarint.Parse(LongVarint(37, size))
		if got != 37 || used != size || err != nil {
			t.Errorf("%d bytes: %d, %d bytes, %v", size, got, used, err)
		}
	}
}

func TestFieldSectionsAreDecodedToTheSameFields(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 300))
	block := Block(Indexed(true, 17), Indexed(true, 97), NameReference(true, 0, "a.test"), Literal("x-a-long-name", long),
		HuffmanLiteral("b", Huffman("www.example.com")))
	got, err := Decode(block)
	want := []Field{{":method", "GET"}, {"", ""}, {":authority", "a.test"}, {"x-a-long-name", long}, {"b", "www.example.com"}}
	if err != nil || len(got) != len(want) {
		t.Fatal(got, err)
	}
	want[1] = Field{"x-frame-options", "deny"} // RFC 9204 Appendix A, index 97 needs two bytes.
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v and not %v", got, want)
	}
}

func TestInstructionsAreThoseOfTheExamples(t *testing.T) {
	// RFC 9204 Appendix B.2 to B.5.
	for name, one := range map[string]struct{ got, want []byte }{
		"capacity":    {SetCapacity(220), []byte{0x3f, 0xbd, 0x01}},
		"static name": {InsertNamed(true, 0, "www.example.com"), append([]byte{0xc0, 0x0f}, "www.example.com"...)},
		"literal":     {Insert("custom-key", "custom-value"), append(append([]byte{0x4a}, "custom-key\x0c"...), "custom-value"...)},
		"duplicate":   {Duplicate(2), []byte{0x02}},
		"post base":   {BlockWith(3, 0, PostBase(0)), []byte{0x03, 0x00, 0x10}},
		"acknowledge": {Acknowledge(4), []byte{0x84}},
		"increment":   {Increment(1), []byte{0x01}},
		"cancel":      {CancelStream(8), []byte{0x48}},
		"dynamic":     {Indexed(false, 0), []byte{0x80}},
	} {
		if !bytes.Equal(one.got, one.want) {
			t.Errorf("%s: %x and not %x", name, one.got, one.want)
		}
	}
}

func TestResponsesAreReadToTheirEnd(t *testing.T) {
	head := Frame(Headers, Fields(Field{":status", "200"}, Field{"a", "b"}))
	whole := Join(Frame(Headers, Fields(Field{":status", "103"})), head, Frame(Reserved, []byte("?")), Frame(Data, []byte("one ")),
		Frame(Data, []byte("two")), Frame(Headers, Fields(Field{"c", "d"})))
	got, err := ReadResponse(bytes.NewReader(whole))
	want := &Response{Status: "200", Interim: []string{"103"}, Header: []Field{{"a", "b"}}, Body: []byte("one two"), Trailers: []Field{{"c", "d"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, bad := range map[string][]byte{
		"data first": Frame(Data, []byte("x")), "data after trailers": Join(whole, Frame(Data, []byte("x"))),
		"settings": Join(head, SettingsFrame()), "no status": Frame(Headers, Fields(Field{"a", "b"})),
	} {
		if _, err := ReadResponse(bytes.NewReader(bad)); !errors.Is(err, ErrResponse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadResponse(bytes.NewReader(whole[:len(whole)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestSettingsThatComeTwiceAreSeen(t *testing.T) {
	_, payload, err := ReadFrame(bytes.NewReader(SettingsFrame(TableCapacity, 4096, Reserved, 1)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSettings(payload)
	if err != nil || !reflect.DeepEqual(got, map[uint64]uint64{TableCapacity: 4096, Reserved: 1}) {
		t.Error(got, err)
	}
	if _, err := DecodeSettings(append(payload, payload...)); !errors.Is(err, ErrResponse) {
		t.Error(err)
	}
}
