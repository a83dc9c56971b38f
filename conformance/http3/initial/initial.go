// Package initial writes Initial packets of QUIC (RFC 9000 §17.2.2, RFC 9001 §5) with any content, which needs no handshake.
package initial

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
)

// salt is that of version 1 (RFC 9001 §5.2).
var salt = []byte{0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a}

// Version1 is the version of QUIC, and Unknown one that is reserved so that servers negotiate (RFC 9000 §15).
const Version1, Unknown uint32 = 0x00000001, 0x1a2a3a4a

// MinSize is the least size of a client's datagram with an Initial (RFC 9000 §14.1).
const MinSize = 1200

// numberSize is the length of the packet numbers here.
const numberSize = 4

// tagSize is that of AEAD_AES_128_GCM.
const tagSize = 16

// keys are those of a client.
type keys struct{ key, iv, header []byte }

// expand is HKDF-Expand-Label without a context (RFC 8446 §7.1).
func expand(secret []byte, label string, length int) ([]byte, error) {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(length))
	info = append(append(info, byte(len(label))), label...)
	return hkdf.Expand(sha256.New, secret, string(append(info, 0)), length)
}

func clientKeys(destination []byte) (found keys, err error) {
	secret, err := hkdf.Extract(sha256.New, destination, salt)
	if err != nil {
		return found, err
	}
	if secret, err = expand(secret, "client in", sha256.Size); err != nil {
		return found, err
	}
	for _, one := range []struct {
		label string
		size  int
		into  *[]byte
	}{{"quic key", 16, &found.key}, {"quic iv", 12, &found.iv}, {"quic hp", 16, &found.header}} {
		if *one.into, err = expand(secret, one.label, one.size); err != nil {
			return found, err
		}
	}
	return found, nil
}

// Packet is a datagram with one Initial packet that has these frames and as much PADDING as the size asks for.
func Packet(destination, source []byte, number uint32, frames []byte, size int) ([]byte, error) {
	keys, err := clientKeys(destination)
	if err != nil {
		return nil, err
	}
	// First byte, version, both connection IDs, an empty token, and a length of two bytes.
	header := append([]byte{0xc0 | numberSize - 1}, binary.BigEndian.AppendUint32(nil, Version1)...)
	header = append(append(header, byte(len(destination))), destination...)
	header = append(append(header, byte(len(source))), source...)
	header = append(header, 0)
	payload := make([]byte, max(len(frames), size-len(header)-2-numberSize-tagSize))
	copy(payload, frames)
	header = binary.BigEndian.AppendUint16(header, 0x4000|uint16(numberSize+len(payload)+tagSize))
	header = binary.BigEndian.AppendUint32(header, number)
	return protect(keys, header, number, payload)
}

// protect encrypts a payload, and the first byte and the number of the header (RFC 9001 §5.3, §5.4).
func protect(keys keys, header []byte, number uint32, payload []byte) ([]byte, error) {
	block, err := aes.NewCipher(keys.key)
	if err != nil {
		return nil, err
	}
	sealer, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	nonce := append([]byte{}, keys.iv...)
	for index, one := range binary.BigEndian.AppendUint32(nil, number) {
		nonce[len(nonce)-numberSize+index] ^= one
	}
	packet := sealer.Seal(header[:len(header):len(header)], nonce, payload, header)
	masker, err := aes.NewCipher(keys.header)
	if err != nil {
		return nil, err
	}
	at := len(header) - numberSize
	mask := make([]byte, aes.BlockSize)
	masker.Encrypt(mask, packet[at+4:at+4+aes.BlockSize])
	packet[0] ^= mask[0] & 0x0f
	for index := range numberSize {
		packet[at+index] ^= mask[1+index]
	}
	return packet, nil
}

// Crypto is a CRYPTO frame (RFC 9000 §19.6) at an offset below 2^30.
func Crypto(offset uint32, content []byte) []byte {
	frame := append([]byte{0x06}, binary.BigEndian.AppendUint32(nil, 0x80000000|offset)...)
	return append(binary.BigEndian.AppendUint16(frame, 0x4000|uint16(len(content))), content...)
}
