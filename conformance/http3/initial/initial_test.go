package initial

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func unhex(t *testing.T, text string) []byte {
	bytes, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestKeysAreThoseOfTheExample(t *testing.T) {
	// RFC 9001 Appendix A.1.
	got, err := clientKeys(unhex(t, "8394c8f03e515708"))
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		got  []byte
		want string
	}{
		"key":    {got.key, "1f369613dd76d5467730efcbe3b1a22d"},
		"iv":     {got.iv, "fa044b2f42a3fd3b46fb255c"},
		"header": {got.header, "9f50449e04a0e810283a1e9933adedd2"},
	} {
		if !bytes.Equal(one.got, unhex(t, one.want)) {
			t.Errorf("%s: %x", name, one.got)
		}
	}
}

func TestPacketIsThatOfTheExample(t *testing.T) {
	// RFC 9001 Appendix A.2: its CRYPTO frame, then PADDING.
	hello := unhex(t, "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e0403050306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff")
	packet, err := Packet(unhex(t, "8394c8f03e515708"), nil, 2, hello, MinSize)
	if err != nil {
		t.Fatal(err)
	}
	want := unhex(t, "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9bd8bab936b47d92ec356c0bab7df5976d27cd449f63300099f399")
	if len(packet) != MinSize || !bytes.HasPrefix(packet, want) {
		t.Errorf("%d bytes: %x", len(packet), packet[:len(want)])
	}
}
