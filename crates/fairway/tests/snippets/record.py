#!/usr/bin/env python3
"""Asks a real nginx what it makes of the snippets in `set/`, and writes its answers to `recorded/`.

    crates/fairway/tests/snippets/record.py [NAME...]

It runs nginx and headers-more of Debian's development suite, which `lab/peers/current` keeps outside of the checkout, once for each
snippet, with the configuration that ingress-nginx (controller v1.15.1, its defaults) renders around it, without Lua. Needs root, as
nginx listens on port 80 of 127.0.0.77. With names it records these snippets only and keeps what is known of the others.
"""

import http.client
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
ADDRESS = "127.0.0.77"
BACKEND_PORT, AUTH_PORT = 8177, 8178
KEYS = {
    "configuration-snippet", "server-snippet", "location-snippet", "http-snippet", "auth-snippet", "configmap-server-snippet",
    # These two are for Fairway; what ingress-nginx renders for them follows.
    "annotations", "settings", "paths",
    "nginx-before", "nginx-after", "nginx-http", "nginx-server",
}
# The user file of basic auth, and the mark that stands for its path.
USERS, USERS_MARK = "a:{PLAIN}b\n", "@htpasswd@"
NOT_RECORDED = {"date", "connection", "content-length", "keep-alive", "transfer-encoding"}
# Where nginx made the value itself, which is another one each time.
GENERATED = {"x-request-id"}


def read_set(path):
    """The snippets of a file: `### NAME`, options and requests, then `--- KEY` and the text of each snippet."""
    snippets = []
    for block in open(path, encoding="utf-8").read().split("### ")[1:]:
        head, *texts = re.split(r"^--- ", block, flags=re.M)
        name, *lines = head.rstrip().split("\n")
        snippet = {"name": name, "options": set(), "requests": [], "texts": {}}
        for line in filter(None, lines):
            if line.startswith("  "):
                field, value = line.strip().split(": ", 1)
                snippet["requests"][-1]["headers"].append((field, value))
            elif " " in line:
                method, target = line.split(" ", 1)
                snippet["requests"].append({"method": method, "target": target, "headers": []})
            else:
                snippet["options"].add(line)
        for text in texts:
            key, body = text.split("\n", 1)
            assert key in KEYS, (name, key)
            body = body.rstrip("\n") + "\n"
            snippet["texts"][key] = body.replace("\n", "\r\n") if "crlf" in snippet["options"] else body
        snippets.append(snippet)
    return snippets


class Echo(http.server.BaseHTTPRequestHandler):
    """As fairway-echo, as far as the set needs it; notes what reached it."""

    protocol_version = "HTTP/1.1"
    seen = []

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        headers = {}
        for name, value in self.headers.items():
            canonical = "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))
            headers.setdefault(canonical, []).append(value.encode("latin-1").decode("utf-8", "replace"))
        host = headers.pop("Host", [""])
        if len(host) > 1:
            headers["Host"] = host
        self.server.seen.append({"backend": self.server.name, "method": self.command, "target": self.path, "host": host[0], "headers": headers})
        status = re.fullmatch(r"/status/(\d{3})", self.path)
        fields = {}
        if not status:
            for pair in self.headers.get("X-Echo-Set-Header", "").split(","):
                name, _, value = pair.strip().partition(":")
                if name:
                    fields[name] = value.strip()
            fields["Content-Type"] = "application/json"
            fields["X-Content-Type-Options"] = "nosniff"
        body = b"" if status else b'{"echo":true}'
        self.send_response_only(int(status[1]) if status else 200)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = answer

    def log_message(self, *_):
        pass


def serve(port, name):
    server = http.server.ThreadingHTTPServer((ADDRESS, port), Echo)
    server.seen, server.name = [], name
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


# What `nginx.tmpl` renders in a location before the snippets.
LOCATION_BEFORE = """
            set $namespace      "demo";
            set $ingress_name   "{name}";
            set $service_name   "main";
            set $service_port   "80";
            set $location_path  "{path}";

            port_in_redirect off;

            set $balancer_ewma_score -1;
            set $proxy_upstream_name "demo-main-80";
            set $proxy_host          $proxy_upstream_name;
            set $pass_access_scheme  $scheme;
            set $pass_server_port    $server_port;
            set $best_http_host      $http_host;
            set $pass_port           $pass_server_port;
            set $proxy_alternative_upstream_name "";
            {auth}
            client_max_body_size                    1m;
            client_body_buffer_size                 8k;

            proxy_set_header Host                   $best_http_host;
            proxy_set_header Upgrade           $http_upgrade;
            proxy_set_header Connection        $connection_upgrade;
            proxy_set_header X-Request-ID           $req_id;
            proxy_set_header X-Real-IP              $remote_addr;
            proxy_set_header X-Forwarded-For        $remote_addr;
            proxy_set_header X-Forwarded-Host       $best_http_host;
            proxy_set_header X-Forwarded-Port       $pass_port;
            proxy_set_header X-Forwarded-Proto      $pass_access_scheme;
            proxy_set_header X-Forwarded-Scheme     $pass_access_scheme;
            proxy_set_header X-Scheme               $pass_access_scheme;
            proxy_set_header X-Original-Forwarded-For  $http_x_forwarded_for;
            proxy_set_header X-Original-Forwarded-Host $http_x_forwarded_host;
            proxy_set_header Proxy                  "";

            proxy_connect_timeout                   5s;
            proxy_send_timeout                      60s;
            proxy_read_timeout                      60s;

            proxy_buffering                         off;
            proxy_buffer_size                       4k;
            proxy_buffers                           4 4k;
            proxy_max_temp_file_size                1024m;
            proxy_request_buffering                 on;
            proxy_http_version                      1.1;
            proxy_cookie_domain                     off;
            proxy_cookie_path                       off;

            proxy_next_upstream                     error timeout;
            proxy_next_upstream_timeout             0;
            proxy_next_upstream_tries               3;
"""
LOCATION_AFTER = """
            proxy_pass http://upstream_balancer;
            proxy_redirect                          off;
"""
# The location that `auth-url` makes.
AUTH = """
        location = {path} {{
            internal;
            access_log off;
            set $proxy_upstream_name "demo-main-80";
            proxy_intercept_errors      off;
            proxy_pass_request_body     off;
            proxy_set_header            Content-Length          "";
            proxy_set_header            X-Forwarded-Proto       "";
            proxy_set_header            X-Request-ID            $req_id;
            proxy_set_header            Host                    {host};
            proxy_set_header            X-Original-URL          $scheme://$http_host$request_uri;
            proxy_set_header            X-Original-Method       $request_method;
            proxy_set_header            X-Sent-From             "nginx-ingress-controller";
            proxy_set_header            X-Real-IP               $remote_addr;
            proxy_set_header            X-Forwarded-For        $remote_addr;
            proxy_set_header            X-Auth-Request-Redirect $request_uri;
            proxy_buffering                         off;
            proxy_buffer_size                       4k;
            proxy_buffers                           4 4k;
            proxy_request_buffering                 on;
            proxy_ssl_server_name       on;
            proxy_pass_request_headers  on;
            client_max_body_size        1m;
            client_body_buffer_size     8k;
            {snippet}
            proxy_http_version 1.1;
            set $target "http://{address}:{port}/auth";
            proxy_pass $target;
        }}
"""
CONFIGURATION = """
load_module {root}/usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so;
daemon off;
master_process off;
pid {work}/pid;
error_log {work}/error.log notice;
events {{}}
http {{
    client_body_temp_path {work}/a; proxy_temp_path {work}/b; fastcgi_temp_path {work}/c; uwsgi_temp_path {work}/d; scgi_temp_path {work}/e;
    reset_timedout_connection on;
    keepalive_timeout  75s;
    keepalive_requests 1000;
    client_header_buffer_size       1k;
    client_header_timeout           60s;
    large_client_header_buffers     4 8k;
    client_body_buffer_size         8k;
    client_body_timeout             60s;
    types_hash_max_size             2048;
    variables_hash_bucket_size      256;
    variables_hash_max_size         2048;
    underscores_in_headers          off;
    ignore_invalid_headers          on;
    limit_req_status                503;
    limit_conn_status               503;
    include {root}/etc/nginx/mime.types;
    default_type text/html;
    server_tokens off;
    more_clear_headers Server;
    uninitialized_variable_warn off;
    log_format upstreaminfo '$remote_addr';
    map $request_uri $loggable {{ default 1; }}
    access_log {work}/access.log upstreaminfo if=$loggable;
    map $http_upgrade $connection_upgrade {{
        default          upgrade;
        ''               '';
    }}
    map $http_x_request_id $req_id {{
        default   $http_x_request_id;
        ""        $request_id;
    }}
    geo $literal_dollar {{ default "$"; }}
    server_name_in_redirect off;
    port_in_redirect        off;
    proxy_ssl_session_reuse on;
{http_snippet}
    upstream upstream_balancer {{
        server {address}:{backend_port};
        keepalive 320;
        keepalive_time 1h;
        keepalive_timeout  60s;
        keepalive_requests 10000;
    }}
    server {{
        listen {address}:80 default_server;
        server_name _;
        return 404;
    }}
    server {{
        server_name {server_name};
        listen {address}:80;
        set $proxy_upstream_name "-";
{server_snippet}
{locations}
{configmap_server_snippet}
    }}
}}
"""


def without_replaced(before, rendered):
    """`before` without the request headers that `rendered` sets instead (as `upstream-vhost` does with Host)."""
    for name in re.findall(r"^proxy_set_header (\S+)", rendered, flags=re.M):
        before = re.sub(rf"^ *proxy_set_header {re.escape(name)} .*\n", "", before, flags=re.M)
    return before


def locations_of(texts):
    """The locations that ingress-nginx makes of paths (`updateServerLocations`): path, modifier and what is matched."""
    paths = [line.split() for line in texts.get("paths", "/app Prefix\n/ Prefix\n").splitlines()]
    exact = {path for path, kind in paths if kind == "Exact"}
    for path, kind in paths:
        if kind == "Exact":
            yield path, "= ", path
        elif path == "/":
            yield path, "", path
        else:
            yield path, "", path if path.endswith("/") else f"{path}/"
            if path not in exact:
                yield path, "= ", path


def configuration(snippet, root, work):
    name, texts = snippet["name"], snippet["texts"]
    locations = []
    for path, modifier, target in locations_of(texts):
        auth = ""
        if "auth" in snippet["options"]:
            place = f"/_external-auth-{target.strip('/') or 'root'}{modifier.strip()}"
            host = f"{ADDRESS}:{AUTH_PORT}"
            locations.append(AUTH.format(
                path=place, host=host, address=ADDRESS, port=AUTH_PORT, snippet=texts.get("auth-snippet", "")))
            auth = f"auth_request {place}; auth_request_set $auth_cookie $upstream_http_set_cookie; add_header Set-Cookie $auth_cookie;"
        before = LOCATION_BEFORE.replace("{name}", name).replace("{path}", path).replace("{auth}", auth)
        before = without_replaced(before, texts.get("nginx-before", "")) + texts.get("nginx-before", "")
        snippets = texts.get("configuration-snippet", "") + "\n" + texts.get("location-snippet", "")
        after = texts.get("nginx-after", "") + LOCATION_AFTER
        locations.append(f"        location {modifier}{target} {{{before}\n{snippets}\n{after}        }}\n")
    server_name = f'"~^(?<subdomain>[\\w-]+)\\.{re.escape(name)}\\.test$"' if "wildcard" in snippet["options"] else f'"{name}.test"'
    text = CONFIGURATION.format(
        root=root, work=work, address=ADDRESS, backend_port=BACKEND_PORT, server_name=server_name,
        http_snippet="@http@", server_snippet="@server@", configmap_server_snippet="@configmap@", locations="@locations@")
    for mark, value in [
        ("@locations@", "".join(locations)),
        ("@http@", texts.get("nginx-http", "") + texts.get("http-snippet", "")),
        ("@server@", texts.get("server-snippet", "") + texts.get("nginx-server", "")),
        ("@configmap@", texts.get("configmap-server-snippet", "")),
        (USERS_MARK, f"{work}/htpasswd"),
    ]:
        text = text.replace(mark, value)
    return text


def ask(snippet, request, backend, auth):
    backend.seen.clear()
    auth.seen.clear()
    headers = dict(request["headers"])
    size = int(headers.pop("body-size", 0))
    host = headers.pop("Host", f"{snippet['name']}.test")
    asked = {"scheme": "http", "host": host, "method": request["method"], "target": request["target"]}
    if headers:
        asked["headers"] = headers
    if size:
        asked["body_size"] = size
    lines = [f"{request['method']} {request['target']} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {size}"] if size else []
    connection = socket.create_connection((ADDRESS, 80), 5, ("127.0.0.1", 0))
    try:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        try:
            connection.sendall(b"x" * size)
        except OSError:
            pass  # It answered before it had read everything.
        response = http.client.HTTPResponse(connection, method=request["method"])
        try:
            response.begin()
            body = response.read().decode("utf-8", "replace")
        except (http.client.BadStatusLine, OSError):
            return {"request": asked, "answer": {"status": 0, "headers": []}}
    finally:
        connection.close()
    # The space around a value is no part of it (RFC 9110 §5.5).
    fields = [[name.lower(), value.strip(" \t")] for name, value in response.getheaders() if name.lower() not in NOT_RECORDED]
    fields.sort(key=lambda field: field[0])
    for seen in backend.seen + auth.seen:
        for name, values in seen["headers"].items():
            if name.lower() in GENERATED:
                seen["headers"][name] = ["<generated>" if re.fullmatch("[0-9a-f]{32}", value) else value for value in values]
    answer = {"status": response.status, "headers": fields}
    if backend.seen:
        answer["upstream"] = backend.seen[-1]
    else:
        answer["body"] = body[:200]
    if auth.seen:
        answer["auth"] = auth.seen[-1]
    return {"request": asked, "answer": answer}


def record(snippet, root, backend, auth):
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "nginx.conf")
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(configuration(snippet, root, work))
        with open(os.path.join(work, "htpasswd"), "w", encoding="utf-8") as file:
            file.write(USERS)
        command = [
            f"{root}/lib64/ld-linux-x86-64.so.2", "--library-path", f"{root}/usr/lib/x86_64-linux-gnu", f"{root}/usr/sbin/nginx",
            "-p", work, "-c", path, "-e", f"{work}/error.log",
        ]
        checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
        if checked.returncode:
            errors = [line for line in checked.stderr.splitlines() if "[emerg]" in line]
            why = errors[0].split("[emerg] ")[1] if errors else checked.stderr
            why = re.sub(r"^\d+#\d+: ", "", why)
            return {"refused": re.sub(r" in /\S+nginx\.conf:\d+$", "", why).replace(work, "")}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                try:
                    socket.create_connection((ADDRESS, 80), 1).close()
                    break
                except OSError:
                    time.sleep(0.01)
            return {"exchanges": [ask(snippet, request, backend, auth) for request in snippet["requests"]]}
        finally:
            process.terminate()
            process.wait()


def written(answers):
    """One exchange a line."""
    parts = []
    for name, of in answers.items():
        if "refused" in of:
            parts.append(f" {json.dumps(name)}: {json.dumps(of)}")
        else:
            exchanges = ",\n  ".join(json.dumps(exchange) for exchange in of["exchanges"])
            parts.append(f' {json.dumps(name)}: {{"exchanges": [\n  {exchanges}\n ]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main():
    repository = os.path.join(HERE, "../../../..")
    root = os.environ.get("NGINX_ROOT") or subprocess.run(
        [os.path.join(repository, "lab/peers/current")], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    module = f"{root}/usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so"
    if not os.path.exists(module):
        sys.exit("record.py: nginx has no headers-more there; make it anew with lab/peers/current --renew")
    backend, auth = serve(BACKEND_PORT, "main"), serve(AUTH_PORT, "auth")
    os.makedirs(os.path.join(HERE, "recorded"), exist_ok=True)
    wanted = set(sys.argv[1:])
    for file in sorted(os.listdir(os.path.join(HERE, "set"))):
        path = os.path.join(HERE, "recorded", file.replace(".txt", ".json"))
        known = json.load(open(path, encoding="utf-8")) if wanted and os.path.exists(path) else {}
        answers = {}
        for snippet in read_set(os.path.join(HERE, "set", file)):
            name = snippet["name"]
            again = not wanted or name in wanted or name not in known
            answers[name] = record(snippet, root, backend, auth) if again else known[name]
        with open(path, "w", encoding="utf-8") as out:
            out.write(written(answers))
        refused = sum("refused" in of for of in answers.values())
        print(f"{file}: {len(answers)} snippets, nginx refuses {refused}")


main()
