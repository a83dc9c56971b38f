//! Forwards a pod's port over a WebSocket (RFC 6455) with the subprotocol `v4.channel.k8s.io`: each message starts with its
//! channel number.

use std::io;
use std::net::SocketAddr;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wire::{self, Fields};

/// RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Frame types (RFC 6455 §5.2).
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

/// The channels of the only port.
const DATA: u8 = 0;
const ERRORS: u8 = 1;

/// Accepts the WebSocket upgrade of a request and connects it to an address until either side closes.
pub(super) async fn serve(
    fields: &Fields,
    mut client: TcpStream,
    port: u16,
    leads_to: SocketAddr,
) -> io::Result<()> {
    let key = wire::values(fields, "sec-websocket-key").concat();
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()));
    let response = format!(
        "HTTP/1.1 101 -\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {accept}\r\n\
         sec-websocket-protocol: v4.channel.k8s.io\r\n\r\n"
    );
    client.write_all(response.as_bytes()).await?;
    let [low, high] = port.to_le_bytes();
    for channel in [DATA, ERRORS] {
        client.write_all(&frame(BINARY, &[channel, low, high])).await?;
    }
    let mut pod = match TcpStream::connect(leads_to).await {
        Ok(pod) => pod,
        Err(error) => {
            let mut message = vec![ERRORS];
            message.extend(format!("error forwarding port {port} to pod: {error}").as_bytes());
            client.write_all(&frame(BINARY, &message)).await?;
            client.write_all(&frame(CLOSE, &[])).await?;
            // Unread data would turn the close into a reset.
            while sent(&mut client).await?.is_some() {}
            return Ok(());
        }
    };
    let (mut from_client, mut to_client) = client.split();
    let (mut from_pod, mut to_pod) = pod.split();
    let up = async {
        while let Some(data) = sent(&mut from_client).await? {
            to_pod.write_all(&data).await?;
        }
        Ok::<(), io::Error>(())
    };
    let down = async {
        let mut message = vec![DATA; 1 + 16 * 1024];
        loop {
            let count = from_pod.read(&mut message[1..]).await?;
            if count == 0 {
                return to_client.write_all(&frame(CLOSE, &[])).await;
            }
            to_client.write_all(&frame(BINARY, &message[..=count])).await?;
        }
    };
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}

/// The client's next data for the port; `None` when it closes.
async fn sent(client: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let [first, second] = client.read_u16().await?.to_be_bytes();
    let length = match second & 0x7f {
        126 => u64::from(client.read_u16().await?),
        127 => client.read_u64().await?,
        short => u64::from(short),
    };
    let mut mask = [0; 4];
    client.read_exact(&mut mask).await?;
    let mut payload = vec![0; usize::try_from(length).expect("a frame fits into memory")];
    client.read_exact(&mut payload).await?;
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Ok(match (first & 0x0f, payload.first()) {
        (CLOSE, _) => None,
        (BINARY, Some(&DATA)) => Some(payload.split_off(1)),
        _ => Some(Vec::new()),
    })
}

/// A frame of the server, which is not masked.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | kind];
    match payload.len() {
        length @ ..126 => frame.push(u8::try_from(length).expect("it is small")),
        length => {
            frame.push(126);
            frame.extend(u16::try_from(length).expect("no larger frame is written").to_be_bytes());
        }
    }
    frame.extend(payload);
    frame
}
