//! Composes requests as bytes, well-formed or not; adds a framing header only where a body would otherwise be lost.

/// A request that becomes bytes.
#[derive(Clone, Debug)]
#[must_use]
pub struct Request {
    method: String,
    target: String,
    version: &'static str,
    fields: Vec<(String, String)>,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    None,
    Sized(Vec<u8>),
    Chunks(Vec<Vec<u8>>),
}

impl Request {
    /// A request without a body.
    pub fn new(method: &str, target: &str) -> Self {
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, version: "HTTP/1.1", fields: Vec::new(), body: Body::None }
    }

    /// `GET target` to `host`.
    pub fn get(host: &str, target: &str) -> Self {
        Self::new("GET", target).header("Host", host)
    }

    /// `HEAD target` to `host`.
    pub fn head(host: &str, target: &str) -> Self {
        Self::new("HEAD", target).header("Host", host)
    }

    /// `POST target` to `host` with a `Content-Length`.
    pub fn post(host: &str, target: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("POST", target).header("Host", host).body(body)
    }

    /// Adds a field, also one that is already there.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends `body` with a `Content-Length`.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Body::Sized(body.into());
        self
    }

    /// Sends each of `chunks` as one chunk.
    pub fn chunks<C: AsRef<[u8]>>(mut self, chunks: &[C]) -> Self {
        self.body = Body::Chunks(chunks.iter().map(|chunk| chunk.as_ref().to_vec()).collect());
        self
    }

    /// Speaks HTTP/1.0.
    pub fn http10(mut self) -> Self {
        self.version = "HTTP/1.0";
        self
    }

    /// Adds `Connection: close`.
    pub fn close(self) -> Self {
        self.header("Connection", "close")
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The request line and the fields, with the framing field that the body needs.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} {}\r\n", self.method, self.target, self.version);
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match &self.body {
            Body::None => {}
            Body::Sized(body) => head.push_str(&format!("Content-Length: {}\r\n", body.len())),
            Body::Chunks(_) => head.push_str("Transfer-Encoding: chunked\r\n"),
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// The body as it goes over the wire.
    pub fn body_bytes(&self) -> Vec<u8> {
        match &self.body {
            Body::None => Vec::new(),
            Body::Sized(body) => body.clone(),
            Body::Chunks(chunks) => {
                let mut wire = Vec::new();
                for chunk in chunks {
                    wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    wire.extend_from_slice(chunk);
                    wire.extend_from_slice(b"\r\n");
                }
                wire.extend_from_slice(b"0\r\n\r\n");
                wire
            }
        }
    }

    /// The bytes of the request.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes();
        bytes.extend(self.body_bytes());
        bytes
    }
}
