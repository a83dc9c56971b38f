//! nginx as an ingress runs it: upstream keep-alive, forwarded headers, one worker. Never touches /etc/nginx.

use std::path::Path;
use std::process::Command;

use fairway_lab_measure::Executable;

use super::peer::{Peer, packaged};
use crate::site::{Certificate, HOST, Site};

pub(super) const NGINX: Peer = Peer {
    name: "nginx",
    tls: true,
    find: |binaries, release| packaged(binaries, release, "nginx"),
    version: Executable::version,
    prepare,
};

fn prepare(binary: &Executable, site: &mut Site, certificate: &Certificate) -> anyhow::Result<Command> {
    let chain = site.write_secret("chain.pem", &certificate.chain)?;
    let key = site.write_secret("key.pem", &certificate.key)?;
    let text = configuration(site, &https(site, &chain, &key));
    let path = site.write("nginx.conf", &text)?;
    let mut command = binary.command();
    command.arg("-p").arg(&site.directory).arg("-e").arg("stderr").arg("-c").arg(path);
    Ok(command)
}

/// Tickets stay on: without them and without a cache nginx spends twice the CPU on a handshake.
fn https(site: &Site, chain: &Path, key: &Path) -> String {
    format!(
        "    listen {} ssl backlog=4096;
    ssl_certificate {};
    ssl_certificate_key {};
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384;
    ssl_ecdh_curve X25519;
    ssl_session_cache off;",
        site.https,
        chain.display(),
        key.display()
    )
}

fn configuration(site: &Site, https: &str) -> String {
    let Site { directory, http, backend, .. } = site;
    let directory = directory.display();
    format!(
        "daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 16384; multi_accept on; }}
http {{
  access_log off;
  server_tokens off;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 600s;
  keepalive_requests 100000000;
  client_body_temp_path {directory}/client;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  upstream backend {{
    server {backend};
    keepalive 320;
    keepalive_requests 100000000;
    keepalive_timeout 600s;
  }}
  server {{
    server_name {HOST};
    listen {http} backlog=4096;
{https}
    location / {{
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_connect_timeout 5s;
      proxy_set_header Connection \"\";
      proxy_set_header Host $http_host;
      proxy_set_header X-Request-ID $request_id;
      proxy_set_header X-Real-IP $remote_addr;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_set_header X-Forwarded-Port $server_port;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_buffer_size 16k;
      proxy_buffers 8 32k;
      proxy_max_temp_file_size 0;
    }}
  }}
}}
"
    )
}
