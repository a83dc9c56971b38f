package main

import "fmt"

// Error codes of HTTP/3 (RFC 9114 §8.1) and QPACK (RFC 9204 §6).
const (
	noError              = 0x100
	generalProtocolError = 0x101
	internalError        = 0x102
	streamCreationError  = 0x103
	closedCriticalStream = 0x104
	frameUnexpected      = 0x105
	frameError           = 0x106
	excessiveLoad        = 0x107
	idError              = 0x108
	settingsError        = 0x109
	missingSettings      = 0x10a
	requestRejected      = 0x10b
	requestCancelled     = 0x10c
	requestIncomplete    = 0x10d
	messageError         = 0x10e
	connectError         = 0x10f
	decompressionFailed  = 0x200
	encoderStreamError   = 0x201
	decoderStreamError   = 0x202
)

var codeNames = map[uint64]string{
	noError: "H3_NO_ERROR", generalProtocolError: "H3_GENERAL_PROTOCOL_ERROR", internalError: "H3_INTERNAL_ERROR",
	streamCreationError: "H3_STREAM_CREATION_ERROR", closedCriticalStream: "H3_CLOSED_CRITICAL_STREAM", frameUnexpected: "H3_FRAME_UNEXPECTED",
	frameError: "H3_FRAME_ERROR", excessiveLoad: "H3_EXCESSIVE_LOAD", idError: "H3_ID_ERROR", settingsError: "H3_SETTINGS_ERROR",
	missingSettings: "H3_MISSING_SETTINGS", requestRejected: "H3_REQUEST_REJECTED", requestCancelled: "H3_REQUEST_CANCELLED",
	requestIncomplete: "H3_REQUEST_INCOMPLETE", messageError: "H3_MESSAGE_ERROR", connectError: "H3_CONNECT_ERROR",
	decompressionFailed: "QPACK_DECOMPRESSION_FAILED", encoderStreamError: "QPACK_ENCODER_STREAM_ERROR", decoderStreamError: "QPACK_DECODER_STREAM_ERROR",
}

func codeName(code uint64) string {
	if name := codeNames[code]; name != "" {
		return name
	}
	return fmt.Sprintf("%#x", code)
}
