package backend

import (
	"net"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// RPCStatus is the metadata in which a call says which status it wants.
const RPCStatus = "want-status"

// ServeGRPC starts a gRPC server that returns the message of every call, whatever its method. It returns its port.
func ServeGRPC(record *Record) (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	echo := func(_ any, stream grpc.ServerStream) error { return call(record, stream) }
	server := grpc.NewServer(grpc.UnknownServiceHandler(echo))
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func call(record *Record, stream grpc.ServerStream) error {
	path, _ := grpc.MethodFromServerStream(stream)
	known, _ := metadata.FromIncomingContext(stream.Context())
	sight, _ := record.begin(Target, path, known.Get)
	message := &wrapperspb.StringValue{}
	if err := stream.RecvMsg(message); err != nil {
		record.end(sight, http.StatusOK, int(status.Code(err)))
		return err
	}
	if wanted := known.Get(RPCStatus); len(wanted) == 1 {
		code, _ := strconv.Atoi(wanted[0])
		record.end(sight, http.StatusOK, code)
		return status.Error(codes.Code(code), "as the call asked")
	}
	record.end(sight, http.StatusOK, int(codes.OK))
	return stream.SendMsg(message)
}
