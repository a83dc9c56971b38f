// An HTTP/1 server of Node's standard library for the smuggling differential. It answers every request with what it saw:
// "seen METHOD TARGET CONTENT-BYTES". Its argument is the port of 127.0.0.1 to listen on.
import http from "node:http";

const server = http.createServer((request, response) => {
  let count = 0;
  request.on("data", (piece) => (count += piece.length));
  request.on("end", () => response.end(`seen ${request.method} ${request.url} ${count}\n`));
});
server.listen(Number(process.argv[2]), "127.0.0.1");
